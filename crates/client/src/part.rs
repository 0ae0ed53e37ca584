//! What is wanted of one more pool, for an acquire over several.

use tenure_proto::v1;

/// What an acquire wants of one more pool, besides its first. A name alone is one unit of that pool.
#[derive(Clone, Debug)]
#[must_use = "it says what to ask for, and asks nothing"]
pub struct Part(pub(crate) v1::Part);

impl Part {
    /// One unit or resource of this pool, unless more is said.
    pub fn of(pool: impl Into<String>) -> Self {
        Self(v1::Part { pool: pool.into(), ..v1::Part::default() })
    }

    /// How many units or resources.
    pub fn units(mut self, units: u32) -> Self {
        (self.0.units, self.0.all) = (Some(units), false);
        self
    }

    /// Everything there is.
    pub fn all(mut self) -> Self {
        (self.0.units, self.0.all) = (None, true);
        self
    }

    /// Which resources of a pool of named ones.
    pub fn select(mut self, expression: impl Into<String>) -> Self {
        self.0.select = Some(expression.into());
        self
    }

    /// The size the pool must have; a pool that is not known comes to be with it.
    pub fn size(mut self, size: u32) -> Self {
        self.0.size = Some(size);
        self
    }
}

impl From<&str> for Part {
    fn from(pool: &str) -> Self {
        Self::of(pool)
    }
}

impl From<v1::Part> for Part {
    fn from(part: v1::Part) -> Self {
        Self(part)
    }
}
