//! Every environment variable that is read. A flag wins over its variable, and a variable over the configuration file.

pub(crate) const CONFIG: &str = "TENURE_CONFIG";
pub(crate) const DATA: &str = "TENURE_DATA";
pub(crate) const GRPC: &str = "TENURE_GRPC";
pub(crate) const HTTP: &str = "TENURE_HTTP";
pub(crate) const DURABILITY: &str = "TENURE_DURABILITY";
pub(crate) const HISTORY_AGE: &str = "TENURE_HISTORY_AGE";
pub(crate) const HISTORY_BYTES: &str = "TENURE_HISTORY_BYTES";
pub(crate) const MAILBOX_MAX: &str = "TENURE_MAILBOX_MAX";
pub(crate) const POOLS_MAX: &str = "TENURE_POOLS_MAX";
pub(crate) const HOLDS_MAX: &str = "TENURE_HOLDS_MAX";
pub(crate) const SESSIONS_MAX: &str = "TENURE_SESSIONS_MAX";
pub(crate) const WAITERS_MAX: &str = "TENURE_WAITERS_MAX";
pub(crate) const WAITERS_PER_POOL_MAX: &str = "TENURE_WAITERS_PER_POOL_MAX";
pub(crate) const POOL_IDLE: &str = "TENURE_POOL_IDLE";
pub(crate) const KEEPALIVE_INTERVAL: &str = "TENURE_KEEPALIVE_INTERVAL";
pub(crate) const KEEPALIVE_TIMEOUT: &str = "TENURE_KEEPALIVE_TIMEOUT";
pub(crate) const TLS_CERT: &str = "TENURE_TLS_CERT";
pub(crate) const TLS_KEY: &str = "TENURE_TLS_KEY";
pub(crate) const CLIENT_CA: &str = "TENURE_CLIENT_CA";
pub(crate) const DEFAULT_LOCK_TIMEOUT: &str = "TENURE_DEFAULT_LOCK_TIMEOUT";
pub(crate) const NO_CLEAR_ON_DISCONNECT: &str = "TENURE_NO_CLEAR_ON_DISCONNECT";
pub(crate) const REST_SESSION_TIMEOUT: &str = "TENURE_REST_SESSION_TIMEOUT";
pub(crate) const ENGINE: &str = "TENURE_ENGINE";
pub(crate) const KEEPERS: &str = "TENURE_KEEPERS";
pub(crate) const TEMPORAL: &str = "TENURE_TEMPORAL";
pub(crate) const TEMPORAL_NAMESPACE: &str = "TENURE_TEMPORAL_NAMESPACE";
pub(crate) const TEMPORAL_QUEUES: &str = "TENURE_TEMPORAL_QUEUES";
pub(crate) const LOG: &str = "TENURE_LOG";
pub(crate) const LOG_FORMAT: &str = "TENURE_LOG_FORMAT";

/// Of the server and of those who talk to it: the password, or the file it is in.
pub(crate) const PASSWORD: &str = "TENURE_PASSWORD";
pub(crate) const PASSWORD_FILE: &str = "TENURE_PASSWORD_FILE";

/// Of commands that talk to a server.
pub(crate) const ADDR: &str = "TENURE_ADDR";
pub(crate) const NAMESPACE: &str = "TENURE_NAMESPACE";
pub(crate) const TLS_CA: &str = "TENURE_TLS_CA";
pub(crate) const CLIENT_CERT: &str = "TENURE_CLIENT_CERT";
pub(crate) const CLIENT_KEY: &str = "TENURE_CLIENT_KEY";
pub(crate) const HOLDER: &str = "TENURE_HOLDER";
/// The key of a hold, for `renew` and `release`; `acquire --eval` sets it.
pub(crate) const KEY: &str = "TENURE_KEY";
/// The id of a request, which is as good as a key.
pub(crate) const REQUEST_ID: &str = "TENURE_REQUEST_ID";

/// Of everybody's: no colour if it is set to anything, and what the terminal can do.
pub(crate) const NO_COLOR: &str = "NO_COLOR";
pub(crate) const TERM: &str = "TERM";
