//! Python binding
