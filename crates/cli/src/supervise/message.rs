//! What wrapper and guard say to each other, over a pair of sockets that keep messages apart. Words and numbers in
//! text: both ends are the same binary, so there are no versions, and a trace of the system calls can be read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use super::clock::Boottime;
use super::terms::Terms;

/// From the wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Start the command. The first order, once.
    Begin(Terms),
    /// The hold now ends then.
    Deadline(Boottime),
    /// The hold is lost.
    Stop,
    /// For the command's process group.
    Signal(i32),
}

/// From the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// With the process id of the command, which is its process group's too.
    Started(i32),
    /// With the error number.
    CannotStart(i32),
    /// The command was stopped by a signal of job control.
    Paused(i32),
    Exited(i32),
    Signaled(i32),
    /// The hold is being lost: the command and all it started have been asked to end.
    Stopping,
    /// They are gone.
    Gone,
}

impl Order {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Begin(terms) => {
                let deadline = terms.deadline.map_or("none".to_owned(), |deadline| deadline.millis().to_string());
                let (grace, margin) = (terms.grace.as_millis(), terms.margin.as_millis());
                let mut bytes = format!("begin {grace} {margin} {deadline}").into_bytes();
                for (name, value) in &terms.release {
                    bytes.push(0);
                    bytes.extend_from_slice(name.as_bytes());
                    bytes.push(b'=');
                    bytes.extend_from_slice(value.as_bytes());
                }
                bytes
            }
            Self::Deadline(deadline) => format!("deadline {}", deadline.millis()).into_bytes(),
            Self::Stop => b"stop".to_vec(),
            Self::Signal(signal) => format!("signal {signal}").into_bytes(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.split(|byte| *byte == 0);
        let words: Vec<_> = str::from_utf8(parts.next()?).ok()?.split(' ').collect();
        match words[..] {
            ["begin", grace, margin, deadline] => Some(Self::Begin(Terms {
                grace: Duration::from_millis(grace.parse().ok()?),
                margin: Duration::from_millis(margin.parse().ok()?),
                deadline: match deadline {
                    "none" => None,
                    millis => Some(Boottime::from_millis(millis.parse().ok()?)),
                },
                release: parts.map(variable).collect::<Option<_>>()?,
            })),
            ["deadline", millis] => Some(Self::Deadline(Boottime::from_millis(millis.parse().ok()?))),
            ["stop"] => Some(Self::Stop),
            ["signal", signal] => Some(Self::Signal(signal.parse().ok()?)),
            _ => None,
        }
    }
}

fn variable(bytes: &[u8]) -> Option<(OsString, OsString)> {
    let equals = bytes.iter().position(|byte| *byte == b'=')?;
    Some((OsStr::from_bytes(&bytes[..equals]).to_owned(), OsString::from_vec(bytes[equals + 1..].to_vec())))
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Started(pid) => format!("started {pid}"),
            Self::CannotStart(error) => format!("cannot-start {error}"),
            Self::Paused(signal) => format!("paused {signal}"),
            Self::Exited(code) => format!("exited {code}"),
            Self::Signaled(signal) => format!("signaled {signal}"),
            Self::Stopping => "stopping".to_owned(),
            Self::Gone => "gone".to_owned(),
        }
        .into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let words: Vec<_> = str::from_utf8(bytes).ok()?.split(' ').collect();
        match words[..] {
            ["started", pid] => Some(Self::Started(pid.parse().ok()?)),
            ["cannot-start", error] => Some(Self::CannotStart(error.parse().ok()?)),
            ["paused", signal] => Some(Self::Paused(signal.parse().ok()?)),
            ["exited", code] => Some(Self::Exited(code.parse().ok()?)),
            ["signaled", signal] => Some(Self::Signaled(signal.parse().ok()?)),
            ["stopping"] => Some(Self::Stopping),
            ["gone"] => Some(Self::Gone),
            _ => None,
        }
    }
}

/// Two ends that say something to each other; neither is inherited by a process that is started.
pub(super) fn line() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)
}

/// Never waits: the other end may be paused, and what it does not hear makes it stop the command earlier, not later.
/// Whether the other end is still there is for [`hear`] to find out.
pub(super) fn say(line: impl AsFd, message: &[u8]) -> nix::Result<()> {
    send(line.as_fd().as_raw_fd(), message, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// The next message, or nothing once the other end is gone. `WouldBlock` if there is none yet.
pub(super) fn hear(line: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    // Room for a server's address, namespace and key.
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match recv(line.as_fd().as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => return Ok(None),
            Ok(length) => {
                bytes.truncate(length);
                return Ok(Some(bytes));
            }
            // The other end closed without having heard everything. It is told once; what it said comes after.
            Err(Errno::ECONNRESET | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let key = OsString::from_vec(b"a=b \xff".to_vec());
        let terms = Terms {
            grace: Duration::from_secs(5),
            margin: Duration::from_millis(250),
            deadline: Some(Boottime::from_millis(1)),
            release: vec![("TENURE_KEY".into(), key), ("TENURE_ADDR".into(), OsString::new())],
        };
        let endless = Terms { deadline: None, release: Vec::new(), ..terms.clone() };
        let orders = [
            Order::Begin(terms),
            Order::Begin(endless),
            Order::Deadline(Boottime::from_millis(12)),
            Order::Stop,
            Order::Signal(15),
        ];
        for order in orders {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        let reports = [
            Report::Started(7),
            Report::CannotStart(2),
            Report::Paused(20),
            Report::Exited(255),
            Report::Signaled(9),
            Report::Stopping,
            Report::Gone,
        ];
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        for nonsense in ["", "begin", "deadline soon", "stop now"] {
            assert_eq!(Order::decode(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    fn what_was_said_before_the_end_is_heard_before_the_end() {
        let (wrapper, guard) = line().unwrap();
        assert_eq!(hear(&wrapper).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        say(&wrapper, b"not heard").unwrap();
        say(&guard, b"one").unwrap();
        say(&guard, b"two").unwrap();
        drop(guard);
        assert_eq!(hear(&wrapper).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(hear(&wrapper).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(hear(&wrapper).unwrap(), None);
    }
}
