//! Keys of the toys. Both ends derive them from the round, so that seals say who must open what, in which round, and hide
//! nothing: certificates of servers have no keys for this yet.

use blindsum_crypto::kdf;
use blindsum_crypto::kex::{KeyPair, Suite};
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::seal::{SealKey, seal_key};
use blindsum_crypto::secret::Secret;

use crate::{FaultKind, Round, Seat, ServerRole};

/// Bytes that a seal adds.
pub(super) use blindsum_crypto::seal::SEAL_OVERHEAD;

/// A number for each seat: ranks from below, servers from above.
fn number(seat: Seat) -> u32 {
    match seat {
        Seat::Party(party) => party.0,
        Seat::Server(ServerRole::Decryptor) => u32::MAX,
        Seat::Server(ServerRole::Second) => u32::MAX - 1,
        Seat::Server(ServerRole::Third) => u32::MAX - 2,
    }
}

fn pair(round: &Round, seat: Seat) -> Result<KeyPair, FaultKind> {
    let parts: [&[u8]; 2] = [&round.context().0, &number(seat).to_be_bytes()];
    let secret = Secret::from(kdf::hash("blindsum toy key", &parts));
    KeyPair::from_secret(Suite::X25519, secret).map_err(unusable)
}

fn unusable(error: impl ToString) -> FaultKind {
    FaultKind::Parameters(error.to_string())
}

fn key(round: &Round, from: Seat, to: Seat, mine: Seat, other: Seat) -> Result<SealKey, FaultKind> {
    let other = pair(round, other)?;
    let shared = pair(round, mine)?.agree(other.public()).map_err(unusable)?;
    Ok(seal_key(
        &shared,
        round.context(),
        number(from),
        number(to),
        "toy",
    ))
}

/// Seals what goes from one seat to another.
pub(super) fn seal(
    round: &Round,
    from: impl Into<Seat>,
    to: impl Into<Seat>,
    plaintext: &[u8],
) -> Result<Vec<u8>, FaultKind> {
    let (from, to) = (from.into(), to.into());
    Ok(key(round, from, to, from, to)?.seal(&round.context().0, plaintext))
}

/// Opens it.
pub(super) fn open(
    round: &Round,
    from: impl Into<Seat>,
    to: impl Into<Seat>,
    sealed: &[u8],
) -> Result<Vec<u8>, FaultKind> {
    let (from, to) = (from.into(), to.into());
    let opened = key(round, from, to, to, from)?.open(&round.context().0, sealed);
    let opened =
        opened.map_err(|_| FaultKind::malformed("seal", format!("not one of {from} for {to}")))?;
    Ok(opened.to_vec())
}

/// A mask out of a seed.
pub(super) fn mask(seed: [u8; 32], sign: Sign) -> MaskStream {
    MaskStream::new(MaskSeed::from(Secret::from(seed)), sign)
}
