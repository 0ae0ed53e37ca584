//! The semaphore by workflow id: a workflow that runs is a permit that is held, and its id says which. All there is to it is
//! how it ends: by the signal `release`, or when its lease is over.

use std::time::Duration;

use super::wire::{self, PermitInput};

/// The longest lease, 100 years: beyond it numbers lose their meaning, and a permit is as good as kept.
const LEASE_MAX_SECONDS: f64 = 100.0 * 366.0 * 24.0 * 60.0 * 60.0;

/// How long the permit is held at most; none if only its release ends it.
pub(crate) fn lease(input: Option<&[u8]>) -> Result<Option<Duration>, String> {
    let input: PermitInput = wire::read(input)?;
    input.lease_seconds.map(lease_of).transpose()
}

fn lease_of(seconds: f64) -> Result<Duration, String> {
    if !(0.0..=LEASE_MAX_SECONDS).contains(&seconds) {
        return Err(format!("lease_seconds is {seconds}; it must lie between 0 and 100 years"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_as_either_language_writes_it() {
        let input = br#"{"resource": "gpu", "slot": "0", "lease_seconds": 1.5}"#;
        assert_eq!(lease(Some(input)), Ok(Some(Duration::from_millis(1_500))));
        assert_eq!(lease(Some(br#"{"leaseSeconds": 30}"#)), Ok(Some(Duration::from_secs(30))));
        assert_eq!(lease(Some(br#"{"resource": "gpu", "slot": "0"}"#)), Ok(None));
    }

    #[test]
    fn a_lease_that_is_none_fails_its_workflow_and_nothing_else() {
        assert!(lease(Some(br#"{"lease_seconds": -1}"#)).is_err());
        assert!(lease(Some(br#"{"lease_seconds": 1e300}"#)).is_err());
        assert!(lease(Some(br#"{"lease_seconds": "soon"}"#)).is_err());
        assert!(lease(None).is_err());
    }
}
