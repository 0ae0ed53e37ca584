//! Numbers in selectors and labels.

use core::cmp::Ordering;

/// A decimal number as its own digits: exact, where a float would call two long serial numbers equal.
#[derive(PartialEq, Eq)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    /// Without leading zeros.
    whole: &'a str,
    /// Without trailing zeros.
    fraction: &'a str,
}

impl<'a> Decimal<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        if [whole, fraction].iter().any(|part| part.is_empty() || part.bytes().any(|byte| !byte.is_ascii_digit())) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Self { negative: text.starts_with('-') && !is_zero, whole, fraction })
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |number: &Self| (number.whole.len(), number.whole, number.fraction);
        match (self.negative, other.negative) {
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
