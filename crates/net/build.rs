//! Compiles the wire's service without an external compiler. Its messages are those of `blindsum-job`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "../../proto";
    println!("cargo:rerun-if-changed={folder}");
    let files = protox::compile(["blindsum.proto"], [folder])?;
    tonic_prost_build::configure()
        .extern_path(".blindsum.v1", "::blindsum_job::pb")
        .compile_fds(files)?;
    Ok(())
}
