//! One who takes turns, as a program of its own would: with its own connection and session, and without a word to the
//! picture.

use std::time::Duration;

use tenure_client::{Client, Error, v1};
use tokio::sync::watch;
use tokio::time::sleep;

/// Short, so that one can watch it run out. It is renewed at a third of it.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How long one is away that fell silent: long enough for its lease to run out, and to be missed.
const AWAY: Duration = Duration::from_secs(4);

const NAMES: [&str; 16] = [
    "ada", "bob", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "joy", "kai", "lea", "max", "nia", "otto", "pia",
];

pub(super) fn name(number: u32) -> String {
    let names = u32::try_from(NAMES.len()).expect("there are few");
    let name = NAMES[(number % names) as usize];
    match number / names {
        0 => name.to_owned(),
        round => format!("{name}-{}", round + 1),
    }
}

pub(super) struct Consumer {
    pub(super) client: Client,
    pub(super) pool: String,
    pub(super) number: u32,
}

impl Consumer {
    /// Takes turn after turn until told to leave, and leaves nothing behind.
    pub(super) async fn run(self, mut leaving: watch::Receiver<bool>) -> Result<(), Error> {
        let mut abandoned = None;
        let turns = async {
            let mut turn = 0;
            loop {
                self.turn(turn, &mut abandoned).await?;
                turn += 1;
            }
        };
        let ended = tokio::select! {
            ended = turns => ended,
            // That whoever says it is gone is as good as being told.
            _ = leaving.wait_for(|leave| *leave) => Ok(()),
        };
        if let Some(v1::Grant { namespace, key, .. }) = abandoned {
            // It ends by itself; this is only sooner.
            let _ = self.client.api().release(v1::ReleaseRequest { namespace, key, pool: None }).await;
        }
        let closed = self.client.close().await;
        ended.and(closed)
    }

    async fn turn(&self, turn: u64, abandoned: &mut Option<v1::Grant>) -> Result<(), Error> {
        let chance = scatter(u64::from(self.number) << 32 | turn);
        let guard = self.client.acquire(&self.pool).ttl(LEASE).await?;
        tokio::select! {
            () = sleep(Duration::from_millis(1_000 + chance % 1_500)) => {}
            // An operator took it, say: somebody tries out what another terminal can do.
            _ = guard.lost() => {}
        }
        if self.falls_silent(turn) {
            *abandoned = Some(guard.keep());
            sleep(AWAY).await;
            *abandoned = None;
        } else {
            // If the server is away, or has given it to somebody else, there is nothing left to do about it.
            let _ = guard.release().await;
        }
        sleep(Duration::from_millis(100 + (chance >> 32) % 300)).await;
        Ok(())
    }

    /// One turn in sixteen, of different consumers at different times, and for the first time soon.
    fn falls_silent(&self, turn: u64) -> bool {
        (u64::from(self.number) + 3 * turn) % 16 == 9
    }
}

/// A number that looks random and is the same in every run (the finish of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everybody_has_a_name_of_their_own() {
        assert_eq!(name(0), "ada");
        assert_eq!(name(16), "ada-2");
        assert_eq!((0..100).map(name).collect::<BTreeSet<_>>().len(), 100);
    }
}
