//! Writes the Rust code of the wire from `proto/blindsum.proto`, and that of etcd's from `proto/etcd.proto`, without an
//! external compiler.
//!
//! The code lies beside the sources of the crates that use it, so that whoever builds them need not build what makes it.
//! After a change of the schema: `make schema`. `tools/generated.py` sees when that was forgotten.

use std::error::Error;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Fields that share their bytes: pieces of messages, and what goes to every party of a round.
const SHARED: [&str; 8] = [
    ".blindsum.v1.Chunk.data",
    ".blindsum.v1.ModelChunk.data",
    ".blindsum.v1.UploadChunk.data",
    ".blindsum.v1.LetterChunk.data",
    ".blindsum.v1.RoundStart.certificates",
    ".blindsum.v1.Participant",
    ".blindsum.v1.RosterFixed.certificates",
    ".blindsum.v1.Committed",
];

/// The schema of the wire, and the part of etcd's that is used.
const WIRE: &str = "blindsum.proto";
const ETCD: &str = "etcd.proto";

/// Writes the files, and says which.
fn main() -> Result<(), Box<dyn Error>> {
    let wire = generated()?.map(|(path, code)| (path, code, WIRE));
    for (path, code, schema) in wire.into_iter().chain([etcd()?]) {
        let schema = fingerprint(&std::fs::read(root().join("proto").join(schema))?);
        let of_code = fingerprint(code.as_bytes());
        let first_line = format!(
            "// Made by tools/schema from a schema with SHA-256 {schema}; the code has {of_code}.\n"
        );
        std::fs::write(&path, first_line + &code)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Each file with its code: the messages, the services that carry them, and the coordinator's without the streams of
/// parties, which it takes by itself: generated code would copy every frame.
fn generated() -> Result<[(PathBuf, String); 3], Box<dyn Error>> {
    let schema = protox::compile([WIRE], [root().join("proto")])?;
    let mut questions = schema.clone();
    for file in &mut questions.file {
        file.service.retain(|service| service.name() == "Coordinator");
        for service in &mut file.service {
            service.method.retain(|method| method.name() != "Connect");
        }
    }
    let package = "blindsum.v1.rs";
    let messages = made(package, |folder| {
        let mut made = prost_build::Config::new();
        made.bytes(SHARED)
            .out_dir(folder)
            .compile_fds(schema.clone())
    })?;
    let service = made(package, |folder| tonic().out_dir(folder).compile_fds(schema.clone()))?;
    let questions = made(package, |folder| {
        tonic()
            .build_client(false)
            .out_dir(folder)
            .compile_fds(questions)
    })?;
    let crates = root().join("crates");
    let net = crates.join("net/src/generated");
    Ok([
        (crates.join("job/src/generated/messages.rs"), messages),
        (net.join("service.rs"), service),
        (net.join("questions.rs"), questions),
    ])
}

/// Messages and services of etcd. Its side of them is for tests.
fn etcd() -> Result<(PathBuf, String, &'static str), Box<dyn Error>> {
    let schema = protox::compile([ETCD], [root().join("proto")])?;
    let tonic = tonic_prost_build::configure().server_mod_attribute("etcdserverpb", "#[cfg(feature = \"server\")]");
    let code = made("etcdserverpb.rs", |folder| {
        tonic.out_dir(folder).compile_fds(schema)
    })?;
    Ok((root().join("crates/etcd/src/generated.rs"), code, ETCD))
}

/// What the makers of services all do: the messages are those of another crate.
fn tonic() -> tonic_prost_build::Builder {
    tonic_prost_build::configure().extern_path(".blindsum.v1", "::blindsum_job::pb")
}

/// The code that is written into a folder, to the file that the package of its schema names.
fn made(
    file: &str,
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    write(folder.path())?;
    Ok(std::fs::read_to_string(folder.path().join(file))?)
}

/// The folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The SHA-256 in hexadecimal digits.
fn fingerprint(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes).into_iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
