//! Pools that workflows of Temporal use by signals: how they are started, and how one goes on from somebody else's worker.

use std::time::Duration;

use crate::arguments::Output;
use crate::exit::Exit;
use crate::serve::temporal::QUEUES_DEFAULT;
use crate::{env, units};

/// Start pools for workflows of Temporal
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    StartPool(StartPoolArgs),
}

/// Start a pool that workflows use by signals, or take a running one over
#[derive(clap::Args)]
#[command(after_long_help = "\
A server with `--temporal` hosts it. Workflows ask it by its name, the workflow id, with the signals of
Temporal's samples: docs/temporal.md has them.

With --take-over the running workflow of this name ends and this one goes on with everything it had:
who holds what, with the same keys, and who waits. Signals that are sent meanwhile are kept.

Examples:
  tenure temporal start-pool resource_pool --resources gpu-1,gpu-2 --temporal localhost:7233
  tenure temporal start-pool resource_pool --take-over --temporal localhost:7233
  tenure temporal start-pool lock_manager --type lock-manager --resources a,b --temporal localhost:7233")]
pub(crate) struct StartPoolArgs {
    /// The pool's name, which is the workflow id
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: String,
    /// What it hands out, in this order; more can be added by the signal `add_resources`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_unless_present = "take_over")]
    resources: Vec<String>,
    /// Which of the samples it stands in for
    #[arg(long = "type", value_name = "TYPE", default_value = "pool")]
    kind: Kind,
    /// Go on from the running workflow of this name, which ends
    #[arg(long)]
    take_over: bool,
    /// How long anybody waits who does not say how long [default: however long it takes]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    max_wait: Option<Duration>,
    /// One of the server's `--temporal-queues`
    #[arg(long, value_name = "NAME", default_value = QUEUES_DEFAULT)]
    task_queue: String,
    #[command(flatten)]
    output: Output,
    /// The address of Temporal
    #[arg(long, value_name = "ADDR", env = env::TEMPORAL)]
    temporal: String,
    /// The namespace of Temporal
    #[arg(long, value_name = "NAME", env = env::TEMPORAL_NAMESPACE, default_value = "default")]
    temporal_namespace: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// ResourcePoolWorkflow
    Pool,
    /// LockManagerWorkflow
    LockManager,
}

impl Command {
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::StartPool(args) => args.output.json,
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<(), Exit> {
    match command {
        Command::StartPool(args) => start_pool(args).await,
    }
}

#[cfg(not(feature = "temporal"))]
async fn start_pool(_args: StartPoolArgs) -> Result<(), Exit> {
    Err(crate::serve::temporal::not_built("`tenure temporal`"))
}

#[cfg(feature = "temporal")]
async fn start_pool(args: StartPoolArgs) -> Result<(), Exit> {
    use tenure_client::v1;
    use tenure_temporal::{PoolType, StartPool, StartPoolError};

    use crate::output;
    use crate::serve::temporal::connect;

    let refused = |code: &str, message: String, advice: &str| {
        let refusal = v1::Refusal { code: code.into(), message, advice: advice.into(), ..v1::Refusal::default() };
        Exit::Client(tenure_client::Error::Refused(Box::new(refusal)))
    };

    let link = connect(&args.temporal, &args.temporal_namespace).await?;
    let pool = StartPool {
        workflow_id: args.name.clone(),
        pool_type: match args.kind {
            Kind::Pool => PoolType::ResourcePool,
            Kind::LockManager => PoolType::LockManager,
        },
        // As people write lists: `a, b`.
        resources: args.resources.iter().map(|name| name.trim().to_owned()).collect(),
        task_queue: args.task_queue,
        max_wait: args.max_wait,
        takes_over: args.take_over,
    };
    let (workflow_type, task_queue) = (pool.pool_type.name(), pool.task_queue.clone());
    let run_id = pool.start(&link).await.map_err(|error| {
        let what = error.to_string();
        match error {
            StartPoolError::Invalid(_) => Exit::usage(what, "name each resource once, with commas between them"),
            StartPoolError::Running { .. } => refused("running", what, "--take-over goes on from what it has"),
            StartPoolError::NotRunning { .. } => {
                refused("not_running", what, "start it with --resources, without --take-over")
            }
            StartPoolError::OtherType { .. } => {
                refused("other_type", what, "check the name, or say the type with --type")
            }
            StartPoolError::Hosted { .. } => {
                refused("hosted", what, "it goes on as it is; the signal `add_resources` gives it more resources")
            }
            StartPoolError::Failed(_) => Exit::Unavailable { what, hint: "check --temporal, and try again".into() },
        }
    })?;
    if args.output.json {
        let started = serde_json::json!({
            "workflow_id": args.name,
            "run_id": run_id,
            "type": workflow_type,
            "task_queue": task_queue,
        });
        return output::print(&format!("{started}\n")).map(|_| ());
    }
    let name = output::clean(&args.name);
    output::print(&format!("{name} is started: {workflow_type} on task queue {task_queue}, run {run_id}\n")).map(|_| ())
}
