//! LDLM's own interface: the same calls by the same client, whichever server answers them.

use tenure_bench::calls::Channel;
use tenure_proto::ldlm::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};

use crate::load::{Connection, Outcome, What};

#[derive(Clone, Debug)]
pub(crate) struct Ldlm(Channel);

impl Connection for Ldlm {
    /// Name and key.
    type Taken = (String, String);

    async fn open(address: &str) -> Outcome<Self> {
        Channel::open(address).await.map(Self)
    }

    async fn take(&mut self, what: &What) -> Outcome<Self::Taken> {
        let (name, size) = match what {
            What::Own(name) | What::Shared { name, units: 1 } => (name, None),
            What::Shared { name, units } => (name, Some(i32::try_from(*units)?)),
            What::Chosen { .. } | What::Place(_) => return Err("LDLM has only locks".into()),
        };
        let request = LockRequest { name: name.clone(), size, ..Default::default() };
        let locked: LockResponse = self.0.call("/ldlm.LDLM/Lock", &request).await?;
        match locked.locked {
            true => Ok((name.clone(), locked.key)),
            false => Err(format!("{name} is not locked: {:?}", locked.error).into()),
        }
    }

    async fn give_back(&mut self, (name, key): Self::Taken) -> Outcome<()> {
        let unlocked: UnlockResponse = self.0.call("/ldlm.LDLM/Unlock", &UnlockRequest { name, key }).await?;
        match unlocked.unlocked {
            true => Ok(()),
            false => Err(format!("not unlocked: {:?}", unlocked.error).into()),
        }
    }
}
