//! Servers with a password and with TLS: how they are started, how commands get in, and what is said if they do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../server/tests/wire/certificates.rs"]
mod certificates;
mod support;

use std::path::Path;
use std::process::Command;

use certificates::{Authority, Identity};
use nix::sys::signal::Signal;
use support::door::Door;
use support::job::{Job, until};
use support::tool::{Ended, Tool};
use support::{Process, command};
use tempfile::TempDir;

const PASSWORD: &str = "s3:cret";

/// A server that wants a password and certificates, and all that a client needs for it.
struct Secured {
    server: Process,
    folder: TempDir,
    authority: Authority,
}

impl Secured {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (authority, clients) = (Authority::new("ours"), Authority::new("our clients"));
        authority.write(folder.path(), "ca.crt");
        clients.write(folder.path(), "clients.crt");
        authority.sign().write(folder.path(), "server");
        clients.sign().write(folder.path(), "client");
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        let mut serve = serve(folder.path());
        serve.args(["--durability", "memory", "--tls-cert", "server.crt", "--tls-key", "server.key"]);
        serve.args(["--client-ca", "clients.crt", "--password-file", "password"]);
        let server = Process::spawn(serve.current_dir(folder.path()));
        Self { server, folder, authority }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Everything from the environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Tool::of(&self.server).command(arguments);
        command.env("TENURE_TLS_CA", self.path("ca.crt")).env("TENURE_PASSWORD", PASSWORD);
        command.env("TENURE_CLIENT_CERT", self.path("client.crt")).env("TENURE_CLIENT_KEY", self.path("client.key"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments))
    }
}

/// On loopback, in memory, and whatever the environment of the tests says.
fn serve(folder: &Path) -> Command {
    let mut serve = command(&folder.join("data"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENURE_")) {
        serve.env_remove(name);
    }
    serve
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn assert_done(ended: &Ended) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
}

fn assert_fails(command: &mut Command, code: i32, error: &str, hint: &str) {
    let Ended { code: ended, stderr, .. } = ended(command);
    assert_eq!(ended, Some(code), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(error), "{stderr}");
    assert!(stderr.contains("\nhint: ") && stderr.contains(hint), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}

#[test]
fn a_server_says_that_it_speaks_tls_and_every_kind_of_command_gets_in() {
    let secured = Secured::start();
    assert!(secured.server.grpc.starts_with("https://"), "{}", secured.server.grpc);
    assert!(secured.server.http.starts_with("https://"), "{}", secured.server.http);
    for arguments in [
        &["pool", "set", "gpus", "--units", "2"][..],
        &["ls"],
        &["show", "gpus"],
        &["history", "gpus"],
        &["rate", "calls", "--limit", "5", "--per", "1m"],
        &["run", "gpus", "--", "true"],
        &["demo", "--for", "1ms", "--addr", &secured.server.grpc, "--consumers", "2"],
    ] {
        let Ended { code, stderr, .. } = secured.run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
    let mut leader = Job::start(&secured.command(&["elect", "scheduler", "here"]));
    leader.says("here");
    let mut listener = Job::start(&secured.command(&["elect", "--listen", "scheduler"]));
    listener.says("here");
    leader.signal(Signal::SIGTERM);
    leader.ends();
    listener.says("nobody");
    listener.signal(Signal::SIGTERM);
    listener.ends();
}

#[test]
fn what_is_said_by_flags_is_passed_on_to_the_command_that_runs() {
    let secured = Secured::start();
    let flags = ["--tls-ca", "ca.crt", "--client-cert", "client.crt", "--client-key", "client.key"];
    let mut run = Tool::of(&secured.server).command(&["run", "db", "--password-file", "password"]);
    run.args(flags).args(["--", "sh", "-c", "cd / && \"$0\" holds db && env", env!("CARGO_BIN_EXE_tenure")]);
    let done = ended(run.current_dir(secured.folder.path()));
    assert_done(&done);
    assert!(done.stdout.contains("db"), "{}", done.stdout);
    assert!(!done.stdout.contains(PASSWORD), "only where it is found is told");

    let mut acquire = Tool::of(&secured.server).shell(
        "eval \"$(tenure acquire db --eval --tls-ca ca.crt --client-cert client.crt --client-key client.key \
         --password-file password)\" && cd / && tenure release",
    );
    assert_done(&ended(acquire.current_dir(secured.folder.path())));
}

#[test]
fn the_guard_of_a_killed_run_is_let_in_too() {
    let secured = Secured::start();
    let mut run =
        Job::start(&secured.command(&["run", "db", "--ttl", "1h", "--", "sh", "-c", "echo begun; exec sleep 600"]));
    run.says("begun");
    run.signal(Signal::SIGKILL);
    run.ends();
    until("the hold is released", || secured.run(&["run", "-n", "db", "--", "true"]).code == Some(0));
}

#[test]
fn whoever_is_not_let_in_is_told_why() {
    let secured = Secured::start();
    let password_hint = "say the password with TENURE_PASSWORD or --password-file";
    for arguments in [&["ls"][..], &["run", "db", "--", "true"], &["acquire", "db"], &["elect", "x"], &["watch"]] {
        let mut command = secured.command(arguments);
        assert_fails(command.env_remove("TENURE_PASSWORD"), 77, "missing credentials", password_hint);
        let mut command = secured.command(arguments);
        assert_fails(command.env("TENURE_PASSWORD", "wrong"), 77, "invalid credentials", password_hint);
    }
    let json = ended(secured.command(&["ls", "--json"]).env("TENURE_PASSWORD", "wrong"));
    assert!(json.stdout.contains(r#""code":"unauthenticated""#), "{}", json.stdout);

    let mut command = secured.command(&["ls"]);
    command.env_remove("TENURE_CLIENT_CERT").env_remove("TENURE_CLIENT_KEY");
    assert_fails(&mut command, 69, "it may want to see a client certificate", "--client-cert");
    let others = Authority::new("others").write(secured.folder.path(), "others.crt");
    assert_fails(
        secured.command(&["ls"]).env("TENURE_TLS_CA", others),
        69,
        "no authority that is trusted here",
        "--tls-ca",
    );
    let plain = secured.server.grpc.replace("https", "http");
    assert_fails(secured.command(&["ls"]).env("TENURE_ADDR", plain), 76, "it wants TLS", "--addr");
}

#[test]
fn files_of_a_client_that_cannot_be_used_are_named() {
    let tool = Tool::at("https://127.0.0.1:1");
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = tool.command(&[&["ls"], arguments].concat());
        command.current_dir(folder.path());
        command
    };
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::write(folder.path().join("two"), "one\ntwo\n").unwrap();
    assert_fails(&mut run(&["--tls-ca", "none"]), 66, "none cannot be read", "--tls-ca");
    assert_fails(&mut run(&["--tls-ca", "empty"]), 64, "PEM", "--tls-ca");
    assert_fails(&mut run(&["--password-file", "none"]), 66, "none cannot be read", "--password-file");
    assert_fails(&mut run(&["--password-file", "empty"]), 64, "empty cannot be used: it is empty", "--password-file");
    assert_fails(&mut run(&["--password-file", "two"]), 64, "it has control characters", "TENURE_PASSWORD");
    assert_fails(&mut run(&["--client-cert", "empty"]), 64, "--client-key", "tenure ls --help");
}

#[test]
fn a_server_with_files_that_cannot_be_used_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    authority.sign().write(folder.path(), "one");
    authority.sign().write(folder.path(), "another");
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let start = |arguments: &[&str]| {
        let mut serve = serve(folder.path());
        serve.args(arguments).current_dir(folder.path());
        serve
    };
    let one = ["--tls-cert", "one.crt", "--tls-key", "one.key"];
    assert_fails(&mut start(&["--client-ca", "one.crt"]), 64, "--client-ca needs --tls-cert", "--tls-key too");
    assert_fails(&mut start(&one[..2]), 64, "--tls-cert needs --tls-key", "private key");
    assert_fails(&mut start(&one[2..]), 64, "--tls-key needs --tls-cert", "certificate");
    assert_fails(&mut start(&["--tls-cert", "none", "--tls-key", "one.key"]), 66, "none cannot be read", "--tls-cert");
    assert_fails(&mut start(&["--tls-cert", "empty", "--tls-key", "one.key"]), 64, "it has no certificate", "PEM");
    assert_fails(&mut start(&["--tls-cert", "one.crt", "--tls-key", "empty"]), 64, "it has no private key", "PEM");
    assert_fails(
        &mut start(&["--tls-cert", "one.crt", "--tls-key", "another.key"]),
        64,
        "another.key cannot be used",
        "PEM",
    );
    assert_fails(
        &mut start(&[&one[..], &["--client-ca", "one.key"]].concat()),
        64,
        "one.key cannot be used",
        "--client-ca",
    );
    assert_fails(&mut start(&["--password-file", "none"]), 66, "none cannot be read", "--password-file");
    assert_fails(&mut start(&["--password-file", "empty"]), 64, "it is empty", "TENURE_PASSWORD");
    assert!(!folder.path().join("data").exists(), "nothing was opened");
}

#[test]
fn the_password_is_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), PASSWORD).unwrap();
    let mut print = serve(folder.path());
    print.args(["--print-config", "--password-file", "password"]).env("TENURE_PASSWORD", PASSWORD);
    let printed = ended(print.current_dir(folder.path()));
    assert_done(&printed);
    assert!(printed.stdout.contains("password_file = \"password\""), "{}", printed.stdout);
    assert!(!printed.stdout.contains(PASSWORD), "{}", printed.stdout);
    assert!(!printed.stdout.contains("TENURE_PASSWORD says"), "the file wins: {}", printed.stdout);
    let mut print = serve(folder.path());
    let printed = ended(print.arg("--print-config").env("TENURE_PASSWORD", PASSWORD));
    assert_done(&printed);
    assert!(printed.stdout.ends_with("\n# the password is what TENURE_PASSWORD says\n"), "{}", printed.stdout);
    assert!(!printed.stdout.contains(PASSWORD), "{}", printed.stdout);
    let help = ended(Tool::at("127.0.0.1:1").command(&["ls", "--help"]).env("TENURE_PASSWORD", PASSWORD));
    assert!(!help.stdout.contains(PASSWORD), "{}", help.stdout);
}

#[test]
fn a_password_in_the_variable_or_from_a_pipe_is_as_good_as_one_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::spawn(serve(folder.path()).args(["--durability", "memory"]).env("TENURE_PASSWORD", PASSWORD));
    let tool = Tool::of(&server);
    assert_eq!(tool.run(&["ls"]).code, Some(77));
    assert_eq!(ended(tool.command(&["ls"]).env("TENURE_PASSWORD", PASSWORD)).code, Some(0));
    let mut piped = Job::start(&tool.command(&["ls", "--password-file", "/dev/stdin"]));
    piped.hears(PASSWORD);
    piped.hears_no_more();
    assert_eq!(piped.ends().code, Some(0));
    // Empty is off.
    let server = Process::spawn(serve(folder.path()).args(["--durability", "memory"]).env("TENURE_PASSWORD", ""));
    assert_eq!(Tool::of(&server).run(&["ls"]).code, Some(0));
}

#[test]
fn new_certificates_are_taken_without_a_restart() {
    let secured = Secured::start();
    assert_eq!(secured.run(&["ls"]).code, Some(0));
    let renewed = Authority::new("renewed");
    let Identity { certificate, key } = renewed.sign();
    renewed.write(secured.folder.path(), "ca.crt");
    let told = secured.run(&["ls"]);
    assert_eq!(told.code, Some(69), "{}", told.stderr);
    // Half of it is of no use, and does no harm.
    std::fs::write(secured.path("server.crt"), certificate).unwrap();
    std::fs::write(secured.path("server.key"), key).unwrap();
    until("the new certificate is in use", || secured.run(&["ls"]).code == Some(0));
    let before = secured.authority.write(secured.folder.path(), "before.crt");
    assert_eq!(ended(secured.command(&["ls"]).env("TENURE_TLS_CA", before)).code, Some(69));
}

/// A server that is started again with other secrets than before, and clients that find theirs in the same files.
struct Rotating {
    server: Process,
    door: Door,
    folder: TempDir,
}

impl Rotating {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Self::serve(folder.path(), "first");
        let door = Door::to(server.grpc.trim_start_matches("https://"));
        Self { server, door, folder }
    }

    /// Replaces all files, those of the clients too. Nothing of what was good before is good for this server.
    fn serve(folder: &Path, password: &str) -> Process {
        let authority = Authority::new(password);
        authority.write(folder, "ca.crt");
        authority.sign().write(folder, "server");
        authority.sign().write(folder, "client");
        std::fs::write(folder.join("password"), format!("{password}\n")).unwrap();
        let mut serve = serve(folder);
        serve.args(["--tls-cert", "server.crt", "--tls-key", "server.key", "--client-ca", "ca.crt"]);
        Process::spawn(serve.args(["--password-file", "password"]).current_dir(folder))
    }

    fn restart(&mut self, password: &str) {
        self.server.kill();
        self.server = Self::serve(self.folder.path(), password);
        self.door.leads_to(self.server.grpc.trim_start_matches("https://"));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Tool::at(&self.door.address).command(arguments);
        command.env("TENURE_TLS_CA", path("ca.crt")).env("TENURE_PASSWORD_FILE", path("password"));
        command.env("TENURE_CLIENT_CERT", path("client.crt")).env("TENURE_CLIENT_KEY", path("client.key"));
        command
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let done = ended(&mut self.command(arguments));
        assert_done(&done);
        done.stdout
    }
}

#[test]
fn who_runs_waits_or_watches_goes_on_with_the_new_secrets_of_a_restarted_server() {
    let mut scene = Rotating::start();
    let mut run = Job::start(&scene.command(&["run", "db", "--", "sh", "-c", "echo begun; read line"]));
    run.says("begun");
    let mut waiting = Job::start(&scene.command(&["run", "db", "--", "echo", "my turn"]));
    let mut acquiring = Job::start(&scene.command(&["acquire", "db", "--json"]));
    until("both wait", || scene.printed(&["queue", "db", "--json"]).matches("\"holder\"").count() == 2);
    let mut leader = Job::start(&scene.command(&["elect", "scheduler", "here"]));
    leader.says("here");
    let mut listener = Job::start(&scene.command(&["elect", "--listen", "scheduler"]));
    listener.says("here");

    scene.restart("second");
    let attached = || scene.printed(&["sessions", "--json"]).matches("\"attached\":true").count();
    until("all who have a session are back", || attached() == 3);
    run.hears("go\n");
    assert_eq!(run.ends().code, Some(0));
    assert_eq!(waiting.ends().stdout, "my turn\n");
    let acquired = acquiring.ends();
    assert_eq!(acquired.code, Some(0), "{}", acquired.stderr);
    listener.complains("connected again");
    leader.signal(Signal::SIGTERM);
    leader.ends();
    listener.says("nobody");
    listener.signal(Signal::SIGTERM);
    listener.ends();
}

#[test]
fn a_hold_that_was_lost_for_a_file_that_is_gone_names_the_file() {
    let mut scene = Rotating::start();
    let path = scene.folder.path().join("password");
    let sleeps = ["--ttl", "3s", "--grace", "1s", "--", "sh", "-c", "echo begun; exec sleep 600"];
    let mut run = Job::start(&scene.command(&[&["run", "db"], &sleeps[..]].concat()));
    run.says("begun");
    let mut leader = Job::start(&scene.command(&["elect", "scheduler", "here", "--ttl", "3s"]));
    leader.says("here");
    std::fs::remove_file(&path).unwrap();
    scene.server.kill();
    for job in [&mut run, &mut leader] {
        let Ended { code, stderr, .. } = job.ends();
        assert_eq!(code, Some(79), "{stderr}");
        assert!(stderr.contains(&format!("{} cannot be read", path.display())), "{stderr}");
    }
}
