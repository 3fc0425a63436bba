//! A party: it splits its vector, gives each server its part, and checks the sum that comes back.

use std::sync::Arc;

use blindsum_crypto::mask::apply_masks;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::replicated::Dealer;
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::open::{result_hash, tag};
use super::upload::Uploads;
use super::{COORDINATOR, OTHERS, TAG, is_active};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::result::{read_result, split_survivors};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::vector::pack_input;
use crate::{Fault, FaultKind};

/// Splits the vector.
pub(super) fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let dealer = Dealer::new(setup.me.0, rng);
    let masks = dealer.masks();
    let packed = pack_input(setup.round.job(), input, |lane, tile| {
        apply_masks(&masks, lane, tile)
    });
    let uploads = Uploads::new(setup, dealer, packed.map_err(Fault::caller)?);
    let tag_keys = is_active(setup.round.job())
        .then(|| [Secret::<TAG>::generate(rng), Secret::<TAG>::generate(rng)]);
    let key_of = |place: usize| tag_keys.as_ref().and_then(|keys| keys.get(place));
    let parts = OTHERS.iter().enumerate().filter_map(|(place, role)| {
        let server = role.place()?;
        Some((*role, uploads.to(server, key_of(place))))
    });
    let parts = parts.collect();
    Ok(ClientStep::Upload {
        parts,
        body: uploads.to(COORDINATOR, None),
        next: Box::new(AwaitSum {
            setup: setup.clone(),
            tag_keys,
        }),
    })
}

/// A party from its snapshot after its upload.
pub(super) fn restore(
    setup: &Arc<ClientSetup>,
    stage: u8,
    state: &[u8],
) -> Result<Box<dyn ClientStage>, FaultKind> {
    if stage != 0 {
        let rule = "mpc3 waits for nothing after the sum";
        return Err(FaultKind::Snapshot(rule.into()));
    }
    let mut reader = Reader::new(state);
    let tag_keys = match is_active(setup.round.job()) {
        true => Some([reader.secret()?, reader.secret()?]),
        false => None,
    };
    reader.end()?;
    Ok(Box::new(AwaitSum {
        setup: setup.clone(),
        tag_keys,
    }))
}

/// All servers have their parts; the sum comes next.
struct AwaitSum {
    setup: Arc<ClientSetup>,
    /// By which the other two servers vouch for the sum; none if semi-honest.
    tag_keys: Option<[Secret<TAG>; 2]>,
}

impl AwaitSum {
    /// Both other servers vouch for this sum of these survivors: the coordinator may have changed it.
    fn check_tags(&self, result: &[u8], place: usize, tags: &[u8]) -> Result<(), FaultKind> {
        let Some(keys) = &self.tag_keys else {
            return Ok(());
        };
        let round = &self.setup.round;
        let result = result_hash(round, result);
        let (tags, _) = tags.as_chunks::<TAG>();
        let of_servers = tags.chunks(tags.len() / OTHERS.len());
        for ((key, role), of_server) in keys.iter().zip(OTHERS).zip(of_servers) {
            let expected = tag(round, key, &result);
            let got = of_server.get(place);
            if !got.is_some_and(|got| got.ct_eq(&expected).into()) {
                let rule = format!(
                    "none by which the {role} vouches for this sum: it lies, or the coordinator does"
                );
                return Err(FaultKind::malformed("tag", rule));
            }
        }
        Ok(())
    }
}

impl ClientStage for AwaitSum {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let round = &self.setup.round;
        let (survivors, rest) = split_survivors(round, body).map_err(Fault::server)?;
        let sum_ends = body.len() - rest.len() + round.job().packed_len();
        let (result, tags) = body
            .split_at_checked(sum_ends)
            .ok_or_else(|| Fault::server(FaultKind::malformed("sum", "is cut short")))?;
        let me = self.setup.me;
        let place = survivors.iter().position(|party| party == me);
        let expected = match &self.tag_keys {
            Some(_) => OTHERS.len() * TAG * survivors.len(),
            None => 0,
        };
        if tags.len() != expected {
            let rule = format!("{expected} bytes, not {}", tags.len());
            return Err(Fault::server(FaultKind::malformed("tags", rule)));
        }
        let sum = read_result(round, result).map_err(Fault::server)?;
        // A sum without this party is refused by whoever drives this stage.
        if let Some(place) = place {
            self.check_tags(result, place, tags)
                .map_err(Fault::server)?;
        }
        Ok(ClientStep::Done(sum))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let keys = self.tag_keys.iter().flatten();
        let writer = keys.fold(Writer::default(), |writer, key| writer.bytes(key.expose()));
        Ok(Some(writer.finish()))
    }
}
