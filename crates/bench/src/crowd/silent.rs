//! Connections that say nothing, or only begin to.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::prober::Others;
use super::server::Server;
use super::{Outcome, PATIENCE, Scale, Told};

const BEGINNINGS: [&[u8]; 4] = [b"", b"P", b"GET / HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"];
/// Of one connection, in KiB, at most; and what a server takes in any case.
const EACH: u64 = 32;
const ANYWAY: u64 = 32 * 1024;

pub(crate) async fn run(server: &Server, scale: Scale, others: &Others) -> Outcome<Told> {
    let mut told = Told { growth_max: ANYWAY + EACH * scale.silent as u64, ..Told::default() };
    told.asked = format!("{} connections to both ports that say nothing, or only begin to", scale.silent);
    let mut silent = JoinSet::new();
    for number in 0..scale.silent {
        let address = if number % 2 == 0 { &server.grpc } else { &server.http };
        let mut socket = TcpStream::connect(address).await?;
        silent.spawn(async move {
            socket.write_all(BEGINNINGS[number / 2 % BEGINNINGS.len()]).await?;
            // How it is hung up on does not matter here.
            let ended = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut Vec::new())).await;
            Outcome::Ok(ended.is_ok())
        });
    }
    told.check_others(others, "while they are silent").await;
    let mut hung_up = 0;
    while let Some(ended) = silent.join_next().await {
        hung_up += u64::from(ended??);
    }
    told.check(format!("all are hung up on ({hung_up})"), hung_up == scale.silent as u64);
    told.refused.insert("hung up on".to_owned(), hung_up);
    Ok(told)
}
