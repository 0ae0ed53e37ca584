//! etcd over its gRPC interface: a key that is made if it is not there, and its lock service for those who wait. The
//! keys have no lease, which saves etcd work that we do.

use tonic::transport::{Channel, Endpoint};

use crate::load::{Connection, Outcome, What};

mod kv {
    //! Package `etcdserverpb`, in part.
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]

    tonic::include_proto!("etcdserverpb");
}

mod lock {
    //! Package `v3lockpb`.
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]

    tonic::include_proto!("v3lockpb");
}

/// The field that is compared, by its number in the enumeration.
const CREATE_REVISION: i32 = 1;
/// In seconds: longer than any run.
const LEASE: i64 = 600;

#[derive(Clone)]
pub(crate) struct Etcd {
    keys: kv::kv_client::KvClient<Channel>,
    leases: kv::lease_client::LeaseClient<Channel>,
    locks: lock::lock_client::LockClient<Channel>,
    /// Who this task is for the lock service: two with the same lease would share the lock.
    lease: Option<i64>,
}

pub(crate) enum Taken {
    Key(Vec<u8>),
    Lock(Vec<u8>),
}

impl Connection for Etcd {
    type Taken = Taken;

    async fn open(address: &str) -> Outcome<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        Ok(Self {
            keys: kv::kv_client::KvClient::new(channel.clone()),
            leases: kv::lease_client::LeaseClient::new(channel.clone()),
            locks: lock::lock_client::LockClient::new(channel),
            lease: None,
        })
    }

    async fn take(&mut self, what: &What) -> Outcome<Taken> {
        match what {
            What::Own(name) => {
                let key = name.as_bytes().to_vec();
                let is_absent = kv::Compare {
                    target: CREATE_REVISION,
                    key: key.clone(),
                    target_union: Some(kv::compare::TargetUnion::CreateRevision(0)),
                    ..Default::default()
                };
                let put = kv::PutRequest { key: key.clone(), value: b"bench".to_vec() };
                let put = kv::RequestOp { request: Some(kv::request_op::Request::RequestPut(put)) };
                let request = kv::TxnRequest { compare: vec![is_absent], success: vec![put] };
                match self.keys.txn(request).await?.into_inner().succeeded {
                    true => Ok(Taken::Key(key)),
                    false => Err("somebody else uses this name".into()),
                }
            }
            What::Shared(name) => {
                let lease = match self.lease {
                    Some(lease) => lease,
                    None => self.leases.lease_grant(kv::LeaseGrantRequest { ttl: LEASE }).await?.into_inner().id,
                };
                self.lease = Some(lease);
                let request = lock::LockRequest { name: name.as_bytes().to_vec(), lease };
                Ok(Taken::Lock(self.locks.lock(request).await?.into_inner().key))
            }
            What::Chosen { .. } | What::Place(_) => Err("etcd has nothing of this kind".into()),
        }
    }

    async fn give_back(&mut self, taken: Taken) -> Outcome<()> {
        match taken {
            Taken::Key(key) => {
                let deleted = self.keys.delete_range(kv::DeleteRangeRequest { key }).await?.into_inner().deleted;
                if deleted == 1 { Ok(()) } else { Err("the key was not there any more".into()) }
            }
            Taken::Lock(key) => {
                self.locks.unlock(lock::UnlockRequest { key }).await?;
                Ok(())
            }
        }
    }
}
