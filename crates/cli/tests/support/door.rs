//! An address that stays the same while the server behind it is killed and started again on another port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Door {
    pub(crate) address: String,
    behind: Arc<Mutex<String>>,
}

impl Door {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let behind = Arc::new(Mutex::new(server.to_owned()));
        let target = behind.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let target = target.lock().expect("nobody panics with it").clone();
                // Nobody is there: the client is hung up on, and may try again.
                if let Ok(server) = TcpStream::connect(target) {
                    join(client, server);
                }
            }
        });
        Self { address, behind }
    }

    /// Who knocks from now on gets to this server.
    pub(crate) fn leads_to(&self, server: &str) {
        server.clone_into(&mut self.behind.lock().expect("nobody panics with it"));
    }
}

/// Passes on what each says to the other, until either hangs up.
fn join(client: TcpStream, server: TcpStream) {
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
    for (mut from, mut to) in [(from_client, server), (from_server, client)] {
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                if to.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
