//! The messages and services of etcd that leases need: `proto/etcd.proto`, a part of etcd's own interface. `tools/schema`
//! writes them.

#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::all)]

include!("generated.rs");
