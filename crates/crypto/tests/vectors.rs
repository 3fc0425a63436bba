//! Agreement with the slow models in `vectors/model`, through the public interface only.

#[path = "../../../vectors/support.rs"]
mod support;

use blindsum_crypto::kdf::{self, Context, derive32};
use blindsum_crypto::kex::{KeyPair, PublicKey, Suite};
use blindsum_crypto::mask::{Backend, MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::seal::{StorageKey, seal_key};
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::{Algorithm, IdentityKey, VerifyingKey};
use blindsum_math::words::TileMut;
use serde::Deserialize;
use support::{Hex, Tape, load};

const CRYPTO: &str = include_str!("../../../vectors/crypto.json");
const MASKS: &str = include_str!("../../../vectors/masks.json");
const ROUND: &str = include_str!("../../../vectors/round.json");

fn secret(hex: &Hex) -> Secret<32> {
    Secret::from(hex.array())
}

fn context(hex: &Hex) -> Context {
    Context(hex.array())
}

fn slices(parts: &[Hex]) -> Vec<&[u8]> {
    parts.iter().map(|part| part.0.as_slice()).collect()
}

fn suite(name: &str) -> Suite {
    match name {
        "x25519" => Suite::X25519,
        "p256" => Suite::P256,
        other => panic!("no suite {other}"),
    }
}

#[derive(Deserialize)]
struct Hashed {
    label: String,
    parts: Vec<Hex>,
    hash: Hex,
}

#[derive(Deserialize)]
struct Derived {
    secret: Hex,
    context: Hex,
    label: String,
    parts: Vec<Hex>,
    key: Hex,
}

#[test]
fn hashes_and_derivations() {
    for vector in load::<Hashed>(CRYPTO, "hashes") {
        let hash = kdf::hash(&vector.label, &slices(&vector.parts));
        assert_eq!(hash, vector.hash.array(), "{}", vector.label);
    }
    for vector in load::<Derived>(CRYPTO, "derivations") {
        let parts = slices(&vector.parts);
        let (secret, context) = (secret(&vector.secret), context(&vector.context));
        let key = derive32(&secret, &context, &vector.label, &parts);
        assert_eq!(*key.expose(), vector.key.array(), "{}", vector.label);
    }
}

#[derive(Deserialize)]
struct Agreed {
    suite: String,
    secrets: [Hex; 2],
    public_keys: [Hex; 2],
    shared: Hex,
}

#[derive(Deserialize)]
struct RefusedKey {
    suite: String,
    key: Hex,
}

#[test]
fn key_agreement() {
    let context = Context([5; 32]);
    for vector in load::<Agreed>(CRYPTO, "agreements") {
        let suite = suite(&vector.suite);
        let [one, other] = [0, 1].map(|i| {
            let pair = KeyPair::from_secret(suite, secret(&vector.secrets[i])).unwrap();
            assert_eq!(pair.public().as_bytes(), vector.public_keys[i].0);
            pair
        });
        let expected = derive32(&secret(&vector.shared), &context, "any", &[b"part"]);
        for (own, other) in [(&one, &other), (&other, &one)] {
            let shared = own.agree(other.public()).unwrap();
            assert!(shared.derive(&context, "any", &[b"part"]) == expected);
        }
    }
    for RefusedKey { suite: name, key } in load(CRYPTO, "refused_keys") {
        assert!(PublicKey::parse(suite(&name), &key.0).is_err(), "{key:?}");
    }
}

#[derive(Deserialize)]
struct Sealed {
    suite: String,
    secrets: [Hex; 2],
    context: Hex,
    from: u32,
    to: u32,
    purpose: String,
    header: Hex,
    plaintext: Hex,
    sealed: Hex,
}

#[test]
fn messages_between_parties() {
    for vector in load::<Sealed>(CRYPTO, "sealed") {
        let suite = suite(&vector.suite);
        let [own, other] = [0, 1].map(|i| KeyPair::from_secret(suite, secret(&vector.secrets[i])));
        let (own, other) = (own.unwrap(), other.unwrap());
        let key = |own: &KeyPair, other: &KeyPair| {
            let shared = own.agree(other.public()).unwrap();
            let context = context(&vector.context);
            seal_key(&shared, &context, vector.from, vector.to, &vector.purpose)
        };
        let sealed = key(&own, &other).seal(&vector.header.0, &vector.plaintext.0);
        assert_eq!(sealed, vector.sealed.0);
        let opened = key(&other, &own).open(&vector.header.0, &sealed).unwrap();
        assert_eq!(*opened, vector.plaintext.0);
    }
}

#[derive(Deserialize)]
struct Stored {
    key: Hex,
    salt: Hex,
    header: Hex,
    plaintext: Hex,
    sealed: Hex,
}

#[test]
fn snapshots() {
    for vector in load::<Stored>(CRYPTO, "stored") {
        let key = StorageKey::from(secret(&vector.key));
        let mut tape = Tape::new(&vector.salt.0);
        let sealed = key.seal(&vector.header.0, &vector.plaintext.0, &mut tape);
        assert_eq!(sealed, vector.sealed.0);
        tape.end();
        let opened = key.open(&vector.header.0, &sealed).unwrap();
        assert_eq!(*opened, vector.plaintext.0);
    }
}

#[derive(Deserialize)]
struct Signed {
    algorithm: String,
    private_key: String,
    public_key: Hex,
    label: String,
    message: Hex,
    signature: Hex,
    refused: Vec<Hex>,
}

#[test]
fn signatures() {
    for vector in load::<Signed>(CRYPTO, "signatures") {
        let algorithm = match vector.algorithm.as_str() {
            "ed25519" => Algorithm::Ed25519,
            "p256" => Algorithm::P256,
            other => panic!("no algorithm {other}"),
        };
        let key = IdentityKey::from_pem(&vector.private_key).unwrap();
        assert_eq!(key.verifying_key().as_bytes(), vector.public_key.0);
        assert_eq!(
            key.sign(&vector.label, &vector.message.0),
            vector.signature.0
        );
        let public = VerifyingKey::parse(algorithm, &vector.public_key.0).unwrap();
        let verify =
            |signature: &Hex| public.verify(&vector.label, &vector.message.0, &signature.0);
        assert_eq!(verify(&vector.signature), Ok(()));
        for refused in &vector.refused {
            assert!(verify(refused).is_err(), "{refused:?}");
        }
    }
}

#[derive(Deserialize)]
struct Stream {
    seed: Hex,
    lane_bits: u32,
    first: u64,
    lanes: Vec<u64>,
}

#[derive(Deserialize)]
struct Masked {
    lane_bits: u32,
    first: u64,
    masks: Vec<Mask>,
    before: Vec<u64>,
    after: Vec<u64>,
}

#[derive(Deserialize)]
struct Mask {
    seed: Hex,
    sign: String,
}

/// Lanes after the masks, by one backend; `None` if this machine cannot run it.
fn apply(
    backend: Backend,
    masks: &[(&Hex, Sign)],
    lane_bits: u32,
    first: u64,
    lanes: &[u64],
) -> Option<Vec<u64>> {
    let stream = |(seed, sign): &(&Hex, Sign)| {
        MaskStream::with_backend(MaskSeed::from(secret(seed)), *sign, backend)
    };
    let streams: Vec<MaskStream> = masks.iter().map(stream).collect::<Option<_>>()?;
    if lane_bits == 64 {
        let mut lanes = lanes.to_vec();
        apply_masks(&streams, first, TileMut::W64(&mut lanes));
        return Some(lanes);
    }
    let narrow = lanes.iter().map(|&lane| u32::try_from(lane).unwrap());
    let mut narrow: Vec<u32> = narrow.collect();
    apply_masks(&streams, first, TileMut::W32(&mut narrow));
    Some(narrow.into_iter().map(u64::from).collect())
}

#[test]
fn mask_streams() {
    let streams: Vec<Stream> = load(MASKS, "streams");
    let masked: Vec<Masked> = load(MASKS, "masked");
    for backend in Backend::ALL {
        for v in &streams {
            let zeros = vec![0; v.lanes.len()];
            let lanes = apply(
                backend,
                &[(&v.seed, Sign::Add)],
                v.lane_bits,
                v.first,
                &zeros,
            );
            assert!(
                lanes.is_none_or(|lanes| lanes == v.lanes),
                "{backend:?} {}",
                v.first
            );
        }
        for v in &masked {
            let sign = |mask: &Mask| match mask.sign.as_str() {
                "add" => Sign::Add,
                "sub" => Sign::Sub,
                other => panic!("no sign {other}"),
            };
            let masks: Vec<_> = v
                .masks
                .iter()
                .map(|mask| (&mask.seed, sign(mask)))
                .collect();
            let lanes = apply(backend, &masks, v.lane_bits, v.first, &v.before);
            assert!(
                lanes.is_none_or(|lanes| lanes == v.after),
                "{backend:?} {}",
                v.first
            );
        }
    }
}

#[derive(Deserialize)]
struct Listed {
    members: Vec<ListedMember>,
    bytes: Hex,
    hash: Hex,
}

#[derive(Deserialize)]
struct ListedMember {
    name: String,
    certificate: Hex,
    nonce: Hex,
}

#[test]
fn rosters() {
    for vector in load::<Listed>(ROUND, "rosters") {
        let member = |member: ListedMember| Member {
            name: member.name,
            nonce: member.nonce.array(),
            certificate: member.certificate.0,
        };
        let roster = Roster(vector.members.into_iter().map(member).collect());
        assert_eq!(roster.to_bytes().unwrap(), vector.bytes.0);
        assert_eq!(roster.hash().unwrap(), vector.hash.array());
        let most = roster.0.len() as u32;
        assert_eq!(Roster::from_bytes(&vector.bytes.0, most).unwrap(), roster);
    }
}
