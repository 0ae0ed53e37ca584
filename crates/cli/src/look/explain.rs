//! Why somebody waits, in the server's words.

use tenure_client::v1;

use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output;

/// Say why those in a pool's queue wait, and what would let them in
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure explain db
  tenure explain gpus --request nightly-4711
  tenure explain db --json | jq -r '.waiters[].sentences[]'")]
pub(crate) struct ExplainArgs {
    /// The pool's name
    pool: String,
    /// Only about the waiter of this request
    #[arg(long, value_name = "ID", conflicts_with = "waiter")]
    request: Option<String>,
    /// Only about the waiter of this number
    #[arg(long, value_name = "N")]
    waiter: Option<u64>,
    /// About how many waiters, the next to be served first
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn explain(args: ExplainArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::ExplainRequest {
        namespace: args.server.namespace.clone(),
        pool: args.pool.clone(),
        waiter: args.waiter,
        request_id: args.request,
        limit: Some(args.limit),
    };
    let told = connection.calls.explain(request).await.map_err(|status| connection.failed(status))?.into_inner();
    if args.output.json {
        return output::json(&told).map(|_| ());
    }
    output::print(&text(&told)).map(|_| ())
}

fn text(told: &v1::ExplainResponse) -> String {
    let mut text = String::new();
    let mut line = |indent: &str, sentence: &str| {
        text.push_str(indent);
        text.push_str(&output::clean(sentence));
        text.push('\n');
    };
    told.pool.iter().for_each(|sentence| line("", sentence));
    for explained in &told.waiters {
        line("", "");
        for (number, sentence) in explained.sentences.iter().enumerate() {
            line(if number == 0 { "" } else { "  " }, sentence);
        }
    }
    text
}
