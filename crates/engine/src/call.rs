//! Commands as futures: what a front end with one caller per call needs on top of [`Engine::submit`].

use std::sync::Arc;

use tenure_core::{Acquire, Command, Reply};

use crate::{Engine, Failure, ReplyTo, Ticket, answers};

/// Calls that wait for their answer.
pub trait Calls {
    /// For every command but an acquire that may wait: its first answer is its only one.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, Failure>> + Send;

    fn acquire(&self, acquire: Acquire) -> Result<Acquiring, Failure>;
}

impl Calls for Arc<dyn Engine> {
    async fn call(&self, command: Command) -> Result<Reply, Failure> {
        let (answers, mut received) = answers::channel();
        self.submit(command, ReplyTo { id: 0, answers, returns: false })?;
        received.recv().await.ok_or(Failure::Lost)?.reply
    }

    fn acquire(&self, acquire: Acquire) -> Result<Acquiring, Failure> {
        let (answers, received) = answers::channel();
        let ticket = self.submit(Command::Acquire(acquire), ReplyTo { id: 0, answers, returns: false })?;
        Ok(Acquiring { engine: self.clone(), ticket, received, settled: false })
    }
}

/// An acquire under way. Dropping it before it is settled hangs up: the queue is left, and a grant that was
/// on its way is taken back.
pub struct Acquiring {
    engine: Arc<dyn Engine>,
    ticket: Ticket,
    received: answers::Receiver,
    settled: bool,
}

impl Acquiring {
    /// Names it, for whoever hands its grant on and may have to give it back.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The next answer: at first granted, refused or queued; after queued, what came of the wait.
    pub async fn next(&mut self) -> Result<Reply, Failure> {
        let reply = self.received.recv().await.ok_or(Failure::Lost).and_then(|answered| answered.reply);
        self.settled = !matches!(reply, Ok(Reply::Queued(_)));
        reply
    }

    /// What came of it, however long it takes.
    pub async fn settle(mut self) -> Result<Reply, Failure> {
        loop {
            match self.next().await {
                Ok(Reply::Queued(_)) => {}
                settled => return settled,
            }
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.received.close();
        let mut unreceived = None;
        while let Some(answered) = self.received.try_recv() {
            if let Ok(Reply::Granted(grant)) = answered.reply {
                unreceived = Some(grant.token);
            }
        }
        self.engine.hang_up(self.ticket, unreceived);
    }
}

impl std::fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquiring")
            .field("ticket", &self.ticket)
            .field("settled", &self.settled)
            .finish_non_exhaustive()
    }
}
