//! The keyboard while `tenure top` is on the screen: keys come one by one and are not echoed, and the terminal is put back as
//! it was however the program ends.

use std::io::{IsTerminal, stdin};

use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

pub(super) struct Keys {
    /// As the terminal was; none if nobody types on it.
    before: Option<Termios>,
    typed: Option<mpsc::UnboundedReceiver<u8>>,
}

impl Keys {
    /// Nobody types.
    pub(super) fn none() -> Self {
        Self { before: None, typed: None }
    }

    pub(super) fn listen() -> Self {
        if !stdin().is_terminal() {
            return Self::none();
        }
        let Ok(before) = tcgetattr(stdin()) else { return Self::none() };
        let keys = Self { before: Some(before), typed: Some(read()) };
        keys.again();
        keys
    }

    /// Sets the terminal up, for the first time or after it was given back.
    pub(super) fn again(&self) {
        if let Some(before) = &self.before {
            let mut raw = before.clone();
            // Ctrl-C and Ctrl-Z stay what they are.
            raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
    }

    /// Waits for somebody who wants to leave.
    pub(super) async fn quit(&mut self) {
        let Some(typed) = &mut self.typed else { return std::future::pending().await };
        loop {
            match typed.recv().await {
                Some(key) if leaves(key) => return,
                Some(_) => {}
                // The keyboard is gone; signals are not.
                None => return std::future::pending().await,
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// On a thread of its own that nobody waits for: a read cannot be given up.
fn read() -> mpsc::UnboundedReceiver<u8> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        loop {
            // Not through the standard library, which reads ahead: what is typed after the last key is the shell's.
            match rustix::io::read(stdin(), &mut byte) {
                Ok(1) if sender.send(byte[0]).is_ok() && !leaves(byte[0]) => {}
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
    });
    receiver
}

fn leaves(key: u8) -> bool {
    matches!(key, b'q' | b'Q')
}
