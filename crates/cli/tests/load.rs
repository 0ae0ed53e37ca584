//! What `cargo xtask load` does, with hundreds instead of thousands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tenure_bench::crowd::{Scale, run, table};

#[tokio::test]
async fn crowds_and_bad_guests_are_served_or_refused_and_others_do_not_notice() {
    let program = Path::new(env!("CARGO_BIN_EXE_tenure"));
    let rows = run(program, Scale::SMALL, &[]).await.unwrap();
    let broken: Vec<_> = rows.iter().flat_map(|row| row.broken()).collect();
    println!("{}", table(&rows));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
