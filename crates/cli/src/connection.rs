//! A connection for commands that make a call or two. Commands that wait and hold use `tenure_client` as it is.

use tenure_client::Api;
use tonic::Status;

use crate::arguments::Server;
use crate::exit::Exit;

pub(crate) struct Connection {
    pub(crate) calls: Api,
    address: String,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Result<Self, Exit> {
        // A page of holds with all the metadata they may have is larger than what is taken by default.
        let calls = server.client()?.connect_api().await?.max_decoding_message_size(usize::MAX);
        Ok(Self { calls, address: server.addr.clone() })
    }

    /// Why a call was not done.
    pub(crate) fn failed(&self, status: Status) -> Exit {
        Exit::Client(self.error(status))
    }

    pub(crate) fn error(&self, status: Status) -> tenure_client::Error {
        tenure_client::Error::of_status(&self.address, status)
    }
}
