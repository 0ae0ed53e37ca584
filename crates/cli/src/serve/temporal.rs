//! Whether the server works with a Temporal, and which. A build without the feature `temporal` knows the settings too,
//! and says how to get one that has it.

use std::sync::Arc;

use tenure_engine::Engine;

use crate::env;
use crate::exit::Exit;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Temporal {
    /// Serve the workflows of the Temporal at this address: activities, and holds that end with their workflow
    #[arg(
        long,
        value_name = "ADDR",
        env = env::TEMPORAL,
        default_value = "",
        hide_default_value = true,
    )]
    temporal: String,
    /// The namespace of Temporal
    #[arg(long, value_name = "NAME", env = env::TEMPORAL_NAMESPACE, default_value = "default")]
    temporal_namespace: String,
    /// The task queues on which to host pools, lock managers and permits for workflows, with commas between them
    #[arg(long, value_name = "NAMES", env = env::TEMPORAL_QUEUES, default_value = QUEUES_DEFAULT)]
    temporal_queues: String,
}

/// What `tenure temporal start-pool` takes too, unless it is told otherwise.
pub(crate) const QUEUES_DEFAULT: &str = "tenure-pools";

#[cfg(feature = "temporal")]
pub(crate) use built::connect;
#[cfg(not(feature = "temporal"))]
pub(crate) use built::not_built;

#[cfg(feature = "temporal")]
mod built {
    use super::*;
    use tenure_temporal::{Error, Settings};

    /// A connection.
    pub(crate) struct Link {
        link: Arc<tenure_temporal::Link>,
        queues: Vec<String>,
    }

    pub(crate) use tenure_temporal::Temporal as Running;

    impl Temporal {
        /// None if no Temporal was named.
        pub(crate) async fn connect(&self) -> Result<Option<Link>, Exit> {
            if self.temporal.is_empty() {
                return Ok(None);
            }
            let link = connect(&self.temporal, &self.temporal_namespace).await?;
            tracing::info!(address = self.temporal, namespace = self.temporal_namespace, "Temporal is there");
            let queues = self.temporal_queues.split(',').map(str::trim).filter(|queue| !queue.is_empty());
            Ok(Some(Link { link: Arc::new(link), queues: queues.map(str::to_owned).collect() }))
        }
    }

    pub(crate) async fn connect(address: &str, namespace: &str) -> Result<tenure_temporal::Link, Exit> {
        let settings = Settings { address: address.to_owned(), namespace: namespace.to_owned() };
        tenure_temporal::Link::connect(&settings).await.map_err(|error| {
            let what = error.to_string();
            let unavailable = |hint: &str| Exit::Unavailable { what: what.clone(), hint: hint.into() };
            match error {
                Error::Address { .. } => Exit::usage(what, "say HOST:PORT with --temporal, such as localhost:7233"),
                Error::Unreachable { .. } => unavailable(
                    "check --temporal; `temporal server start-dev` starts one for development, at localhost:7233",
                ),
                Error::UnknownNamespace { .. } => {
                    unavailable("check --temporal-namespace; `temporal operator namespace create` makes one")
                }
            }
        })
    }

    impl Link {
        pub(crate) fn start(self, engine: Arc<dyn Engine>) -> Running {
            Running::start(self.link, engine, &self.queues)
        }
    }
}

#[cfg(not(feature = "temporal"))]
mod built {
    use super::*;

    /// There is none.
    pub(crate) enum Link {}
    pub(crate) enum Running {}

    impl Temporal {
        pub(crate) async fn connect(&self) -> Result<Option<Link>, Exit> {
            if self.temporal.is_empty() {
                return Ok(None);
            }
            Err(not_built("--temporal"))
        }
    }

    /// What was asked for is not in this build.
    pub(crate) fn not_built(what: &str) -> Exit {
        let hint = "build it with `cargo build --release --features temporal`, which needs protoc: \
                    on Debian, install protobuf-compiler and libprotobuf-dev";
        Exit::usage(format!("{what} needs a `tenure` that was built with it, and this one was not"), hint)
    }

    impl Link {
        pub(crate) fn start(self, _engine: Arc<dyn Engine>) -> Running {
            match self {}
        }
    }

    impl Running {
        pub(crate) fn stop_taking(&self) {
            match *self {}
        }

        pub(crate) async fn stop(self) {
            match self {}
        }
    }
}
