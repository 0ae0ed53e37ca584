//! Which pools a command asks for, and how much of each: one as the argument, more with `-p`.

use std::str::FromStr;

use tenure_client::{Acquire, v1};

use crate::arguments::{Demand, Units};

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Pools {
    /// The pool; an unknown one becomes a pool of one unit, a lock
    #[arg(required_unless_present = "pools")]
    pool: Option<String>,
    /// A pool to be had together with the others, all or none of them, such as gpu:2 or 'gpu:2?mem >= 80'; may be repeated
    #[arg(short = 'p', long = "pool", value_name = "POOL[:N[/SIZE]][?EXPR]")]
    pools: Vec<One>,
    /// This holder lets go of nothing while it waits: refuse a wait that could never end because of that
    #[arg(long)]
    holds_on: bool,
}

/// What is asked of one pool.
#[derive(Clone, Debug)]
struct One(v1::Part);

impl FromStr for One {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rest, select) = match text.split_once('?') {
            Some((rest, select)) => (rest, Some(select.to_owned())),
            None => (text, None),
        };
        // Names may have colons too: only what is an amount is taken for one.
        let named = rest.rsplit_once(':').and_then(|(pool, amount)| Some((pool, amounts(amount)?)));
        let (pool, (units, size)) = named.unwrap_or((rest, (Units::Count(1), None)));
        if pool.is_empty() {
            return Err("expected the name of a pool, such as db or gpu:2");
        }
        let (units, all) = match units {
            Units::Count(count) => (Some(count), false),
            Units::All => (None, true),
        };
        Ok(Self(v1::Part { pool: pool.to_owned(), units, all, select, size }))
    }
}

/// `2`, `all` or `2/4`.
fn amounts(text: &str) -> Option<(Units, Option<u32>)> {
    match text.split_once('/') {
        Some((units, size)) => Some((units.parse().ok()?, Some(size.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

impl Pools {
    /// For people.
    pub(crate) fn names(&self) -> String {
        self.pool
            .iter()
            .chain(self.pools.iter().map(|one| &one.0.pool))
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The first, and what is wanted of the others.
    fn parts(&self, demand: &Demand) -> (v1::Part, Vec<v1::Part>) {
        let (units, all) = match demand.units {
            Units::Count(count) => (Some(count), false),
            Units::All => (None, true),
        };
        let first = self.pool.as_ref().map(|pool| v1::Part {
            pool: pool.clone(),
            units,
            all,
            select: demand.select.clone(),
            size: demand.size,
        });
        let mut parts = first.into_iter().chain(self.pools.iter().map(|one| one.0.clone()));
        let first = parts.next().expect("without the argument there is an option");
        (first, parts.collect())
    }

    pub(crate) fn fill(&self, demand: &Demand, request: &mut v1::AcquireRequest) {
        let (first, also) = self.parts(demand);
        request.pool = first.pool;
        (request.units, request.all) = (first.units, first.all);
        (request.select, request.size) = (first.select, first.size);
        (request.also, request.holds_on) = (also, self.holds_on);
        request.dirty = demand.dirty;
        request.priority = demand.priority;
    }

    /// The same for a client that holds what it asks for.
    pub(crate) fn ask(&self, demand: &Demand, client: &tenure_client::Client) -> Acquire {
        let (first, also) = self.parts(demand);
        let mut acquire = client.acquire(first.pool);
        acquire = match first.units {
            Some(units) => acquire.units(units),
            None => acquire.all(),
        };
        if let Some(select) = first.select {
            acquire = acquire.select(select);
        }
        if let Some(size) = first.size {
            acquire = acquire.size(size);
        }
        if demand.dirty {
            acquire = acquire.dirty();
        }
        if self.holds_on {
            acquire = acquire.holds_on();
        }
        also.into_iter().fold(acquire, Acquire::and).priority(demand.priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_said_with_how_much_of_it_and_which() {
        let part = |pool: &str, units, size, select: Option<&str>| v1::Part {
            pool: pool.into(),
            units,
            all: units.is_none(),
            select: select.map(str::to_owned),
            size,
        };
        for (text, expected) in [
            ("db", part("db", Some(1), None, None)),
            ("gpu:2", part("gpu", Some(2), None, None)),
            ("gpu:all", part("gpu", None, None, None)),
            ("api:5/100", part("api", Some(5), Some(100), None)),
            ("gpu:2?mem >= 80 && !old", part("gpu", Some(2), None, Some("mem >= 80 && !old"))),
            ("gpu?zone == \"a:7\"", part("gpu", Some(1), None, Some("zone == \"a:7\""))),
            ("db:main", part("db:main", Some(1), None, None)),
            ("db:main:3", part("db:main", Some(3), None, None)),
            ("a/b", part("a/b", Some(1), None, None)),
        ] {
            assert_eq!(text.parse::<One>().unwrap().0, expected, "{text}");
        }
        assert!("".parse::<One>().is_err() && ":2".parse::<One>().is_err());
    }
}
