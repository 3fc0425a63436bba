//! What a party sends each server.
//!
//! ```text
//! struct {
//!     opaque components[3][32];        // a hash of each: of a seed, or of the explicit component with its salt
//!     double norm;                     // only of the party with whose vector others are compared
//!     opaque signature<0..2^32-1>;     // of the party; empty if semi-honest
//!     opaque tag_key[32];              // nothing for the coordinator, nor if semi-honest unless parties alone learn the result
//!     opaque salt[32];                 // only for a server that holds the explicit component
//!     opaque seed[32];                 // of each component that the server holds and that comes out of a seed
//!     opaque explicit[packed_len];     // only for a server that holds the explicit component
//! } Upload;
//! ```
//!
//! Which component is explicit follows from the rank. The hashes are the same for all servers: servers that have equal
//! hashes hold equal components.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::check_packed;
use blindsum_sharing::replicated::{
    COMPONENTS, Dealer, SALT_LEN, SEED_LEN, components_of, explicit_component, explicit_hash,
    seed_hash,
};

use super::shapes::upload_shape;
use super::weighing::SHORTEST_ROOT;
use super::{COORDINATOR, TAG, has_keys, is_active};
use crate::core::round::ClientSetup;
use crate::kit::keys::check_signed;
use crate::kit::snapshot::Reader;
use crate::kit::wire::{HEADER, PREFIX};
use crate::{FaultKind, PartyId, Round, ServerIndex};

/// Label of what parties sign over the hashes of their components.
const SIGN_UPLOAD: &str = "blindsum upload";

/// The hashes of a party's components.
pub(super) type Hashes = [[u8; 32]; COMPONENTS];

/// What is the same in the uploads of a party for all servers.
#[derive(Default)]
pub(super) struct Header {
    pub hashes: Hashes,
    /// The norm of a vector whose direction alone is shared.
    pub norm: Option<f64>,
}

impl Header {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.hashes.as_flattened().to_vec();
        bytes.extend(self.norm.iter().flat_map(|norm| norm.to_be_bytes()));
        bytes
    }

    /// What a server compares with the others: a hash of it, of the round and of the party.
    pub fn hash(&self, round: &Round, party: PartyId) -> [u8; 32] {
        let rank = party.0.to_be_bytes();
        // guard: the-norm-of-the-root-is-agreed-on
        let bytes = self.to_bytes();
        // guard: mpc3-uploads-are-signed-for-their-round
        let parts: [&[u8]; 3] = [&round.context().0, &rank, &bytes];
        kdf::hash("blindsum upload header", &parts)
    }
}

/// What a party sends of one vector.
pub(super) struct Uploads {
    dealer: Dealer,
    /// The explicit component.
    packed: Vec<u8>,
    header: Header,
    signature: Vec<u8>,
}

impl Uploads {
    pub fn new(
        setup: &Arc<ClientSetup>,
        dealer: Dealer,
        packed: Vec<u8>,
        norm: Option<f64>,
    ) -> Self {
        let hash = |component| match dealer.seed(component) {
            Some(seed) => seed_hash(seed),
            None => explicit_hash(dealer.salt(), &packed),
        };
        let hashes = [hash(0), hash(1), hash(2)];
        let header = Header { hashes, norm };
        let signature = match is_active(setup.round.job()) {
            true => {
                let hash = header.hash(&setup.round, setup.me);
                setup.identity.sign(SIGN_UPLOAD, &hash)
            }
            false => Vec::new(),
        };
        Self {
            dealer,
            packed,
            header,
            signature,
        }
    }

    /// The upload for one server, with room for its frame.
    pub fn to(&self, server: ServerIndex, tag_key: Option<&Secret<TAG>>) -> Vec<u8> {
        let header = self.header.to_bytes();
        let small = HEADER + header.len() + 32 * 4 + PREFIX + self.signature.len();
        let mut body = Vec::with_capacity(small + self.packed.len());
        body.extend_from_slice(&header);
        body.extend_from_slice(&(self.signature.len() as u32).to_be_bytes());
        body.extend_from_slice(&self.signature);
        body.extend(tag_key.iter().flat_map(|key| key.expose()));
        let held = components_of(server.number().into());
        let has_explicit = held.contains(&self.dealer.explicit());
        if has_explicit {
            body.extend_from_slice(self.dealer.salt().expose());
        }
        for seed in held.iter().filter_map(|it| self.dealer.seed(*it)) {
            body.extend_from_slice(seed.expose());
        }
        if has_explicit {
            body.extend_from_slice(&self.packed);
        }
        body
    }
}

/// An upload as a server has checked it.
pub(super) struct Checked {
    /// What servers compare.
    pub header: [u8; 32],
    /// The norm of a vector whose direction alone is shared.
    pub norm: Option<f64>,
    /// By which this server vouches for the sum towards the party; none if it does not.
    pub tag_key: Option<Secret<TAG>>,
    /// The server's own component, then the next one.
    pub held: [Held; 2],
}

/// A component of one vector.
pub(super) enum Held {
    Seed(Secret<SEED_LEN>),
    Explicit(Vec<u8>),
    /// It was explicit and is a part of the sum by now.
    Added,
}

/// Reads what a party sent this server: the length is right, the signature holds, and the components are those that the
/// hashes say. `longest_root` is the largest norm of the vector that others are compared with, if it is that one.
pub(super) fn check(
    round: &Round,
    me: ServerIndex,
    party: PartyId,
    longest_root: Option<u64>,
    body: &[u8],
) -> Result<Checked, FaultKind> {
    let malformed = |rule: &str| FaultKind::malformed("upload", rule);
    let cut = |_| malformed("is cut short");
    let mut reader = Reader::new(body);
    let mut said = Header::default();
    for hash in &mut said.hashes {
        *hash = reader.array().map_err(cut)?;
    }
    if let Some(longest) = longest_root {
        let norm = f64::from_be_bytes(reader.array().map_err(cut)?);
        // No honest one is shorter, but for that of zeros.
        // guard: the-root-is-no-shorter-than-a-vector, the-root-is-no-longer-than-a-vector
        if !(norm >= 1.0 && norm <= longest as f64) && norm != SHORTEST_ROOT {
            let rule = format!(
                "norm = {norm}, but 1 <= norm <= {longest} must hold, or norm = 2^-40 for zeros"
            );
            return Err(malformed(&rule));
        }
        said.norm = Some(norm);
    }
    let header = said.hash(round, party);
    let length = reader.number().map_err(cut)? as usize;
    let signature = reader.bytes(length).map_err(cut)?;
    check_signature(round, party, &header, signature)?;
    let tag_key = match has_keys(round.job()) && me != COORDINATOR {
        true => Some(reader.secret().map_err(cut)?),
        false => None,
    };
    let (explicit, held) = (
        explicit_component(party.0),
        components_of(me.number().into()),
    );
    let salt: Option<Secret<SALT_LEN>> = match held.contains(&explicit) {
        true => Some(reader.secret().map_err(cut)?),
        false => None,
    };
    let mut seeds = Vec::new();
    for _ in held.iter().filter(|component| **component != explicit) {
        seeds.push(reader.secret().map_err(cut)?);
    }
    let packed = reader.rest();
    let (mut seeds, shape) = (seeds.into_iter(), upload_shape(round.job()));
    let mut component = |component: usize| {
        let (held, hash) = match (&salt, component == explicit) {
            (Some(salt), true) => {
                check_packed(shape.width, shape.lanes, packed)
                    .map_err(|e| malformed(&e.to_string()))?;
                (Held::Explicit(packed.to_vec()), explicit_hash(salt, packed))
            }
            _ => {
                let seed = seeds.next().ok_or_else(|| malformed("lacks a seed"))?;
                let hash = seed_hash(&seed);
                (Held::Seed(seed), hash)
            }
        };
        // guard: components-are-those-of-their-hashes
        match said.hashes.get(component) == Some(&hash) {
            true => Ok(held),
            false => Err(malformed("a component is not the one of its hash")),
        }
    };
    let [own, next] = held;
    let held = [component(own)?, component(next)?];
    if salt.is_none() && !packed.is_empty() {
        return Err(malformed("has trailing bytes"));
    }
    Ok(Checked {
        header,
        norm: said.norm,
        tag_key,
        held,
    })
}

fn check_signature(
    round: &Round,
    party: PartyId,
    header: &[u8; 32],
    signature: &[u8],
) -> Result<(), FaultKind> {
    if !is_active(round.job()) {
        let rule = "must be empty if semi-honest";
        return match signature.is_empty() {
            true => Ok(()),
            false => Err(FaultKind::malformed("signature", rule)),
        };
    }
    // guard: uploads-are-signed
    check_signed(round, party, SIGN_UPLOAD, header, signature)
}
