//! Deterministic simulator: any protocol, many parties, one process
