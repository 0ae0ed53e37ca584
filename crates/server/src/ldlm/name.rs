//! The names of LDLM's locks as names of pools. LDLM takes any text of any length; a pool's name is bounded.

use ring::digest::{SHA256, digest};
use tenure_core::PoolName;

/// What a name begins with that stands for another. Locks whose own names begin so are named by another one too, and so
/// no two locks share a pool.
const STANDS_FOR: &str = "ldlm:sha256:";
/// How much of a name is still told, for people.
const TOLD_CHARS_MAX: usize = 32;

/// The pool of a lock of LDLM's clients: of the same name if it can be, else of one made from its digest. The name is not
/// empty.
pub fn pool_of_lock(name: &str) -> PoolName {
    if !name.starts_with(STANDS_FOR)
        && let Ok(same) = PoolName::parse(name)
    {
        return same;
    }
    let mut stands_for = STANDS_FOR.to_owned();
    for byte in digest(&SHA256, name.as_bytes()).as_ref() {
        stands_for.extend([byte >> 4, byte & 0xf].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    }
    stands_for.push(':');
    stands_for.extend(name.chars().take(TOLD_CHARS_MAX).flat_map(char::escape_debug));
    PoolName::parse(&stands_for).expect("a digest and 32 escaped characters are short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_name_is_the_pools() {
        for name in ["db", "a/b c", "größe 🔒", &"x".repeat(512)] {
            assert_eq!(pool_of_lock(name).as_str(), name);
        }
    }

    #[test]
    fn any_other_name_has_one_of_its_own() {
        let long = "x".repeat(100_000);
        let longer = "x".repeat(100_001);
        let odd = ["a\nb", "a\\nb\0", "\u{85}", &long, &longer, &"\u{7f}".repeat(600), &"\u{10ffff}".repeat(600)];
        let pools: Vec<_> = odd.iter().map(|name| pool_of_lock(name)).collect();
        for (at, name) in pools.iter().enumerate() {
            assert!(name.as_str().starts_with(STANDS_FOR));
            assert!(!pools[..at].contains(name));
        }
        assert!(pools[0].as_str().ends_with(":a\\nb"), "{}", pools[0]);
    }

    #[test]
    fn a_name_that_looks_made_is_not_taken_for_the_one_it_was_made_for() {
        let made = pool_of_lock("a\nb");
        assert_ne!(pool_of_lock(made.as_str()), made);
    }
}
