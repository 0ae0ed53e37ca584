//! Whether the server works with a Temporal, and which. A build without the feature `temporal` knows the settings too,
//! and says how to get one that has it.

use std::sync::Arc;

use tenure_engine::Engine;

use crate::env;
use crate::exit::Exit;

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Temporal {
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
}

#[cfg(feature = "temporal")]
mod built {
    use super::*;
    use tenure_temporal::{Error, Settings};

    /// A connection.
    pub(crate) struct Link(Arc<tenure_temporal::Link>);

    pub(crate) use tenure_temporal::Temporal as Running;

    impl Temporal {
        /// None if no Temporal was named.
        pub(crate) async fn connect(&self) -> Result<Option<Link>, Exit> {
            if self.temporal.is_empty() {
                return Ok(None);
            }
            let settings = Settings { address: self.temporal.clone(), namespace: self.temporal_namespace.clone() };
            let link = tenure_temporal::Link::connect(&settings).await.map_err(|error| {
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
            })?;
            tracing::info!(address = self.temporal, namespace = self.temporal_namespace, "Temporal is there");
            Ok(Some(Link(Arc::new(link))))
        }
    }

    impl Link {
        pub(crate) fn start(self, engine: Arc<dyn Engine>) -> Running {
            Running::start(self.0, engine)
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
            let hint = "build it with `cargo build --release --features temporal`, which needs protoc: \
                        on Debian, install protobuf-compiler and libprotobuf-dev";
            Err(Exit::usage("--temporal needs a `tenure` that was built with it, and this one was not", hint))
        }
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
