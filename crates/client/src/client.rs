//! The client as an application holds it: how it is made, what can be asked of it, how it is closed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_proto::v1;
use tokio::sync::{mpsc, oneshot, watch};

use crate::access::{Access, Source};
use crate::acquire::Acquire;
use crate::address::Address;
use crate::connection;
use crate::error::Error;
use crate::guard::Guard;
use crate::link::{Api, Target};
use crate::session::{Ask, Identity, Note};

const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// So that it can be added to any time.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// Holders' names have a limit on the server; a made-up one keeps well below it.
const HOLDER_PART_CHARACTERS_MAX: usize = 64;

/// A connection to a server, with a session, for any number of tasks. Clones share it.
///
/// When the last clone and all guards are dropped, the session ends in the background; [`Client::close`] waits for it.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// What clients, guards and waiting acquires say to the connection's thread. Its end is theirs.
pub(crate) struct Handle {
    pub(crate) asks: mpsc::Sender<Ask>,
    /// Unbounded, because drops cannot wait. There is at most one note for each guard and each acquire there is.
    pub(crate) notes: mpsc::UnboundedSender<Note>,
    ids: Arc<AtomicU64>,
    api: Api,
    trouble: watch::Receiver<Option<Error>>,
    holder: String,
    address: String,
}

impl Client {
    /// How to connect, and as whom. The address is `host:port`, `host` (port 3144), `http://host:port`
    /// or, to speak TLS, `https://host:port`.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder {
            address: address.into(),
            holder: None,
            meta: BTreeMap::new(),
            namespace: String::new(),
            session_grace: GRACE_DEFAULT,
            access: Access::default(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
        }
    }

    /// Connects with the defaults of [`Client::builder`].
    pub async fn connect(address: impl Into<String>) -> Result<Self, Error> {
        Self::builder(address).connect().await
    }

    /// Takes one unit of a pool on a lease of 30 s that is renewed for as long as the guard lives, and waits for it
    /// however long it takes.
    pub async fn lock(&self, pool: &str) -> Result<Guard, Error> {
        self.acquire(pool).await
    }

    /// The same without waiting: `None` if there is no room now.
    pub async fn try_lock(&self, pool: &str) -> Result<Option<Guard>, Error> {
        match self.acquire(pool).no_wait().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says in detail what is wanted; `.await` it to ask.
    pub fn acquire(&self, pool: impl Into<String>) -> Acquire {
        Acquire::new(self.handle.clone(), pool.into())
    }

    /// Every call of the server with its own messages, over a connection of its own that is made when it is first used
    /// and mended by itself, with what is in the files then if password or certificates are in files. It works as long as a client or a guard lives; [`connect_api`] is for those who need neither.
    /// [`Error::of_status`] says what a failed call means.
    pub fn api(&self) -> Api {
        self.handle.api.clone()
    }

    /// Who asks, unless an acquire says otherwise.
    pub fn holder(&self) -> &str {
        &self.handle.holder
    }

    /// Why there is no connection to the server just now, although one is being made; none if there is one.
    pub fn trouble(&self) -> Option<Error> {
        self.handle.trouble.borrow().clone()
    }

    /// Where the server is, as it was given.
    pub fn address(&self) -> &str {
        &self.handle.address
    }

    /// Ends the session in good order: waits end with [`Error::Closed`], what guards hold is released and they are lost
    /// as [`Lost::Closed`](crate::Lost::Closed). Places in rate windows go on until they end by themselves.
    pub async fn close(self) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        if self.handle.notes.send(Note::Close { answer }).is_err() {
            return Ok(());
        }
        answered.await.unwrap_or(Ok(()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.handle.address).field("holder", &self.handle.holder).finish()
    }
}

impl Handle {
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// How to connect, and as whom.
#[derive(Clone, Debug)]
#[must_use = "nothing is done before `connect`"]
pub struct Builder {
    address: String,
    holder: Option<String>,
    meta: BTreeMap<String, String>,
    namespace: String,
    session_grace: Duration,
    connect_timeout: Duration,
    access: Access,
}

impl Builder {
    /// Who asks: others see it while they wait. If left out, `user@host:pid` ([`default_holder`]).
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// More about the holder, such as a reason or a link.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(name.into(), value.into());
        self
    }

    /// Whose pools; `default` if left out.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long the session, with its places in queues and the holds that live as long as it, outlives a lost connection:
    /// 30 s if left out. The server is asked for a sign of life three times in it, so it should be well above what that takes:
    /// below 100 ms such holds may be lost on a good line.
    pub fn session_grace(mut self, grace: Duration) -> Self {
        self.session_grace = grace;
        self
    }

    /// How long to wait for the server when connecting: 5 s if left out.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(CONNECT_TIMEOUT_MAX);
        self
    }

    /// What the server wants to hear before it does anything.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.access.password = Some(Source::Given(password.into().into_bytes()));
        self
    }

    /// The same from a file, without the line's end after it. It is read for every connection that is made, also for those
    /// that mend a broken one: whoever replaces it need not restart this process. A file that cannot be read or used is an
    /// error when connecting, and later like a server that cannot be reached: it is tried again. This holds for all files
    /// named here.
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.access.password = Some(Source::file(path.into()));
        self
    }

    /// Trusts only servers whose certificate one of these authorities has signed, in PEM form, instead of those that the
    /// system trusts. An address without a scheme is then spoken to in TLS.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access.ca = Some(Source::Given(pem.into()));
        self
    }

    /// The same from a file, read for every connection that is made, as with [`Builder::password_file`].
    pub fn tls_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.access.ca = Some(Source::file(path.into()));
        self
    }

    /// Shows a certificate of this client's own, for servers that want to see one; in PEM form, with its private key. An
    /// address without a scheme is then spoken to in TLS.
    pub fn tls_identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.access.identity = Some((Source::Given(certificate.into()), Source::Given(key.into())));
        self
    }

    /// The same from two files, read for every connection that is made, as with [`Builder::password_file`]: certificates may
    /// be short-lived.
    pub fn tls_identity_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.access.identity = Some((Source::file(certificate.into()), Source::file(key.into())));
        self
    }

    /// Connects and opens the session. Fails at once if nobody listens, or somebody else; only connections that break
    /// later are mended.
    pub async fn connect(self) -> Result<Client, Error> {
        let address = parse(self.address)?;
        let target = Target::new(address, self.access, self.connect_timeout)?;
        let given = target.address.given.clone();
        let holder = self.holder.unwrap_or_else(default_holder);
        let (asks, asked) = mpsc::channel(connection::ASKS_MAX);
        let (notes, noted) = mpsc::unbounded_channel();
        let (greeting, greeted) = oneshot::channel();
        let ids = Arc::new(AtomicU64::new(1));
        let identity = Identity {
            address: given.clone(),
            holder: holder.clone(),
            meta: self.meta,
            namespace: self.namespace,
            grace: self.session_grace,
            connect_timeout: self.connect_timeout,
        };
        let mailbox = connection::Mailbox { asks: asked, notes: noted };
        let (api, trouble) = connection::start(target, identity, ids.clone(), mailbox, greeting)?;
        let handle = Handle { asks, notes, ids, api, trouble, holder, address: given };
        let client = Client { handle: Arc::new(handle) };
        greeted.await.unwrap_or(Err(Error::Closed))?;
        Ok(client)
    }

    /// Connects without a session, for operators who look and change but hold nothing. A call is made to see who is there.
    pub async fn connect_api(self) -> Result<Api, Error> {
        let target = Target::new(parse(self.address)?, self.access, self.connect_timeout)?;
        let attempt = async {
            let mut api = target.connect().await?;
            let look = v1::ListPoolsRequest { limit: Some(1), ..v1::ListPoolsRequest::default() };
            match api.list_pools(look).await {
                Ok(_) => Ok(api),
                Err(status) => Err(target.diagnose(status).await),
            }
        };
        let timed_out = || Error::Unreachable {
            address: target.address.given.clone(),
            why: format!("it does not answer within {:?}", self.connect_timeout),
        };
        tokio::time::timeout(self.connect_timeout, attempt).await.unwrap_or_else(|_| Err(timed_out()))
    }
}

/// Connects without a session, for operators who look and change but hold nothing. A call is made to see who is there.
/// [`Builder::connect_api`] is for servers that want a password or speak TLS.
pub async fn connect_api(address: &str) -> Result<Api, Error> {
    Client::builder(address).connect_api().await
}

fn parse(address: String) -> Result<Address, Error> {
    Address::parse(address).map_err(|(address, why)| Error::Unreachable { address, why })
}

/// Who this process is to others if it does not say: `user@host:pid`.
pub fn default_holder() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let part = |text: Option<String>, otherwise: &str| {
        let text = text.unwrap_or_default();
        let clean: String = text.chars().filter(|c| !c.is_control()).take(HOLDER_PART_CHARACTERS_MAX).collect();
        if clean.is_empty() { otherwise.to_owned() } else { clean }
    };
    format!("{}@{}:{}", part(user, "somebody"), part(host(), "localhost"), std::process::id())
}

#[cfg(unix)]
fn host() -> Option<String> {
    Some(rustix::system::uname().nodename().to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_is_not_named_says_who_where_and_which_process() {
        let holder = default_holder();
        assert!(holder.contains('@'), "{holder}");
        assert!(holder.ends_with(&format!(":{}", std::process::id())), "{holder}");
    }
}
