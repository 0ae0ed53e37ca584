//! A line between client and server that can be cut, frozen or closed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    line: watch::Sender<Line>,
}

/// Connections are numbered from 1.
#[derive(Clone, Copy, Default)]
struct Line {
    newest: u64,
    /// These have ended.
    cut_up_to: u64,
    /// The bytes of these stay where they are; nobody hangs up.
    frozen_up_to: u64,
    /// New ones end at once.
    closed: bool,
}

impl Proxy {
    pub(crate) async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let line = watch::Sender::new(Line::default());
        tokio::spawn(serve(listener, target.clone(), line.clone()));
        Self { address, target, line }
    }

    /// Where the next connections lead.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    /// Ends every connection there is. New ones get through.
    pub(crate) fn cut(&self) {
        self.line.send_modify(|line| line.cut_up_to = line.newest);
    }

    /// Ends every connection there is, and every new one at once.
    pub(crate) fn close(&self) {
        self.line.send_modify(|line| (line.cut_up_to, line.closed) = (line.newest, true));
    }

    /// Nothing gets through, on this connection or another.
    pub(crate) fn freeze(&self) {
        self.line.send_modify(|line| line.frozen_up_to = u64::MAX);
    }

    /// Nothing gets through on the connections there are.
    pub(crate) fn freeze_what_is_there(&self) {
        self.line.send_modify(|line| line.frozen_up_to = line.newest);
    }

    pub(crate) fn open(&self) {
        self.line.send_modify(|line| (line.frozen_up_to, line.closed) = (0, false));
    }
}

async fn serve(listener: TcpListener, target: Arc<Mutex<SocketAddr>>, line: watch::Sender<Line>) {
    while let Ok((client, _)) = listener.accept().await {
        line.send_modify(|line| line.newest += 1);
        let Line { newest, closed, .. } = *line.borrow();
        if !closed {
            let target = *target.lock().unwrap();
            tokio::spawn(carry(client, target, line.subscribe(), newest));
        }
    }
}

async fn carry(client: TcpStream, target: SocketAddr, mut line: watch::Receiver<Line>, number: u64) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Without it every second message is held back for 40 ms.
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(from_client, to_server, line.clone(), number) => {}
        () = copy(from_server, to_client, line.clone(), number) => {}
        _ = line.wait_for(|line| number <= line.cut_up_to) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut line: watch::Receiver<Line>, number: u64) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // What is borrowed from the channel must be gone before the next await: nobody could change it meanwhile.
        let passing = line.wait_for(|line| number > line.frozen_up_to).await.is_ok();
        if !passing || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
