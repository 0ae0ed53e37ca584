//! What the tests need besides Rust: programs of the system, and in `target/tools` the libraries of LDLM's clients, of
//! Temporal and for a browser, and what is built from our own TypeScript.
//! Nothing is done for what is there already, so that it can be the first step of every run.

mod postgresql;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// Of LDLM's clients, of an older one of them, and of Temporal with its SDK.
const PYTHON: &str = "examples/requirements.txt";
const PYTHON_OLDER: &str = "crates/cli/tests/ldlm_clients/py/older.txt";
const PYTHON_TEMPORAL: &str = "crates/cli/tests/temporal/requirements.txt";
/// Of our own client.
const PYTHON_CLIENT: &str = "clients/python/tests/requirements.txt";
/// Folders of `target/tools` with Node's libraries, and where it is said which.
const NODE: [(&str, &str); 3] = [
    ("node", "crates/cli/tests/ldlm_clients/node"),
    ("browser", "crates/cli/tests/console/node"),
    ("typescript", "clients/typescript"),
];
/// What is written in TypeScript, in the order in which it is built.
const TYPESCRIPT: [&str; 3] = ["clients/typescript/src", "clients/typescript/test", "examples"];
/// Programs that tests use.
const GO: [(&str, &str); 3] = [
    ("crates/cli/tests/ldlm_clients/go", "ldlm-client"),
    ("crates/cli/tests/fencing/porcupine", "porcupine"),
    ("crates/cli/tests/http2/h2spec", "h2spec"),
];
/// Our own client in Go and its helper for workflows, and what their tests are built as.
const GO_OURS: [(&str, &str); 2] = [("clients/go", "client.test"), ("clients/go/tenureflow", "tenureflow.test")];
/// What makes the client's messages.
const GO_WIRE: &str = "clients/go/tools/make_wire.sh";

/// Those that can be missing on a machine where all else is tested.
pub(crate) struct Missing {
    pub(crate) go: bool,
    pub(crate) postgresql: bool,
}

/// Makes whatever is not there yet, and says what had to be left out.
pub(crate) fn make() -> Result<Missing, String> {
    need("curl", &["curl"])?;
    need("prlimit", &["util-linux"])?;
    need("python3", &["python3", "python3-venv"])?;
    need("node", &["nodejs"])?;
    need("npm", &["npm"])?;
    // For the protocol of Temporal, which has files of Google's own in it.
    need("protoc", &["protobuf-compiler", "libprotobuf-dev"])?;
    need("setpriv", &["util-linux"])?;
    // Without a font nothing has a width.
    need("chromium", &["chromium", "fonts-dejavu-core"])?;
    python()?;
    for (name, source) in NODE {
        node(name, source)?;
    }
    typescript()?;
    Ok(Missing { go: !go()?, postgresql: !postgresql::make()? })
}

/// An environment with py-ldlm, which users of the examples install from the same file, beside it an older one, with
/// Temporal, its SDK and its command line, which is its development server too, and with what our own client stands on.
fn python() -> Result<(), String> {
    let inputs = [PYTHON, PYTHON_OLDER, PYTHON_TEMPORAL, PYTHON_CLIENT];
    let folder = Folder::new("python", &inputs, &version("python3", "--version")?)?;
    folder.make_once(|path| {
        if !succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
            // Debian's Python comes without them.
            install("python3's venv", &["python3-venv"])?;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(path))?;
        let install = |file: &str, options: &[&str]| {
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
            let mut command = Command::new(path.join("bin/python"));
            run(command.args(pip).arg(root().join(file)).args(options).current_dir(path))
        };
        install(PYTHON, &[])?;
        install(PYTHON_TEMPORAL, &[])?;
        install(PYTHON_CLIENT, &[])?;
        install(PYTHON_OLDER, &["--no-deps", "--target", "older"])
    })
}

/// Libraries; `npm` wants them beside the file that names them.
fn node(name: &str, source: &str) -> Result<(), String> {
    let inputs = [format!("{source}/package.json"), format!("{source}/package-lock.json")];
    let folder = Folder::new(name, &inputs, &version("node", "--version")?)?;
    folder.make_once(|path| {
        for input in inputs.iter().map(|input| root().join(input)) {
            let name = input.file_name().expect("it is a file");
            fs::copy(&input, path.join(name)).map_err(|error| format!("{}: {error}", input.display()))?;
        }
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        run(Command::new("npm").args(npm).current_dir(path))
    })
}

/// The client in TypeScript with its helpers for workflows, their tests and the examples with them, beside the libraries that
/// they need.
/// They lie there as they do here.
fn typescript() -> Result<(), String> {
    let mut inputs = ["package.json", "tsconfig.json", "typedoc.json", "README.md", "bench.mjs"]
        .map(|file| Path::new("clients/typescript").join(file))
        .to_vec();
    inputs.push("examples/package.json".into());
    for folder in TYPESCRIPT {
        sources(root(), Path::new(folder), &mut inputs)?;
    }
    inputs.sort();
    let folder = Folder::new("typescript/built", &inputs, &version("node", "--version")?)?;
    folder.make_once(|path| {
        let problem = |error| format!("{}: {error}", path.display());
        for input in &inputs {
            let copy = path.join(input);
            fs::create_dir_all(copy.parent().expect("it is a file")).map_err(problem)?;
            fs::copy(root().join(input), copy).map_err(problem)?;
        }
        // Where npm would put it.
        fs::create_dir_all(path.join("node_modules")).map_err(problem)?;
        symlink("../clients/typescript", path.join("node_modules/tenure")).map_err(problem)?;
        for project in TYPESCRIPT {
            run(Command::new(path.with_file_name("node_modules/.bin/tsc")).arg("--project").arg(path.join(project)))?;
        }
        Ok(())
    })
}

/// All that `tsc` reads below a folder, by their paths from the root.
fn sources(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let problem = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(root.join(folder)).map_err(problem)? {
        let name = entry.map_err(problem)?.file_name();
        let path = folder.join(&name);
        // What is made here by hand is made anew there.
        if name == "node_modules" || name == "lib" {
            continue;
        }
        if root.join(&path).is_dir() {
            sources(root, &path, found)?;
        } else if name == "tsconfig.json" || path.extension().is_some_and(|it| it == "ts" || it == "cts") {
            found.push(path);
        }
    }
    Ok(())
}

/// Programs for our tests, the tests of our own client with what measures it, and what its messages are made with; or false
/// where there is no Go, which nobody needs for anything else.
fn go() -> Result<bool, String> {
    let client = root().join(GO_OURS[0].0);
    // One that is too old cannot even say what the module is.
    let is_usable = |go: &&str| succeeds(Command::new(go).args(["list", "-m"]).current_dir(&client));
    // The second is where Go's own archive is unpacked, as its instructions say.
    let Some(go) = ["go", "/usr/local/go/bin/go"].into_iter().find(is_usable) else {
        eprintln!(
            "xtask: there is no go, or it is older than our go.mod says: the tests of our client in Go, and of LDLM's \
             interface with one, are skipped, and so is what Porcupine says of histories, and h2spec of HTTP/2"
        );
        return Ok(false);
    };
    let mut inputs = Vec::new();
    for (folder, _) in GO.into_iter().chain(GO_OURS) {
        go_sources(Path::new(folder), &mut inputs)?;
    }
    inputs.push(GO_WIRE.into());
    inputs.sort();
    inputs.dedup();
    let folder = Folder::new("go", &inputs, &version(go, "version")?)?;
    folder.make_once(|path| {
        let build = ["build", "-mod=readonly", "-trimpath", "-o"];
        for (folder, program) in GO {
            run(Command::new(go).args(build).arg(path.join(program)).arg(".").current_dir(root().join(folder)))?;
        }
        run(Command::new(go).args(build).arg(path.join("client-bench")).arg("./bench").current_dir(&client))?;
        run(Command::new("sh").arg(root().join(GO_WIRE)).arg("--generators").arg(path).env("GO", go))?;
        let test = ["test", "-c", "-mod=readonly", "-trimpath", "-o"];
        for (ours, tests) in GO_OURS {
            run(Command::new(go).args(["vet", "./..."]).current_dir(root().join(ours)))?;
            run(Command::new(go).args(test).arg(path.join(tests)).arg(".").current_dir(root().join(ours)))?;
        }
        Ok(())
    })?;
    Ok(true)
}

/// All that Go reads below a folder, by their paths from the root.
fn go_sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let problem = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(root().join(folder)).map_err(problem)? {
        let name = entry.map_err(problem)?.file_name();
        let path = folder.join(&name);
        if root().join(&path).is_dir() {
            go_sources(&path, found)?;
        } else if name == "go.mod" || name == "go.sum" || path.extension().is_some_and(|extension| extension == "go") {
            found.push(path);
        }
    }
    Ok(())
}

/// A folder of `target/tools`, with a stamp that says what it was made from.
struct Folder {
    path: PathBuf,
    stamp: PathBuf,
    made_from: String,
}

impl Folder {
    fn new(name: &str, inputs: &[impl AsRef<Path>], version: &str) -> Result<Self, String> {
        let mut made_from = version.to_owned();
        for input in inputs {
            let path = root().join(input);
            made_from += &fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let tools = root().join("target/tools");
        Ok(Self { path: tools.join(name), stamp: tools.join(format!("{name}.stamp")), made_from })
    }

    fn make_once(&self, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        if fs::read_to_string(&self.stamp).is_ok_and(|stamp| stamp == self.made_from) && self.path.exists() {
            return Ok(());
        }
        let problem = |error| format!("{}: {error}", self.path.display());
        // What was begun and not finished is not to be taken for the whole: the stamp goes first and comes back last.
        if self.stamp.exists() {
            fs::remove_file(&self.stamp).map_err(problem)?;
        }
        if self.path.exists() {
            fs::remove_dir_all(&self.path).map_err(problem)?;
        }
        fs::create_dir_all(&self.path).map_err(problem)?;
        make(&self.path)?;
        fs::write(&self.stamp, &self.made_from).map_err(problem)
    }
}

/// A program that tests run. Where it is missing it is installed from Debian's packages, if that can be done.
fn need(program: &str, packages: &[&str]) -> Result<(), String> {
    if Command::new(program).arg("--version").output().is_ok() { Ok(()) } else { install(program, packages) }
}

fn install(what: &str, packages: &[&str]) -> Result<(), String> {
    eprintln!("xtask: {what} is missing: apt-get install --yes {}", packages.join(" "));
    let install = || succeeds(Command::new("apt-get").args(["install", "--yes"]).args(packages));
    // A fresh machine has no list of packages, or an old one.
    if install() || (succeeds(Command::new("apt-get").arg("update")) && install()) {
        return Ok(());
    }
    Err(format!("tests need {what}; install {}", packages.join(" and ")))
}

fn version(program: &str, option: &str) -> Result<String, String> {
    let output = Command::new(program).arg(option).output().map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    eprintln!("xtask: {command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ({status})")),
        Err(error) => Err(format!("{command:?} ({error})")),
    }
}
