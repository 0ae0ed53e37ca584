//! Whether the server works with a Temporal, and which. A build without the feature `temporal` knows the settings too,
//! and says how to get one that has it.

use std::sync::Arc;

use std::net::SocketAddr;

use tenure_core::Limits;
use tenure_engine::Engine;

use crate::exit::Exit;
use crate::{config, env};

/// As many as a key can tell apart.
const KEEPERS_MAX: usize = 64;
/// Those of activities and of keepers. Two workers of one process cannot share a queue.
const QUEUES_OWN: [&str; 2] = ["tenure", "tenure-keepers"];

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
    #[arg(
        long,
        alias = "namespace",
        value_name = "NAME",
        env = env::TEMPORAL_NAMESPACE,
        default_value = "default",
    )]
    temporal_namespace: String,
    /// Over how many keepers the pools are spread in Temporal, up to 64; the same for all servers, for good
    #[arg(long, value_name = config::COUNT, env = env::KEEPERS, default_value_t = 1, value_parser = keepers)]
    keepers: usize,
    /// The task queues on which to host pools, lock managers and permits for workflows, with commas between them
    #[arg(long, value_name = "NAMES", env = env::TEMPORAL_QUEUES, default_value = QUEUES_DEFAULT, value_parser = queues)]
    temporal_queues: String,
}

fn queues(text: &str) -> Result<String, String> {
    match named(text).find(|queue| QUEUES_OWN.contains(queue)) {
        Some(own) => Err(format!("`{own}` is a task queue for something else that the server does")),
        None => Ok(text.to_owned()),
    }
}

fn named(queues: &str) -> impl Iterator<Item = &str> {
    queues.split(',').map(str::trim).filter(|queue| !queue.is_empty())
}

fn keepers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=KEEPERS_MAX) => Ok(count),
        _ => Err(format!("expected a number from 1 to {KEEPERS_MAX}")),
    }
}

impl Temporal {
    /// Where pools are kept, if they are kept there.
    pub(crate) fn place(&self) -> String {
        format!("in Temporal at {}", self.temporal)
    }

    /// What is wrong if pools are to be kept in a Temporal that was not named.
    pub(crate) fn missing() -> Exit {
        Exit::usage("--engine temporal needs --temporal ADDR", "say where Temporal is, such as localhost:7233")
    }
}

/// What `tenure temporal start-pool` takes too, unless it is told otherwise.
pub(crate) const QUEUES_DEFAULT: &str = "tenure-pools";

#[cfg(feature = "temporal")]
pub(crate) use built::connect;
#[cfg(not(feature = "temporal"))]
pub(crate) use built::not_built;

#[cfg(feature = "temporal")]
mod built {
    use std::collections::BTreeSet;

    use super::*;
    use tenure_temporal::{Error, Settings};

    use tenure_temporal::{BeginError, Host, Keepers, Options};

    /// A connection.
    pub(crate) struct Link {
        link: Arc<tenure_temporal::Link>,
        queues: Vec<String>,
        keepers: usize,
    }

    pub(crate) use tenure_temporal::Temporal as Running;

    /// What hosts keepers. It is needed until the engine has stopped.
    pub(crate) struct Hosting(Host);

    impl Temporal {
        /// None if no Temporal was named.
        pub(crate) async fn connect(&self) -> Result<Option<Link>, Exit> {
            if self.temporal.is_empty() {
                return Ok(None);
            }
            let link = connect(&self.temporal, &self.temporal_namespace).await?;
            tracing::info!(address = self.temporal, namespace = self.temporal_namespace, "Temporal is there");
            let queues: BTreeSet<_> = named(&self.temporal_queues).map(str::to_owned).collect();
            Ok(Some(Link { link: Arc::new(link), queues: queues.into_iter().collect(), keepers: self.keepers }))
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
        /// Keeps pools in Temporal, and hosts what they are kept in.
        pub(crate) async fn start_engine(
            &self,
            limits: Limits,
            mailbox_max: usize,
            grpc: SocketAddr,
        ) -> Result<(Arc<dyn Engine>, Hosting), Exit> {
            let host = Host::new(self.link.clone());
            host.run("tenure-keepers", Keepers::worker(), Arc::default());
            let prefix = "tenure-keeper".to_owned();
            let name = name(grpc);
            let options = Options { limits, keepers: self.keepers, mailbox_max, prefix, name, time_told_from: None };
            let keepers = Keepers::start(self.link.clone(), options);
            keepers.begin().await.map_err(|error| match error {
                BeginError::SpreadOtherwise { there, .. } => Exit::usage(
                    error.to_string(),
                    format!("say --keepers {there}; to change the number, end those keepers first, as docs/temporal.md tells"),
                ),
                BeginError::Unknown => Exit::Unavailable { what: error.to_string(), hint: "try again".into() },
            })?;
            keepers.serve_faces(self.queues.clone()).await;
            Ok((Arc::new(keepers), Hosting(host)))
        }

        pub(crate) fn start(self, engine: Arc<dyn Engine>) -> Running {
            Running::start(self.link, engine, &self.queues)
        }
    }

    impl Hosting {
        pub(crate) async fn stop(self) {
            self.0.stop();
            // Nobody waits for what it does any more.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), self.0.ended()).await;
        }
    }

    /// The same when this server starts again, unless its port is any that is free.
    fn name(grpc: SocketAddr) -> String {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        match grpc.port() {
            0 => format!("{host} {grpc} {}", std::process::id()),
            _ => format!("{host} {grpc}"),
        }
    }
}

#[cfg(not(feature = "temporal"))]
mod built {
    use super::*;

    /// There is none.
    pub(crate) enum Link {}
    pub(crate) enum Running {}
    pub(crate) enum Hosting {}

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
        pub(crate) async fn start_engine(
            &self,
            _: Limits,
            _: usize,
            _: SocketAddr,
        ) -> Result<(Arc<dyn Engine>, Hosting), Exit> {
            match *self {}
        }

        pub(crate) fn start(self, _engine: Arc<dyn Engine>) -> Running {
            match self {}
        }
    }

    impl Hosting {
        pub(crate) async fn stop(self) {
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
