//! Randomness: ids that nobody guesses, and pauses that do not all end at once.

use std::time::Duration;

/// 128 random bits as text: an id for a request. It is as good as a key to whoever knows it.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

/// How long to pause after so many failures in a row: doubling from `first` to `most`, and a random half of it less, so
/// that many clients do not come back at the same moment.
pub(crate) fn pause(failures: u32, first: Duration, most: Duration) -> Duration {
    let whole = first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(most);
    let part = getrandom::u32().expect("the operating system has randomness") % 512;
    whole - whole / 1024 * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_128_bits_and_differ() {
        let (one, other) = (random_id(), random_id());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn pauses_grow_to_the_most_and_no_further() {
        let (first, most) = (Duration::from_millis(50), Duration::from_secs(2));
        for failures in 0..100 {
            let pause = pause(failures, first, most);
            assert!(pause >= first / 2 && pause <= most, "{pause:?} after {failures} failures");
        }
        assert!(pause(1, first, most) <= first);
        assert!(pause(20, first, most) >= most / 2);
    }
}
