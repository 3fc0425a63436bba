//! A result that parties alone learn: they get all three components of it, of which no server has more than two.
//!
//! The coordinator has components 0 and 1 and passes them on. Component 2 goes through its hands too, but masked, under a
//! key that only the two others have: the second server gives each party this key under the key that the party gave it
//! with its upload. Each component is bound by a salted hash, on which its two holders and the third server agree before
//! anybody is told anything; the hashes are in what servers vouch for. Without the salt, a server could test guesses of the
//! result by the hash of the component that it lacks.
//!
//! ```text
//! struct {
//!     opaque survivors[⌈n / 8⌉];
//!     opaque salts[2][32];             // of components 0 and 1
//!     opaque components[2][packed];
//! } Parts;                             // of the coordinator
//! struct {
//!     opaque masked[packed];           // component 2, and the mask of its key
//!     opaque keys[survivors][32];      // that key, for each survivor in order
//! } Third;                             // of the second server
//! ```

use blindsum_crypto::kdf;
use blindsum_crypto::kex::SharedSecret;
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_mpc::line::{Line, Say};

use super::TAG;
use super::blame::{blame, broken};
use super::shapes::Shape;
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerIndex};

/// Bytes of a hash, a key or a salt.
const LEN: usize = 32;

/// The key of a component, which its two holders have.
pub(super) struct PartKey(Secret<LEN>);

impl PartKey {
    /// The keys of the own component and of the next one, from what this server shares with the one before and with the
    /// next one.
    pub fn both(
        me: ServerIndex,
        round: &Round,
        begun: &[u8; 32],
        secrets: &[SharedSecret; 2],
    ) -> [Self; 2] {
        let [previous, next] = secrets;
        let key = |secret: &SharedSecret, component: ServerIndex| {
            let number = [component.number()];
            // guard: keys-of-components-are-those-of-what-was-agreed
            Self(secret.derive(round.context(), "mpc3/part", &[begun, &number]))
        };
        [key(previous, me), key(next, me.next())]
    }

    fn salt(&self, round: &Round) -> [u8; LEN] {
        *kdf::derive32(&self.0, round.context(), "mpc3/salt", &[]).expose()
    }

    /// Adds the mask of this key to the words, or takes it off.
    fn mask(&self, words: &mut Words, sign: Sign) {
        let seed = MaskSeed::from(Secret::from(self.0.expose()));
        let lanes = words.len();
        apply_masks(&[MaskStream::new(seed, sign)], 0, words.tile_mut(0..lanes));
    }

    /// The key as it goes to a party, and back.
    fn wrapped(&self, round: &Round, key: &Secret<TAG>) -> [u8; LEN] {
        let pad = kdf::derive32(key, round.context(), "mpc3/wrap", &[]);
        let mut wrapped = *self.0.expose();
        for (byte, pad) in wrapped.iter_mut().zip(pad.expose()) {
            *byte ^= pad;
        }
        wrapped
    }
}

fn part_hash(round: &Round, salt: &[u8; LEN], packed: &[u8]) -> [u8; LEN] {
    // guard: parts-are-bound-by-salted-hashes
    let parts: [&[u8]; 3] = [&round.context().0, salt, packed];
    kdf::hash("blindsum mpc3 part", &parts)
}

/// The hash of the survivors and of the components of their result.
fn hash_of(round: &Round, survivors: &PartySet, hashes: &[[u8; LEN]; 3]) -> [u8; LEN] {
    let parts: [&[u8]; 3] = [
        &round.context().0,
        // guard: servers-vouch-for-the-survivors-of-parts
        survivors.as_bitmap(),
        hashes.as_flattened(),
    ];
    kdf::hash("blindsum mpc3 parts", &parts)
}

/// What a server gives away of a result.
pub(super) struct Given {
    /// What the servers vouch for.
    pub hash: [u8; LEN],
    /// What the coordinator tells all survivors; nothing of the others.
    pub told: Vec<u8>,
    /// What the second server adds to its word; nothing of the others.
    pub third: Vec<u8>,
}

/// Agrees with the others on the components of a result, of which this server has its own and the next one. `keys` are
/// those of the survivors, in order.
pub(super) async fn give(
    me: ServerIndex,
    round: &Round,
    survivors: &PartySet,
    [own, mut next]: [Words; 2],
    [own_key, next_key]: &[PartKey; 2],
    keys: &[(PartyId, Secret<TAG>)],
    line: &Line,
) -> Result<Given, Fault> {
    let (packed, of_next) = (own.pack(), next.pack());
    let salts = [own_key.salt(round), next_key.salt(round)];
    let hashes = [
        part_hash(round, &salts[0], &packed),
        part_hash(round, &salts[1], &of_next),
    ];
    let say = Say {
        to_next: hashes[0].to_vec(),
        to_previous: hashes[1].to_vec(),
        from_next: LEN,
        from_previous: LEN,
    };
    let heard = line.exchange(say).await.map_err(broken)?;
    // guard: holders-of-a-part-say-one-hash
    if heard.from_next != heard.from_previous {
        let rule = "its hash of the component that this server lacks does not match that of the other holder: \
            one of the two is malicious";
        return Err(blame(me.previous(), "result", rule));
    }
    let third = heard.from_next.try_into().unwrap_or_default();
    // Components me, me + 1 and me + 2, from component 0 on.
    let mut all = [hashes[0], hashes[1], third];
    all.rotate_right(usize::from(me.number()));
    let mut given = Given {
        hash: hash_of(round, survivors, &all),
        told: Vec::new(),
        third: Vec::new(),
    };
    match me.number() {
        0 => {
            let parts: [&[u8]; 4] = [
                survivors.as_bitmap(),
                salts.as_flattened(),
                &packed,
                &of_next,
            ];
            given.told = parts.concat();
        }
        1 => {
            // guard: component-2-is-masked-for-the-coordinator
            next_key.mask(&mut next, Sign::Add);
            given.third = next.pack();
            let wrapped = keys.iter().map(|(_, key)| next_key.wrapped(round, key));
            given.third.extend(wrapped.flatten());
        }
        _ => {}
    }
    Ok(given)
}

/// Bytes of [`Given::told`] behind the survivors.
pub(super) fn told_len(shape: Shape) -> usize {
    2 * LEN + 2 * shape.packed_len()
}

/// Bytes of [`Given::third`], for so many survivors.
pub(super) fn third_len(shape: Shape, survivors: usize) -> usize {
    shape.packed_len() + LEN * survivors
}

/// What a party makes of its parts: the hash of what servers vouch for, and the result.
///
/// # Errors
/// Parts that are cut short, or words with bits that must not be set.
pub(super) fn put_together(
    round: &Round,
    survivors: &PartySet,
    shape: Shape,
    (told, third): (&[u8], &[u8]),
    (place, key): (usize, &Secret<TAG>),
) -> Result<([u8; LEN], Words), FaultKind> {
    let cut = || FaultKind::malformed("parts", "are cut short");
    let wrong = |e: blindsum_math::MathError| FaultKind::malformed("parts", e.to_string());
    let (salts, components) = told.split_at_checked(2 * LEN).ok_or_else(cut)?;
    let (salts, _) = salts.as_chunks::<LEN>();
    let (masked, keys) = third.split_at_checked(shape.packed_len()).ok_or_else(cut)?;
    let (keys, _) = keys.as_chunks::<LEN>();
    let wrapped = PartKey(Secret::from(keys.get(place).ok_or_else(cut)?));
    let last = PartKey(Secret::from(wrapped.wrapped(round, key)));
    let mut sum = Words::unpack(shape.width, shape.lanes, masked).map_err(wrong)?;
    last.mask(&mut sum, Sign::Sub);
    let mut hashes = [[0; LEN]; 3];
    let open = components.chunks(shape.packed_len().max(1)).zip(salts);
    for (hash, (packed, salt)) in hashes.iter_mut().zip(open) {
        *hash = part_hash(round, salt, packed);
    }
    hashes[2] = part_hash(round, &last.salt(round), &sum.pack());
    for packed in components.chunks(shape.packed_len().max(1)) {
        sum.add_packed(packed).map_err(wrong)?;
    }
    Ok((hash_of(round, survivors, &hashes), sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobSpec;
    use crate::testing::Cohort;

    /// Abuse case 38: a server cannot test guesses of a result by the hash of the component that it lacks.
    #[test]
    fn case_38_the_hash_of_a_part_is_salted() {
        let round = Cohort::new(JobSpec::default(), 1).round;
        let keys = [1, 2].map(|byte| PartKey(Secret::from([byte; LEN])));
        let hashes = keys.map(|key| part_hash(&round, &key.salt(&round), &[7; 40]));
        assert_ne!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], part_hash(&round, &[0; LEN], &[7; 40]));
    }

    /// The key of component 2 is masked for each party, and comes back as it was.
    #[test]
    fn keys_are_wrapped_for_each_party() {
        let round = Cohort::new(JobSpec::default(), 1).round;
        let key = PartKey(Secret::from([1; LEN]));
        let [one, two] = [3, 4].map(|byte| Secret::<TAG>::from([byte; TAG]));
        let wrapped = PartKey(Secret::from(key.wrapped(&round, &one)));
        assert_ne!(wrapped.0.expose(), key.0.expose());
        assert_eq!(wrapped.wrapped(&round, &one), *key.0.expose());
        assert_ne!(wrapped.wrapped(&round, &two), *key.0.expose());
    }
}
