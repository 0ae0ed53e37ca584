//! Compiles as much of etcd's interface as the load generator uses.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.open_file("etcd/kv.proto")?.open_file("etcd/lock.proto")?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
