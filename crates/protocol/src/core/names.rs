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
    /// Where the model comes from that a job begins with.
    InitialModel {
        /// From the coordinator, which may be given one. Without one it is zeros, and everybody is warned.
        Coordinator = "coordinator",
        /// It is zeros.
        Zeros = "zeros",
        /// From the first party, by name, of those that are connected and can give one. The coordinator and all parties
        /// learn it.
        FirstParty = "first-party",
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
