//! What the disk can do for a program that does nothing special: appending an entry to a file and waiting until it is on the disk, one
//! after another. It is no limit: our log is synced sooner, because its files are there beforehand and it is written past the system's memory.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::pace::{Latencies, Pace};

/// As long as the log entry of a batch with two events.
const ENTRY: [u8; 256] = [7; 256];

/// How many a second, and how long each took.
pub(crate) fn syncs(folder: &Path, span: Duration) -> std::io::Result<(f64, Latencies)> {
    let mut file = File::create(folder.join("syncs"))?;
    let started = Instant::now();
    let mut latencies = Latencies::since(started);
    while started.elapsed() < span {
        let begun = Instant::now();
        file.write_all(&ENTRY)?;
        file.sync_data()?;
        latencies.record(begun, begun.elapsed());
    }
    Ok((latencies.all.len() as f64 / started.elapsed().as_secs_f64(), latencies))
}

/// How long each takes from when it was due, when `rate` of them are due a second: the loop that acquires are measured by, without a server.
pub(crate) fn paced_syncs(folder: &Path, rate: f64, span: Duration) -> std::io::Result<Latencies> {
    let mut file = File::create(folder.join("syncs"))?;
    let mut latencies = Latencies::since(Instant::now());
    let mut pace = Pace::new(rate, span);
    while let Some(due) = pace.due() {
        for due in due {
            file.write_all(&ENTRY)?;
            file.sync_data()?;
            latencies.record(due, due.elapsed());
        }
        // To be woken takes as long as some syncs, so this stays awake; but what the system has to do for the disk comes first, or it is
        // put off until this thread has had its time.
        std::thread::yield_now();
    }
    Ok(latencies)
}
