//! Choices of the job specification, written by one name each: in files, on the command line, in
//! hashes and in messages.

use crate::core::options::choice;

choice! {
    /// What the server and the corrupt parties may do.
    Adversary {
        /// Coordinator and corrupt parties follow the protocol, and try to learn from their views.
        SemiHonest = "semi-honest",
        /// Coordinator and corrupt parties may deviate from the protocol in any way.
        Active = "active",
    }
}

choice! {
    /// Key agreement between parties.
    SuiteName {
        /// X25519.
        X25519 = "x25519",
        /// NIST P-256.
        P256 = "p256",
    }
}

choice! {
    /// Where the model comes from that a job begins with.
    InitialModel {
        /// From the coordinator, or zeros with a warning if it has none.
        Coordinator = "coordinator",
        /// It is zeros.
        Zeros = "zeros",
        /// From the first connected party, by name, that can give one. The coordinator and all parties learn it.
        FirstParty = "first-party",
    }
}

choice! {
    /// The effect of the mean on the job's model.
    ModelUpdate {
        /// It is added to the model: parties send differences.
        Add = "add",
        /// It becomes the model: parties send models.
        Replace = "replace",
        /// Nothing: the job only computes means.
        Nothing = "none",
    }
}
