//! Coordinator and party over gRPC and mutual TLS
