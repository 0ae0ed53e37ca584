//! The command line as a face: every call is a process of the real binary, which is killed when its caller hangs up.

use std::ffi::OsStr;
use std::process::Stdio;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure_proto::v1;
use tenure_server::Server;
use tokio::process::Command;

use crate::face::{Called, Face, NoStream};

#[derive(Clone)]
pub(crate) struct Cli {
    addr: String,
}

/// One invocation as it is put together.
struct Invocation(Command);

impl Cli {
    fn command(&self, namespace: &str, words: &[&str]) -> Invocation {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
            command.env_remove(name);
        }
        command.args(words).arg("--json").env("TENURE_ADDR", &self.addr);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut invocation = Invocation(command);
        invocation.option("--namespace", Some(namespace).filter(|it| !it.is_empty()));
        invocation
    }
}

impl Invocation {
    fn option(&mut self, name: &str, value: Option<impl AsRef<OsStr>>) {
        if let Some(value) = value {
            // In one word, so that a value may begin with a dash.
            let mut word = std::ffi::OsString::from(name);
            word.push("=");
            word.push(value.as_ref());
            self.0.arg(word);
        }
    }

    fn duration(&mut self, name: &str, millis: Option<u64>) {
        self.option(name, millis.map(|millis| format!("{millis}ms")));
    }

    fn flag(&mut self, name: &str, set: bool) {
        if set {
            self.0.arg(name);
        }
    }

    fn secret(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.env(name, value);
        }
    }

    /// Names come last, so that one that begins with a dash is not taken for an option.
    fn names(&mut self, names: &[&str]) {
        self.0.arg("--").args(names);
    }

    /// For commands that print one message.
    async fn run<T: DeserializeOwned>(self) -> Called<T> {
        let mut printed = self.run_lines().await?;
        assert_eq!(printed.len(), 1, "one message is printed");
        Ok(printed.remove(0))
    }

    /// What is printed, a message a line, or why not.
    async fn run_lines<T: DeserializeOwned>(mut self) -> Called<Vec<T>> {
        let shown = format!("{:?}", self.0.as_std());
        let output = self.0.output().await.expect("the binary starts");
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let about = || format!("{shown} ended with {:?}\n{said}{complained}", output.status);
        if output.status.success() {
            let message = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", about()));
            return Ok(said.lines().map(message).collect());
        }
        let told: Option<Value> = serde_json::from_str(&said).ok();
        let refusal = told.and_then(|mut told| serde_json::from_value::<v1::Refusal>(told["error"].take()).ok());
        let refusal = refusal.unwrap_or_else(|| panic!("no refusal: {}", about()));
        assert!(complained.starts_with("error: ") && complained.contains("\nhint: "), "{}", about());
        assert_eq!(output.status.code(), Some(expected_code(&refusal.code)), "{}", about());
        Err(Box::new(refusal))
    }
}

/// The contract of the command line, told once more.
fn expected_code(refusal: &str) -> i32 {
    match refusal {
        "invalid_argument" => 64,
        "busy" | "timed_out" | "out_of_service" | "limit_reached" => 75,
        "unreachable" | "stopping" | "overloaded" => 69,
        _ => 1,
    }
}

impl Face for Cli {
    type Stream = NoStream;

    async fn connect(server: &Server) -> Self {
        Self { addr: server.grpc_addr().to_string() }
    }

    async fn stream(&self) -> Option<NoStream> {
        None
    }

    async fn acquire(&self, request: v1::AcquireRequest) -> Called<v1::Grant> {
        let window = request.lifetime() == v1::Lifetime::Window;
        let mut run = self.command(&request.namespace, &[if window { "rate" } else { "acquire" }]);
        if window {
            run.option("--limit", request.size.map(|size| size.to_string()));
            run.duration("--per", request.ttl_ms);
            run.option("--units", request.units.map(|units| units.to_string()));
        } else {
            run.option("--size", request.size.map(|size| size.to_string()));
            run.duration("--ttl", request.ttl_ms);
            run.option(
                "--units",
                request.all.then(|| "all".to_owned()).or(request.units.map(|units| units.to_string())),
            );
            run.option("--select", request.select.as_ref());
            run.flag("--dirty", request.dirty);
            run.option("--priority", Some(request.priority.to_string()));
            run.option("--owner", request.owner.as_ref());
            for part in &request.also {
                run.option("--pool", Some(part_words(part)));
            }
            run.flag("--holds-on", request.holds_on);
            run.flag("--kept", request.lifetime() == v1::Lifetime::Kept);
            run.secret("TENURE_REQUEST_ID", request.request_id.as_deref());
        }
        run.duration("--wait", request.wait_ms);
        run.flag("--nonblock", request.wait_ms.is_none() && !request.wait_forever);
        run.option("--holder", Some(&request.holder));
        for (name, value) in &request.meta {
            run.option("--meta", Some(format!("{name}={value}")));
        }
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn renew(&self, request: v1::RenewRequest) -> Called<v1::Renewed> {
        let mut run = self.command(&request.namespace, &["renew"]);
        run.secret("TENURE_KEY", Some(&request.key));
        run.option("--pool", request.pool.as_ref());
        run.duration("--ttl", request.ttl_ms);
        run.run().await
    }

    async fn release(&self, request: v1::ReleaseRequest) -> Called<v1::Released> {
        let mut run = self.command(&request.namespace, &["release"]);
        run.secret("TENURE_KEY", Some(&request.key));
        run.option("--pool", request.pool.as_ref());
        run.run().await
    }

    async fn withdraw(&self, request: v1::WithdrawRequest) -> Called<v1::Withdrawn> {
        let mut run = self.command(&request.namespace, &["withdraw"]);
        run.secret("TENURE_REQUEST_ID", Some(&request.request_id));
        run.run().await
    }

    async fn force_release(&self, request: v1::ForceReleaseRequest) -> Called<v1::Released> {
        let mut run = self.command(&request.namespace, &["force-release"]);
        run.option("--holder", Some(&request.holder));
        run.option("--token", Some(request.token.to_string()));
        run.option("--reason", Some(&request.reason));
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn owner_gone(&self, request: v1::OwnerGoneRequest) -> Called<v1::OwnerGoneResponse> {
        let mut run = self.command(&request.namespace, &["owner-gone"]);
        run.names(&[&request.owner]);
        run.run().await
    }

    async fn list_holds(&self, request: v1::ListHoldsRequest) -> Called<v1::ListHoldsResponse> {
        let mut run = self.command(&request.namespace, &["holds"]);
        run.option("--holder", request.holder.as_ref());
        run.names(request.pool.as_deref().as_slice());
        run.run().await
    }

    async fn open_session(&self, _: v1::OpenSessionRequest) -> Called<v1::SessionOpened> {
        unreachable!("scenarios with sessions are not played here")
    }

    async fn keep_alive(&self, _: v1::KeepAliveRequest) -> Called<v1::SessionOpened> {
        unreachable!("scenarios with sessions are not played here")
    }

    async fn end_session(&self, _: v1::EndSessionRequest) -> Called<v1::SessionEnded> {
        unreachable!("scenarios with sessions are not played here")
    }

    async fn list_sessions(&self, request: v1::ListSessionsRequest) -> Called<v1::ListSessionsResponse> {
        self.command(&request.namespace, &["sessions"]).run().await
    }

    async fn set_pool(&self, request: v1::SetPoolRequest) -> Called<v1::SetPoolResponse> {
        let spec = request.spec.unwrap_or_default();
        let mut run = self.command(&request.namespace, &["pool", "set"]);
        run.option("--units", spec.units.map(|units| units.to_string()));
        for resource in &spec.resources {
            run.option("--resource", Some(resource_words(resource)));
        }
        run.option("--placement", placement(&spec));
        run.option("--order", order(&spec));
        run.duration("--window", spec.window_ms);
        run.flag("--cleaning", spec.cleaning);
        let fair = spec.fair.unwrap_or_default();
        run.option("--fair", Some(&fair.by).filter(|by| !by.is_empty()));
        for (group, weight) in &fair.weights {
            run.option("--weight", Some(format!("{group}={weight}")));
        }
        let scripts = spec.scripts.unwrap_or_default();
        run.option("--place-by", scripts.place.as_ref());
        run.option("--order-by", scripts.order.as_ref());
        run.option("--size-was", request.size_was.map(|size| size.to_string()));
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn set_condition(&self, request: v1::SetConditionRequest) -> Called<v1::SetConditionResponse> {
        let condition = request.condition.clone().unwrap_or_default();
        let verb = match condition.state() {
            v1::ConditionState::Drained => "drain",
            v1::ConditionState::Quarantined => "quarantine",
            _ => "return",
        };
        let mut run = self.command(&request.namespace, &["pool", verb]);
        run.option("--note", condition.note.as_ref());
        run.duration("--for", request.lasts_ms);
        let state_was = match request.state_was() {
            v1::ConditionState::Unspecified => None,
            v1::ConditionState::InService => Some("in-service"),
            v1::ConditionState::Drained => Some("drained"),
            v1::ConditionState::Quarantined => Some("quarantined"),
        };
        run.option("--state-was", state_was);
        match &request.resource {
            Some(resource) => run.names(&[&request.pool, resource]),
            None => run.names(&[&request.pool]),
        }
        run.run().await
    }

    async fn remove_pool(&self, request: v1::RemovePoolRequest) -> Called<v1::RemovePoolResponse> {
        let mut run = self.command(&request.namespace, &["pool", "rm"]);
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn list_pools(&self, request: v1::ListPoolsRequest) -> Called<v1::ListPoolsResponse> {
        let mut run = self.command(&request.namespace, &["ls"]);
        run.names(Some(request.prefix.as_str()).filter(|prefix| !prefix.is_empty()).as_slice());
        run.run().await
    }

    async fn get_pool(&self, request: v1::GetPoolRequest) -> Called<v1::PoolDetail> {
        let mut run = self.command(&request.namespace, &["show"]);
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn list_queue(&self, request: v1::ListQueueRequest) -> Called<v1::ListQueueResponse> {
        let mut run = self.command(&request.namespace, &["queue"]);
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn history(&self, request: v1::HistoryRequest) -> Called<v1::HistoryResponse> {
        let mut run = self.command(&request.namespace, &["history", "--all"]);
        run.option("--holder", request.holder.as_ref());
        run.names(request.pool.as_deref().as_slice());
        // One event per line, and all of them.
        Ok(v1::HistoryResponse { events: run.run_lines().await?, next: None, done: true })
    }

    async fn steal(&self, request: v1::StealRequest) -> Called<v1::Grant> {
        let mut run = self.command(&request.namespace, &["steal"]);
        run.option("--holder", Some(&request.holder));
        run.option("--token", Some(request.token.to_string()));
        run.option("--to", Some(&request.to));
        run.duration("--ttl", request.ttl_ms);
        run.flag("--kept", request.lifetime() == v1::Lifetime::Kept);
        run.secret("TENURE_REQUEST_ID", request.request_id.as_deref());
        run.option("--reason", Some(&request.reason));
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn move_waiter(&self, request: v1::MoveWaiterRequest) -> Called<v1::MoveWaiterResponse> {
        let mut run = self.command(&request.namespace, &["move"]);
        run.option("--waiter", Some(request.waiter.to_string()));
        run.option("--holder", Some(&request.holder));
        run.option("--before", request.before.map(|before| before.to_string()));
        run.flag("--front", request.before.is_none());
        run.option("--reason", Some(&request.reason));
        run.names(&[&request.pool]);
        run.run().await
    }

    async fn reserve(&self, request: v1::ReserveRequest) -> Called<v1::ReserveResponse> {
        let mut run = self.command(&request.namespace, &["reserve"]);
        run.option("--holder", Some(&request.holder));
        run.duration("--for", request.lasts_ms);
        run.option("--instead-of", request.instead_of.as_ref());
        run.option("--reason", Some(&request.reason));
        run.names(&[&request.pool, &request.resource]);
        run.run().await
    }

    async fn unreserve(&self, request: v1::UnreserveRequest) -> Called<v1::UnreserveResponse> {
        let mut run = self.command(&request.namespace, &["unreserve"]);
        run.option("--holder", Some(&request.holder));
        run.option("--reason", Some(&request.reason));
        run.names(&[&request.pool, &request.resource]);
        run.run().await
    }

    async fn explain(&self, request: v1::ExplainRequest) -> Called<v1::ExplainResponse> {
        let mut run = self.command(&request.namespace, &["explain"]);
        run.option("--waiter", request.waiter.map(|waiter| waiter.to_string()));
        run.option("--request", request.request_id.as_ref());
        run.names(&[&request.pool]);
        run.run().await
    }
}

/// `POOL:UNITS/SIZE?SELECTOR`.
fn part_words(part: &v1::Part) -> String {
    let units = part.units.map_or_else(|| "all".into(), |units| units.to_string());
    let size = part.size.map(|size| format!("/{size}")).unwrap_or_default();
    let select = part.select.as_ref().map(|select| format!("?{select}")).unwrap_or_default();
    format!("{}:{units}{size}{select}", part.pool)
}

/// `NAME label label=value @property=value`.
fn resource_words(resource: &v1::Resource) -> String {
    let mut words = vec![resource.name.clone()];
    let pair = |(name, value): (&String, &String)| match value.as_str() {
        "" => name.clone(),
        value => format!("{name}={value}"),
    };
    words.extend(resource.labels.iter().map(pair));
    words.extend(resource.properties.iter().map(|(name, value)| format!("@{name}={value}")));
    words.join(" ")
}

fn placement(spec: &v1::PoolSpec) -> Option<String> {
    let word = match spec.placement() {
        v1::Placement::Unspecified => return None,
        v1::Placement::First => "first",
        v1::Placement::LeastRecentlyUsed => "least-recently-used",
        v1::Placement::MostRecentlyUsed => "most-recently-used",
        v1::Placement::Random => "random",
        v1::Placement::Spread => {
            return Some(format!("spread:{}", spec.spread_label.as_deref().unwrap_or_default()));
        }
    };
    Some(word.to_owned())
}

fn order(spec: &v1::PoolSpec) -> Option<&'static str> {
    match spec.order() {
        v1::Order::Unspecified => None,
        v1::Order::Strict => Some("strict"),
        v1::Order::Backfill => Some("backfill"),
    }
}
