//! Every environment variable that is read. A flag wins over its variable.

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
pub(crate) const LOG: &str = "TENURE_LOG";
pub(crate) const LOG_FORMAT: &str = "TENURE_LOG_FORMAT";
