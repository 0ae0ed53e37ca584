//! The scenarios through a client in another language. The runner is in that language; here is the server, whose clock the
//! runner moves by asking for it: a line of JSON from it, a line back.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tenure_scenario::{Action, Scenario, Step, What};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::host::{Counted, Host, Site};

/// More than this would mean that the client, or its runner, has fallen behind what is promised. These are five that no socket
/// can play, and up to thirteen about connections that are doubled, resumed by hand or ended, which a client does by itself in its own
/// manner; each says why it is left out.
const LEFT_OUT_MAX: usize = 18;

/// All of them, or those whose claim has the words in `TENURE_SCENARIO`. The runner is given the folder of the scenarios and
/// the words.
pub(crate) fn plays_all(root: &Path, runner: impl Fn(&[&str]) -> Command) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let words = std::env::var("TENURE_SCENARIO").unwrap_or_default();
    let folder = root.join("scenarios");
    let played = runtime.block_on(play(runner(&[folder.to_str().unwrap(), &words])));
    println!("{} played, {} left out", played.well, played.left_out.len());
    println!("{}", played.left_out.join("\n"));
    assert!(played.failed.is_empty(), "{}", played.failed.join("\n\n"));
    // Somebody who looks at one of them has chosen it by words of its claim.
    assert!(played.well > 300 || !words.is_empty(), "only {} were played", played.well);
    assert!(played.left_out.len() <= LEFT_OUT_MAX, "{} were left out", played.left_out.len());
}

#[derive(Default)]
struct Played {
    well: usize,
    left_out: Vec<String>,
    failed: Vec<String>,
}

struct Stage {
    site: Site,
    /// None while the server is stopped.
    host: Option<Host>,
    commands: Option<Counted>,
    hang_ups: Option<Counted>,
}

async fn play(runner: Command) -> Played {
    let mut command = tokio::process::Command::from(runner);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut answers = child.stdin.take().unwrap();
    let mut asked = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut played, mut stage) = (Played::default(), None);
    while let Some(line) = asked.next_line().await.unwrap() {
        let ask: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |name: &str| ask[name].as_str().unwrap_or_default().to_owned();
        match ask["do"].as_str().unwrap() {
            "played" => played.well += 1,
            "left_out" => played.left_out.push(format!("{}: {}", text("name"), text("why"))),
            "failed" => played.failed.push(text("why")),
            "end" => break,
            _ => {
                let answer = answer(&mut stage, &ask).await;
                answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    }
    assert!(child.wait().await.unwrap().success(), "the runner ends well");
    played
}

async fn answer(stage: &mut Option<Stage>, ask: &Value) -> Value {
    match ask["do"].as_str().unwrap() {
        "scenario" => {
            let mut next = Stage { site: Site::new(&scenario(ask)), host: None, commands: None, hang_ups: None };
            let started = next.start().await;
            *stage = Some(next);
            started
        }
        "start" => stage.as_mut().unwrap().start().await,
        "kill" => {
            stage.as_mut().unwrap().host.take().unwrap().kill();
            json!({})
        }
        "clock" => {
            let stage = stage.as_ref().unwrap();
            stage.site.set_clock(ask["to"].as_u64().unwrap());
            if let Some(host) = &stage.host {
                host.settle().await;
            }
            json!({})
        }
        "settle" => {
            stage.as_ref().unwrap().host.as_ref().unwrap().settle().await;
            json!({})
        }
        "counts" => {
            let stage = stage.as_ref().unwrap();
            let grown = |count: &Option<Counted>| count.as_ref().unwrap().grown();
            json!({"commands": grown(&stage.commands), "hang_ups": grown(&stage.hang_ups)})
        }
        other => panic!("`{other}` is not something to ask for"),
    }
}

impl Stage {
    async fn start(&mut self) -> Value {
        let host = self.site.start().await;
        let told = json!({"grpc": host.server.grpc_addr().to_string()});
        (self.commands, self.hang_ups) = (Some(host.engine.commands()), Some(host.engine.hang_ups()));
        self.host = Some(host);
        told
    }
}

/// As much of it as a site needs.
fn scenario(ask: &Value) -> Scenario {
    let limit = |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_u64().unwrap());
    let mut scenario = Scenario {
        topic: String::new(),
        line: 0,
        claim: String::new(),
        only: None,
        limits: ask["limits"].as_array().unwrap().iter().map(limit).collect(),
        steps: Vec::new(),
    };
    if ask["restarts"].as_bool().unwrap() {
        let what = What::Does(Box::new(Action::Restart), None);
        scenario.steps.push(Step { line: 0, text: String::new(), at: 0, actor: "server".into(), what });
    }
    scenario
}
