//! What servers and keepers say to each other, with whatever bytes: refused or understood, and the same again after a
//! round trip.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::*;
use tenure_fuzz::{fuzz, word};

use crate::samples::*;

fn decode<T: Serialize + DeserializeOwned + Debug>(input: &[u8]) -> String {
    match postcard::from_bytes::<T>(input) {
        Ok(value) => {
            let bytes = postcard::to_stdvec(&value).unwrap();
            let again = postcard::from_bytes::<T>(&bytes).unwrap();
            assert_eq!(format!("{again:?}"), format!("{value:?}"), "the same after a round trip");
            let kind: String = format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect();
            format!("{kind} understood")
        }
        Err(error) => word(&error),
    }
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_command_of_a_keeper() {
    let commands = [
        Command::Acquire(acquire()),
        Command::Acquire(bare_acquire()),
        Command::Renew(Renew { namespace: namespace(), key: key(), pool: Some(name()), ttl: Some(TTL_MAX) }),
        Command::Withdraw { namespace: namespace(), request: request() },
        Command::OwnerGone { namespace: namespace(), owner: owner() },
        Command::SetPool(SetPool { pool: pool(), spec: named_pool() }),
    ];
    let samples: Vec<_> = commands.iter().map(|command| postcard::to_stdvec(command).unwrap()).collect();
    fuzz("keeper_command", &samples, &["default", "gpu && mem >= 80", "(", "!"], decode::<Command>);
}

#[test]
fn any_bytes_are_refused_or_understood_as_a_reply_of_a_keeper() {
    let replies =
        [Reply::Withdrawn, Reply::Released { token: Token(7) }, Reply::Done, Reply::PoolRemoved { holds_left: 3 }];
    let samples: Vec<_> = replies.iter().map(|reply| postcard::to_stdvec(reply).unwrap()).collect();
    fuzz("keeper_reply", &samples, &["default"], decode::<Reply>);
}
