//! What jobs, rounds and protocols are made of: what is agreed, who takes part, what can go wrong.
//!
//! From the bottom up: options, the job specification made of them ([`spec`]), its plan, the checked job, its rounds
//! with their stages, and what each protocol tells the rest of this crate about itself. Nothing here names a machine,
//! and protocols are named only by [`ProtocolChoice`](crate::ProtocolChoice).

pub(crate) mod evidence;
pub(crate) mod fault;
pub(crate) mod fault_class;
pub(crate) mod guard;
pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod kind;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod noise_rule;
pub(crate) mod options;
pub(crate) mod party;
pub(crate) mod plan;
pub(crate) mod privacy;
pub(crate) mod protocol;
pub(crate) mod round;
pub(crate) mod round_parameters;
pub(crate) mod seat;
pub(crate) mod servers;
pub(crate) mod sparsity;
pub(crate) mod spec;
pub(crate) mod vault;
