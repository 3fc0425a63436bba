//! Compiles the wire's messages and service without an external compiler.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "../../proto";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["blindsum.proto"], [folder])?;
    tonic_prost_build::configure()
        .bytes(".blindsum.v1.Chunk.data")
        .bytes(".blindsum.v1.ModelChunk.data")
        .compile_fds(files)?;
    Ok(())
}
