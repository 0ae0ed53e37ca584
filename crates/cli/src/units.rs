//! Durations and sizes as people type them: `30s`, `1.5h`, `512MiB`.

use std::time::Duration;

/// A number and a unit: ms, s, m, h or d. Fractions are allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    let seconds = number(text, &units).ok_or("expected a number and ms, s, m, h or d, such as 30s or 7d")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())
}

/// A duration as `flock` takes it: a bare number is seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| "expected a time from 0 on".to_owned()),
        Err(_) => duration(text).map_err(|why| why.replace("such as 30s or 7d", "such as 30s or 5m")),
    }
}

/// Rounded up: what is asked for is not cut short, and something is never nothing.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A number and a unit: B, KiB, MiB, GiB or TiB. Fractions are allowed.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("KiB", 1024.0),
        ("MiB", 1024.0 * 1024.0),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
        ("TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
        ("B", 1.0),
    ];
    let bytes = number(text, &units).ok_or("expected a number and B, KiB, MiB, GiB or TiB, such as 1GiB")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err("too large".to_owned()) }
}

fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("1.5h", 5_400_000), ("7d", 604_800_000), ("0.5s", 500)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1w", "1.2.3s", "9999999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_a_number_and_a_unit() {
        for (text, size) in [("512B", 512), ("1KiB", 1024), ("1.5MiB", 1_572_864), ("2 GiB", 2_147_483_648)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "1", "1GB", "-1B", "99999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
