//! Compiles the wire's service without an external compiler. Its messages are those of `blindsum-job`.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "../../proto";
    println!("cargo:rerun-if-changed={folder}");
    let mut files = protox::compile(["blindsum.proto"], [folder])?;
    let configure =
        || tonic_prost_build::configure().extern_path(".blindsum.v1", "::blindsum_job::pb");
    configure().compile_fds(files.clone())?;
    // The coordinator takes the streams of parties by itself (`src/wire.rs`): generated code copies every frame.
    for service in files.file.iter_mut().flat_map(|file| &mut file.service) {
        service.method.retain(|method| method.name() != "Connect");
    }
    let questions = Path::new(&std::env::var("OUT_DIR")?).join("questions");
    std::fs::create_dir_all(&questions)?;
    configure()
        .build_client(false)
        .out_dir(questions)
        .compile_fds(files)?;
    Ok(())
}
