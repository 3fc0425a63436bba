//! Threshold secret sharing
