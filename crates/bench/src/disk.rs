//! What the disk itself can do: appending an entry and waiting until it is on the disk, one after another.
//! Nothing that is durable one by one can be faster.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::pace::{self, Latencies};

/// As long as the log entry of a batch with two events.
const ENTRY: [u8; 256] = [7; 256];

/// How many a second, and how long each took.
pub(crate) fn syncs(folder: &Path, span: Duration) -> std::io::Result<(f64, Latencies)> {
    let mut file = File::create(folder.join("syncs"))?;
    let mut latencies = pace::latencies();
    let started = Instant::now();
    while started.elapsed() < span {
        let begun = Instant::now();
        file.write_all(&ENTRY)?;
        file.sync_data()?;
        pace::record(&mut latencies, begun.elapsed());
    }
    Ok((latencies.len() as f64 / started.elapsed().as_secs_f64(), latencies))
}
