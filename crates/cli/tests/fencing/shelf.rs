//! What the lock protects: a set, in three copies that are read and written back as a whole, as a register is. Only one of
//! them looks at the token. It is kept in memory, or in a file by a process of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde::{Deserialize, Serialize};

/// How the writers treat each copy: they just write it back, or they look at the time first, or the set looks at the token.
pub(crate) const COPIES: [&str; 3] = ["bare", "careful", FENCED];
pub(crate) const FENCED: &str = "fenced";

pub(crate) type Elements = BTreeSet<u64>;

#[derive(Default)]
pub(crate) struct Shelf {
    copies: BTreeMap<String, Register>,
    file: Option<PathBuf>,
}

#[derive(Clone, Default, Deserialize, Serialize)]
struct Register {
    elements: Elements,
    /// The highest token that anybody came with. To read counts too: whoever read with a higher one will write back what it
    /// saw, and what a lower one writes in between would be lost.
    token_highest: u64,
}

#[derive(Deserialize, Serialize)]
pub(crate) enum Request {
    Read { copy: String, token: u64 },
    Write { copy: String, token: u64, elements: Elements },
}

#[derive(Deserialize, Serialize)]
pub(crate) enum Answer {
    Elements(Elements),
    Written,
    /// The token is lower than one that was here.
    Stale,
}

impl Shelf {
    /// What the file has, if it is there.
    pub(crate) fn open(file: PathBuf) -> Self {
        let copies = fs::read(&file).map(|bytes| serde_json::from_slice(&bytes).unwrap()).unwrap_or_default();
        Self { copies, file: Some(file) }
    }

    fn answer(&mut self, request: Request) -> Answer {
        let (Request::Read { copy, token } | Request::Write { copy, token, .. }) = &request;
        let is_fenced = copy == FENCED;
        let register = self.copies.entry(copy.clone()).or_default();
        if is_fenced && *token < register.token_highest {
            return Answer::Stale;
        }
        register.token_highest = register.token_highest.max(*token);
        let answer = match request {
            Request::Read { .. } => Answer::Elements(register.elements.clone()),
            Request::Write { elements, .. } => {
                register.elements = elements;
                Answer::Written
            }
        };
        self.save();
        answer
    }

    /// The whole of it, so that a process that is killed leaves the old or the new.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        let new = file.with_extension("new");
        let mut written = File::create(&new).unwrap();
        written.write_all(&serde_json::to_vec(&self.copies).unwrap()).unwrap();
        written.sync_data().unwrap();
        fs::rename(new, file).unwrap();
    }
}

/// Serves it on a port that the system chooses, for as long as this process lives.
pub(crate) fn serve(shelf: Shelf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let shelf = Arc::new(Mutex::new(shelf));
    thread::spawn(move || {
        for visitor in listener.incoming().flatten() {
            let shelf = shelf.clone();
            // Its end is the visitor's.
            thread::spawn(move || drop(attend(&shelf, visitor)));
        }
    });
    address
}

fn attend(shelf: &Mutex<Shelf>, mut visitor: TcpStream) -> std::io::Result<()> {
    visitor.set_nodelay(true)?;
    let requests = BufReader::new(visitor.try_clone()?);
    for request in requests.lines() {
        let request = serde_json::from_str(&request?)?;
        let mut answer = serde_json::to_vec(&shelf.lock().unwrap().answer(request))?;
        answer.push(b'\n');
        visitor.write_all(&answer)?;
    }
    Ok(())
}

/// The process that keeps it in a file. Says where it listens; ends when nobody needs it any more.
pub(crate) fn process(file: PathBuf) {
    println!("{}", serve(Shelf::open(file)));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// The way to it, which is made anew whenever it is broken. Nothing is asked twice.
pub(crate) struct Visitor {
    address: String,
    line: Option<BufReader<TcpStream>>,
}

impl Visitor {
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), line: None }
    }

    /// None if there is no answer: a write may have happened, now or later.
    pub(crate) fn ask(&mut self, request: &Request) -> Option<Answer> {
        let answer = self.try_to_ask(request).ok();
        if answer.is_none() {
            self.line = None;
        }
        answer
    }

    fn try_to_ask(&mut self, request: &Request) -> std::io::Result<Answer> {
        let line = match &mut self.line {
            Some(line) => line,
            none => none.insert(BufReader::new(TcpStream::connect(&self.address)?)),
        };
        line.get_ref().set_nodelay(true)?;
        let mut bytes = serde_json::to_vec(request)?;
        bytes.push(b'\n');
        line.get_mut().write_all(&bytes)?;
        let mut answer = String::new();
        line.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}
