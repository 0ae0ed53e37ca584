//! Pools: all of them in a line each, or one in full.

use std::collections::BTreeMap;

use tenure_client::v1;

use super::lists::{hold_rows, some_holds, some_waiters, waiter_rows};
use super::{PAGE, say};
use crate::arguments::{Output, Server};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::{self, Table};

/// How many holds and waiters `show` tells of; `holds` and `queue` tell of all.
const SHOWN_MAX: usize = 10;

/// List pools
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure ls
  tenure ls build/
  tenure ls --json | jq -r '.pools[] | select(.waiters > 0) | .pool'")]
pub(crate) struct LsArgs {
    /// Only pools whose names start with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn ls(args: LsArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let pools = all_pools(&mut connection, &args.server.namespace, &args.prefix).await?;
    if args.output.json {
        return output::json(&v1::ListPoolsResponse { pools, next: None }).map(|_| ());
    }
    if pools.is_empty() {
        match args.prefix.as_str() {
            "" => output::note("no pools"),
            prefix => output::note(&format!("no pool's name starts with `{prefix}`")),
        }
        return Ok(());
    }
    output::print(&pool_rows(pools.iter(), say::now_ms())).map(|_| ())
}

pub(crate) fn pool_rows<'a>(pools: impl Iterator<Item = &'a v1::Pool>, now_ms: u64) -> String {
    let mut table = Table::new(["POOL", "KIND", "USED", "DIRTY", "WAITERS", "LONGEST WAIT", "CONDITION"]);
    for pool in pools {
        table.row([
            pool.pool.clone(),
            kind(pool),
            format!("{}/{}", pool.used, pool.size),
            if pool.dirty > 0 { pool.dirty.to_string() } else { String::new() },
            pool.waiters.to_string(),
            pool.waiting_since_ms.map_or_else(String::new, |since| say::span(now_ms.saturating_sub(since))),
            condition(pool, now_ms),
        ]);
    }
    table.text()
}

/// Pools by name, all whose names start so.
pub(crate) async fn all_pools(
    connection: &mut Connection,
    namespace: &str,
    prefix: &str,
) -> Result<Vec<v1::Pool>, Exit> {
    let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
    let mut request = v1::ListPoolsRequest { namespace, prefix, after: None, limit: Some(PAGE) };
    let mut pools = Vec::new();
    loop {
        let page = connection.calls.list_pools(request.clone()).await;
        let page = page.map_err(|status| connection.failed(status))?.into_inner();
        pools.extend(page.pools);
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(pools),
        }
    }
}

/// Show a pool: how it stands, who holds it, who waits
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure show gpus
  tenure show gpus --json | jq .spec | tenure pool set gpus-too --file -")]
pub(crate) struct ShowArgs {
    /// The pool's name
    pool: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(crate) async fn show(args: ShowArgs) -> Result<(), Exit> {
    let mut connection = Connection::open(&args.server).await?;
    let namespace = &args.server.namespace;
    let request = v1::GetPoolRequest { namespace: namespace.clone(), pool: args.pool.clone() };
    let detail = connection.calls.get_pool(request).await.map_err(|status| connection.failed(status))?.into_inner();
    if args.output.json {
        return output::json(&detail).map(|_| ());
    }
    // Every hold of a pool of resources, so that each resource can be shown with its holder.
    let holds_max = if detail.summary.as_ref().is_some_and(|pool| pool.named) { usize::MAX } else { SHOWN_MAX };
    let holds = some_holds(&mut connection, namespace, Some(&args.pool), None, holds_max).await?;
    let waiters = some_waiters(&mut connection, namespace, &args.pool, SHOWN_MAX).await?;
    output::print(&picture(&detail, &holds, &waiters)).map(|_| ())
}

fn picture(detail: &v1::PoolDetail, holds: &[v1::Hold], waiters: &[v1::Waiter]) -> String {
    let summary = detail.summary.clone().unwrap_or_default();
    let now_ms = say::now_ms();
    let mut text = facts(detail, &summary, now_ms);
    if !detail.resources.is_empty() {
        text.push('\n');
        text.push_str(&resources(detail, holds, now_ms));
    }
    if !holds.is_empty() {
        text.push('\n');
        text.push_str(&hold_rows(holds.iter().take(SHOWN_MAX), now_ms, false));
        more(&mut text, summary.holds, holds.len().min(SHOWN_MAX), &format!("tenure holds {}", summary.pool));
    }
    if !waiters.is_empty() {
        text.push('\n');
        text.push_str(&waiter_rows(waiters, now_ms));
        more(&mut text, summary.waiters, waiters.len(), &format!("tenure queue {}", summary.pool));
    }
    text
}

fn facts(detail: &v1::PoolDetail, summary: &v1::Pool, now_ms: u64) -> String {
    let spec = detail.spec.as_ref();
    let mut facts = vec![("pool", summary.pool.clone())];
    let size = say::many(summary.named, summary.size.into());
    facts.push(("size", format!("{size}, {} held", summary.used)));
    if let Some(window_ms) = summary.window_ms {
        facts.push(("window", say::exact(window_ms)));
    }
    facts.push(("condition", condition(summary, now_ms)));
    if summary.dirty > 0 {
        facts.push(("dirty", summary.dirty.to_string()));
    }
    if let Some(spec) = spec {
        facts.push(("order", say::word(spec.order().as_str_name(), "ORDER_")));
        if summary.named {
            facts.push(("placement", placement(spec)));
        }
        if spec.cleaning {
            facts.push(("cleaning", "after each hold".to_owned()));
        }
        facts.extend(spec.fair.as_ref().map(|fair| ("turns", turns(fair))));
        let scripts = spec.scripts.clone().unwrap_or_default();
        facts.extend(scripts.place.map(|script| ("place by", on_one_line(&script))));
        facts.extend(scripts.order.map(|script| ("order by", on_one_line(&script))));
    }
    match detail.script_faults {
        0 => {}
        faults if detail.scripts_set_aside => {
            facts.push(("scripts", format!("set aside after {faults} failures, until the pool is set again")));
        }
        1 => facts.push(("scripts", "failed once, see `tenure history`".to_owned())),
        faults => facts.push(("scripts", format!("failed {faults} times, see `tenure history`"))),
    }
    if summary.waiters > 0 {
        let longest = summary.waiting_since_ms.map(|since| say::span(now_ms.saturating_sub(since)));
        let longest = longest.map_or_else(String::new, |span| format!(", the longest for {span}"));
        facts.push(("waiters", format!("{}{longest}", summary.waiters)));
    }
    if !summary.declared {
        facts.push(("declared", "no: it came to be on first use and vanishes when idle".to_owned()));
    }
    output::list(&facts)
}

fn resources(detail: &v1::PoolDetail, holds: &[v1::Hold], now_ms: u64) -> String {
    let holders: BTreeMap<_, _> = holds.iter().map(|hold| (hold.token, hold.holder.as_str())).collect();
    let specs: BTreeMap<_, _> = detail
        .spec
        .iter()
        .flat_map(|spec| &spec.resources)
        .map(|resource| (resource.name.as_str(), resource))
        .collect();
    let mut table = Table::new(["RESOURCE", "CONDITION", "HOLDER", "RESERVED", "LAST USED", "LABELS", "PROPERTIES"]);
    for resource in &detail.resources {
        let condition = match resource.leaving {
            true => "leaving".to_owned(),
            false => {
                let mut said = returning(say::condition(resource.condition.as_ref()), resource.returns_at_ms, now_ms);
                if resource.dirty {
                    said.push_str(", dirty");
                }
                said
            }
        };
        let reserved = resource.reserved.as_ref().map(|it| match it.deadline_ms {
            Some(deadline) => format!("for {}, ends {}", it.holder, say::ahead(now_ms, deadline)),
            None => format!("for {}", it.holder),
        });
        // It may have changed hands since the pool was looked at.
        let holder = |token| holders.get(&token).map_or_else(|| format!("token {token}"), |&holder| holder.to_owned());
        let spec = specs.get(resource.name.as_str());
        table.row([
            resource.name.clone(),
            condition,
            resource.token.map_or_else(String::new, holder),
            reserved.unwrap_or_default(),
            resource.last_used_at_ms.map_or_else(String::new, |at| say::ago(now_ms, at)),
            spec.map_or_else(String::new, |spec| say::labels(&spec.labels, "")),
            spec.map_or_else(String::new, |spec| say::labels(&spec.properties, "@")),
        ]);
    }
    table.text()
}

fn more(text: &mut String, all: u64, shown: usize, command: &str) {
    let hidden = all.saturating_sub(shown as u64);
    if hidden > 0 {
        text.push_str(&output::clean(&format!("and {hidden} more: {command}")));
        text.push('\n');
    }
}

fn kind(pool: &v1::Pool) -> String {
    match pool.window_ms {
        Some(window_ms) => format!("window of {}", say::exact(window_ms)),
        None if pool.named => "resources".to_owned(),
        None => "units".to_owned(),
    }
}

fn condition(pool: &v1::Pool, now_ms: u64) -> String {
    match pool.removing {
        true => "being removed".to_owned(),
        false => returning(say::condition(pool.condition.as_ref()), pool.returns_at_ms, now_ms),
    }
}

fn returning(condition: String, at_ms: Option<u64>, now_ms: u64) -> String {
    match at_ms {
        Some(at_ms) => format!("{condition}, returns {}", say::ahead(now_ms, at_ms)),
        None => condition,
    }
}

/// `by tenant, web=3`.
fn turns(fair: &v1::FairShare) -> String {
    let weights = fair.weights.iter().map(|(group, weight)| format!(", {group}={weight}"));
    std::iter::once(format!("by {}", fair.by)).chain(weights).collect()
}

/// As much of a script as one reads at a glance.
fn on_one_line(script: &str) -> String {
    const CHARACTERS_MAX: usize = 72;
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let shown = match first.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &first[..end]),
        None => first.to_owned(),
    };
    match lines.count() {
        0 => shown,
        more => format!("{shown} (and {} more)", say::count(more as u64, "line")),
    }
}

/// What a pool is meant to be, in a few words: `2 resources, least-recently-used, backfill`.
pub(crate) fn spec(spec: &v1::PoolSpec) -> String {
    let mut said = vec![match spec.units {
        Some(units) => say::many(false, units.into()),
        None => say::many(true, spec.resources.len() as u64),
    }];
    if !matches!(spec.placement(), v1::Placement::Unspecified | v1::Placement::First) {
        said.push(placement(spec));
    }
    if spec.order() == v1::Order::Backfill {
        said.push("backfill".to_owned());
    }
    said.extend(spec.window_ms.map(|window_ms| format!("window {}", say::exact(window_ms))));
    said.extend(spec.cleaning.then(|| "cleaning".to_owned()));
    said.extend(spec.fair.as_ref().map(|fair| format!("in turn {}", turns(fair))));
    let scripts = spec.scripts.as_ref();
    said.extend(scripts.and_then(|it| it.place.as_ref()).map(|_| "placed by a script".to_owned()));
    said.extend(scripts.and_then(|it| it.order.as_ref()).map(|_| "ordered by a script".to_owned()));
    said.join(", ")
}

/// As `pool set --placement` takes it.
fn placement(spec: &v1::PoolSpec) -> String {
    let placement = say::word(spec.placement().as_str_name(), "PLACEMENT_").replace('_', "-");
    match &spec.spread_label {
        Some(label) => format!("{placement}:{label}"),
        None => placement,
    }
}
