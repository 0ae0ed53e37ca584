//! What the disk itself can do: appending an entry and waiting until it is on the disk, one after another.
//! Nothing that is durable one by one can be faster.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// As long as the log entry of a batch with two events.
const ENTRY: [u8; 256] = [7; 256];

pub(crate) fn syncs(folder: &Path, span: Duration) -> std::io::Result<f64> {
    let mut file = File::create(folder.join("syncs"))?;
    let started = Instant::now();
    let mut syncs = 0_u64;
    while started.elapsed() < span {
        file.write_all(&ENTRY)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / started.elapsed().as_secs_f64())
}
