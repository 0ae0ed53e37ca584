//! LDLM's own interface: the same calls by the same client, whichever server answers them.

use tenure_proto::ldlm::ldlm_client::LdlmClient;
use tenure_proto::ldlm::{LockRequest, UnlockRequest};
use tonic::transport::{Channel, Endpoint};

use crate::load::{Connection, Outcome, What};

#[derive(Clone, Debug)]
pub(crate) struct Ldlm(LdlmClient<Channel>);

impl Connection for Ldlm {
    /// Name and key.
    type Taken = (String, String);

    async fn open(address: &str) -> Outcome<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        Ok(Self(LdlmClient::new(channel)))
    }

    async fn take(&mut self, what: &What) -> Outcome<Self::Taken> {
        let (What::Own(name) | What::Shared(name)) = what else { return Err("LDLM has only locks".into()) };
        let locked = self.0.lock(LockRequest { name: name.clone(), ..Default::default() }).await?.into_inner();
        match locked.locked {
            true => Ok((name.clone(), locked.key)),
            false => Err(format!("{name} is not locked: {:?}", locked.error).into()),
        }
    }

    async fn give_back(&mut self, (name, key): Self::Taken) -> Outcome<()> {
        let unlocked = self.0.unlock(UnlockRequest { name, key }).await?.into_inner();
        match unlocked.unlocked {
            true => Ok(()),
            false => Err(format!("not unlocked: {:?}", unlocked.error).into()),
        }
    }
}
