//! A line between two programs, at an address that stays the same, on which bytes get lost or come late.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

pub(crate) struct Line {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    target: String,
    passes: Passes,
    /// Both ends of every connection there is or was since the line was last mended.
    ends: Vec<TcpStream>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Passes {
    #[default]
    Everything,
    /// What is said is lost, and nobody hangs up.
    Nothing,
    /// What is said arrives when the line is mended.
    Later,
}

impl Line {
    pub(crate) fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        shared.state().target = target.to_owned();
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let target = accepting.state().target.clone();
                // Nobody is there: the client is hung up on, and may try again.
                if let Ok(server) = TcpStream::connect(target) {
                    join(&accepting, &client, &server);
                }
            }
        });
        Self { address, shared }
    }

    /// Where the next connections lead.
    pub(crate) fn leads_to(&self, target: &str) {
        target.clone_into(&mut self.shared.state().target);
    }

    pub(crate) fn cut(&self) {
        self.shared.state().passes = Passes::Nothing;
    }

    pub(crate) fn delay(&self) {
        self.shared.state().passes = Passes::Later;
    }

    /// What was held back arrives. Connections on which something was lost end.
    pub(crate) fn mend(&self) {
        let mut state = self.shared.state();
        if state.passes == Passes::Nothing {
            state.ends.drain(..).for_each(|end| drop(end.shutdown(Shutdown::Both)));
        }
        state.passes = Passes::Everything;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn join(shared: &Arc<Shared>, client: &TcpStream, server: &TcpStream) {
    let both = || -> std::io::Result<()> {
        for (from, to) in [(client, server), (server, client)] {
            // Without it every second message is held back for 40 ms.
            from.set_nodelay(true)?;
            shared.state().ends.push(from.try_clone()?);
            let (shared, from, to) = (shared.clone(), from.try_clone()?, to.try_clone()?);
            thread::spawn(move || pass_on(&shared, from, to));
        }
        Ok(())
    };
    // It has hung up already.
    let _ = both();
}

fn pass_on(shared: &Shared, mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let state = shared.state();
        let state = shared.changed.wait_while(state, |state| state.passes == Passes::Later).unwrap();
        let lost = state.passes == Passes::Nothing;
        drop(state);
        if !lost && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
