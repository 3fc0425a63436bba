//! Choices of the job specification, written by one name each: in files, on the command line, in
//! hashes and in messages.

use serde::{Deserialize, Serialize};

/// Declares a choice whose variants have one written name each.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name it is written by.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

choice! {
    /// Which protocol protects the sum.
    ProtocolName {
        /// No protection: the server sees every update. The baseline.
        Plain = "plain",
        /// Double masking on the complete graph (Bonawitz17).
        SecAgg = "secagg",
        /// Double masking on a random sparse graph (Bell20).
        SecAggPlus = "secagg+",
        /// Ramp sharing, words in the coefficients (FSSA).
        Fssa = "fssa",
        /// Ramp sharing, words in the values (PSS).
        Pss = "pss",
        /// Additively symmetric encryption: the server learns nothing (FLASHE).
        Flashe = "flashe",
    }
}

choice! {
    /// What the server and the corrupt parties may do.
    Adversary {
        /// They follow the protocol and look.
        SemiHonest = "semi-honest",
        /// They do whatever they like.
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
    /// How numbers become words.
    EncodingName {
        /// Clipped and quantised to `bits` bits.
        Quantised = "quantised",
        /// 64-bit fixed point with 16 fractional bits.
        Fixed64 = "fixed64",
        /// Unsigned integers of `bits` bits as they are, with exact sums.
        Integers = "integers",
    }
}

choice! {
    /// How values are rounded to levels.
    RoundingName {
        /// At random, so that the expectation is the value.
        Stochastic = "stochastic",
        /// To the nearest level.
        Nearest = "nearest",
    }
}

choice! {
    /// What `clip` bounds.
    Clipping {
        /// Every coordinate of a tensor.
        Tensor = "tensor",
        /// The L2 norm of the whole vector.
        L2 = "l2",
        /// Every coordinate of a tensor, at most: from the second round on the bound is found from the means
        /// of earlier rounds and never wider than `clip` (FLASHE §5.2).
        Aciq = "aciq",
    }
}

choice! {
    /// How many masks hide a word in `flashe`.
    Masking {
        /// Whatever is expected to cost less at the job's dropouts.
        Cheaper = "cheaper",
        /// Two, which cancel between neighbours.
        Double = "double",
        /// One.
        Single = "single",
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
