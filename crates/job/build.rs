//! Compiles the wire's messages without an external compiler. The service around them is compiled where it is used.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "../../proto";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["blindsum.proto"], [folder])?;
    prost_build::Config::new()
        .bytes([".blindsum.v1.Chunk.data", ".blindsum.v1.ModelChunk.data"])
        .compile_fds(files)?;
    Ok(())
}
