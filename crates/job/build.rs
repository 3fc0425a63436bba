//! Compiles the wire's messages without an external compiler. The service around them is compiled where it is used.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "../../proto";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["blindsum.proto"], [folder])?;
    prost_build::Config::new()
        .bytes([
            ".blindsum.v1.Chunk.data",
            ".blindsum.v1.ModelChunk.data",
            // The same ones go to every party of a round.
            ".blindsum.v1.RoundStart.certificates",
            ".blindsum.v1.Participant",
            ".blindsum.v1.RosterFixed.certificates",
            ".blindsum.v1.Committed",
        ])
        .compile_fds(files)?;
    Ok(())
}
