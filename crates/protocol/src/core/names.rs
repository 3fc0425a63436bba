//! Choices of the job specification, written by one name each: in files, on the command line, in
//! hashes and in messages.

use crate::core::options::choice;

choice! {
    /// What the server and the corrupt parties may do.
    Adversary {
        /// Coordinator and corrupt parties follow the protocol, and look at all they can.
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
    /// What the mean does to the job's model.
    ModelUpdate {
        /// It is added to the model: parties send differences.
        Add = "add",
        /// It becomes the model: parties send models.
        Replace = "replace",
        /// Nothing: the job only computes means.
        Nothing = "none",
    }
}
