//! etcd over its gRPC interface: a key that is made if it is not there, and its lock service for those who wait. The
//! keys have no lease, which saves etcd work that we do.

use tenure_bench::calls::Channel;

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
    channel: Channel,
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
        Ok(Self { channel: Channel::open(address).await?, lease: None })
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
                let done: kv::TxnResponse = self.channel.call("/etcdserverpb.KV/Txn", &request).await?;
                match done.succeeded {
                    true => Ok(Taken::Key(key)),
                    false => Err("somebody else uses this name".into()),
                }
            }
            What::Shared { name, units: 1 } => {
                let lease = match self.lease {
                    Some(lease) => lease,
                    None => {
                        let request = kv::LeaseGrantRequest { ttl: LEASE };
                        let granted: kv::LeaseGrantResponse =
                            self.channel.call("/etcdserverpb.Lease/LeaseGrant", &request).await?;
                        granted.id
                    }
                };
                self.lease = Some(lease);
                let request = lock::LockRequest { name: name.as_bytes().to_vec(), lease };
                let locked: lock::LockResponse = self.channel.call("/v3lockpb.Lock/Lock", &request).await?;
                Ok(Taken::Lock(locked.key))
            }
            What::Shared { .. } | What::Chosen { .. } | What::Place(_) => Err("etcd has nothing of this kind".into()),
        }
    }

    async fn give_back(&mut self, taken: Taken) -> Outcome<()> {
        match taken {
            Taken::Key(key) => {
                let request = kv::DeleteRangeRequest { key };
                let done: kv::DeleteRangeResponse = self.channel.call("/etcdserverpb.KV/DeleteRange", &request).await?;
                if done.deleted == 1 { Ok(()) } else { Err("the key was not there any more".into()) }
            }
            Taken::Lock(key) => {
                let request = lock::UnlockRequest { key };
                let lock::UnlockResponse {} = self.channel.call("/v3lockpb.Lock/Unlock", &request).await?;
                Ok(())
            }
        }
    }
}
