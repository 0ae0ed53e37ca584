//! The signals that the wrapper passes on. One that it was started to ignore, as `nohup` does with SIGHUP, stays
//! ignored: listening would undo that for the command too.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Those by which a process is asked to end.
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Those that mean something to a running command only. SIGTSTP is what Ctrl-Z sends when the wrapper has the terminal.
const FOR_A_COMMAND: [Signal; 5] =
    [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];

#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// From here on SIGHUP, SIGINT, SIGQUIT and SIGTERM do not end this process: they are told by [`Self::next`].
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = Self(Vec::new());
        signals.add(&ENDING)?;
        Ok(signals)
    }

    /// From here on all that can be passed on are told.
    pub(super) fn listen_for_a_command(&mut self) -> io::Result<()> {
        self.add(&FOR_A_COMMAND)
    }

    /// The number of the next one. Can be dropped without losing any.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal as i32);
                }
            }
            Poll::Pending
        })
        .await
    }

    fn add(&mut self, signals: &[Signal]) -> io::Result<()> {
        let ignored = ignored();
        for signal in signals {
            if ignored & (1 << (*signal as i32 - 1)) == 0 {
                self.0.push((*signal, unix::signal(SignalKind::from_raw(*signal as i32))?));
            }
        }
        Ok(())
    }
}

/// One bit a signal, the lowest for the first.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
