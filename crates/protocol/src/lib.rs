//! Secure aggregation protocols as byte machines
