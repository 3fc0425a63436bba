//! What a job may say about sums under Paillier's scheme.

use blindsum_crypto::kdf;
use blindsum_he::paillier::{Exponents, KeySize};

use crate::core::options::{choice, fits, table, within};
use crate::core::protocol::Ring;
use crate::{Job, JobSpec, ProtocolChoice};

table! {
    /// Paillier, the sum goes from party to party: the key service learns the sum (MYSTIKO).
    PaillierRing = "paillier-ring";
    /// Paillier, each party sends its ciphertexts to all others, and all sums must agree (MYSTIKO).
    PaillierBroadcast = "paillier-broadcast";
    /// Paillier, each part of the vector goes from party to party, all parts in parallel (MYSTIKO).
    PaillierAllReduce = "paillier-allreduce";
    options {
        /// Bits of the key N.
        key_bits: KeyBits = KeyBits::Bits2048;
        /// Length of the random exponents of encryption.
        exponents: ExponentName = ExponentName::Full;
        /// Rounds that a key serves before another one is made; 0 means the whole job.
        key_rounds: u32 = 0;
        /// Minutes that a key serves before another one is made; 0 means the whole job.
        key_minutes: f64 = 0.0, within(0.0, MAX_MINUTES);
        /// Order of the parties in the ring.
        order: RingOrder = RingOrder::Name;
        /// The host of the server that makes keys and opens sums, as in its certificate; empty if this is in the
        /// coordinator's process.
        decryptor: String = String::new(), fits("^$|^[a-z0-9.:-]{1,255}$", is_host, "a host, as in a certificate, or empty");
    }
}

/// Ten years.
const MAX_MINUTES: f64 = 5_256_000.0;

choice! {
    /// Bits of the key.
    KeyBits {
        /// A level of security of 112 bits.
        Bits2048 = "2048",
        /// A level of security of 128 bits.
        Bits3072 = "3072",
    }
}

choice! {
    /// How long the random exponents are.
    ExponentName {
        /// Half as long as the key: as hard to break as factoring.
        Full = "full",
        /// Four times the level of security, which is faster and rests on one assumption more.
        Short = "short",
    }
}

choice! {
    /// Order of the parties in the ring.
    RingOrder {
        /// By their names.
        Name = "name",
        /// By their claimed locations, then by their names.
        Location = "location",
        /// By a hash of the job and their names: a party that joins or leaves does not change the order of the others.
        Hash = "hash",
    }
}

fn is_host(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".:-".contains(&byte);
    text.len() <= 255 && text.bytes().all(allowed)
}

impl JobSpec {
    /// The host of the server that makes keys and opens sums, as in its certificate. None where no server is there for
    /// that alone, or where it is in the coordinator's process.
    pub fn decryptor(&self) -> Option<String> {
        let host = Options::of(self)?.decryptor;
        (!host.is_empty()).then_some(host)
    }
}

/// Where parties stand, and who makes their keys.
pub(super) static RING_RULES: Ring = Ring {
    place,
    is_said: |spec| Options::of(spec).is_some_and(|it| it.order == RingOrder::Location),
};

/// The place of a party in the ring.
fn place(job: &Job, name: &str, location: &str) -> Vec<u8> {
    match Options::of(job.spec()).map(|options| options.order) {
        None | Some(RingOrder::Name) => Vec::new(),
        Some(RingOrder::Location) => location.into(),
        Some(RingOrder::Hash) => {
            kdf::hash("blindsum ring place", &[job.hash(), name.as_bytes()]).into()
        }
    }
}

/// The options of a job, whichever way its sums take.
pub(super) struct Options {
    pub size: KeySize,
    pub exponents: Exponents,
    pub key_rounds: u64,
    pub key_seconds: f64,
    pub order: RingOrder,
    pub decryptor: String,
}

impl Options {
    /// Those of the job; none where it is of another protocol.
    pub fn of(spec: &JobSpec) -> Option<Self> {
        macro_rules! read {
            ($options:expr) => {
                Some(Self {
                    size: match $options.key_bits {
                        KeyBits::Bits2048 => KeySize::Bits2048,
                        KeyBits::Bits3072 => KeySize::Bits3072,
                    },
                    exponents: match $options.exponents {
                        ExponentName::Full => Exponents::Full,
                        ExponentName::Short => Exponents::Short,
                    },
                    key_rounds: $options.key_rounds.into(),
                    key_seconds: 60.0 * $options.key_minutes,
                    order: $options.order,
                    decryptor: $options.decryptor.clone(),
                })
            };
        }
        match &spec.protocol {
            ProtocolChoice::PaillierRing(options) => read!(options),
            ProtocolChoice::PaillierBroadcast(options) => read!(options),
            ProtocolChoice::PaillierAllReduce(options) => read!(options),
            _ => None,
        }
    }
}
