//! The terminal while the picture is on it: the alternate screen without a cursor, left again however the program ends.

use std::io::{IsTerminal, stdout};

use nix::sys::signal::{Signal, raise};
use nix::unistd::{getppid, getsid};
use tokio::signal::unix::{self, SignalKind};

use super::picture::Line;
use crate::exit::Exit;
use crate::{env, output};

const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?1049l\x1b[?25h";
/// Of a terminal that does not say.
const SIZE: (usize, usize) = (80, 24);
/// Longer lines are hard to follow.
const COLUMNS_MAX: usize = 120;

pub(crate) struct Screen {
    colour: bool,
    /// Ctrl-Z.
    stop: unix::Signal,
}

impl Screen {
    /// None if stdout is no terminal, or one that cannot be drawn on.
    pub(crate) fn open() -> Result<Option<Self>, Exit> {
        let plain = std::env::var(env::TERM).is_ok_and(|name| name == "dumb");
        if plain || !stdout().is_terminal() {
            return Ok(None);
        }
        let colour = std::env::var_os(env::NO_COLOR).is_none_or(|value| value.is_empty());
        let stop = unix::signal(SignalKind::from_raw(Signal::SIGTSTP as i32)).map_err(Exit::Setup)?;
        output::print(ENTER)?;
        Ok(Some(Self { colour, stop }))
    }

    pub(crate) fn rows(&self) -> usize {
        size().1
    }

    /// Draws over what was there, in one piece, so that nothing flickers. False if nobody looks any more.
    pub(crate) fn draw(&self, lines: &[Line]) -> Result<bool, Exit> {
        // What is written into the last column would be cleared with the rest of the line.
        let columns = (size().0 - 1).min(COLUMNS_MAX);
        let lines: Vec<_> = lines.iter().map(|line| format!("{}\x1b[K", line.render(columns, self.colour))).collect();
        output::print(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }

    /// Waits for Ctrl-Z, gives the terminal back while the process is stopped, and returns when it goes on. For ever if
    /// there is no screen.
    pub(crate) async fn suspended(screen: &mut Option<&mut Self>) {
        let Some(screen) = screen else { return std::future::pending().await };
        screen.stop.recv().await;
        // Without a shell in the same session nobody would let it go on.
        if getsid(Some(getppid())) == getsid(None) {
            let _ = output::print(LEAVE);
            let _ = raise(Signal::SIGSTOP);
            let _ = output::print(ENTER);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If it cannot be written to there is nothing to restore.
        let _ = output::print(LEAVE);
    }
}

/// Columns and rows.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE,
    }
}
