//! Compiles the stored messages. protox does it in Rust, so that nobody needs protoc.

fn main() {
    let descriptors = protox::compile(["proto/storage.proto"], ["proto"]).expect("storage.proto compiles");
    println!("cargo:rerun-if-changed=proto/storage.proto");
    tonic_prost_build::Config::new().compile_fds(descriptors).expect("the messages can be generated");
}
