//! What jobs, rounds and protocols are made of: what is agreed, who takes part, what can go wrong.

pub(crate) mod evidence;
pub(crate) mod fault;
pub(crate) mod guard;
pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod kind;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod party;
pub(crate) mod plan;
pub(crate) mod protocol;
pub(crate) mod round;
pub(crate) mod seat;
pub(crate) mod sparsity;
pub(crate) mod spec;
pub(crate) mod vault;
