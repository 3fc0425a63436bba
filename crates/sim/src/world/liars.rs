//! What a lying party sends instead of what its machine says.

use blindsum_job::pb::party_frame::Frame as Up;
use blindsum_job::pb::{self, PartyFrame};
use blindsum_protocol::Adversary;
use bytes::Bytes;

use super::Episode;

impl Episode {
    /// The frame of a party; another one, or none at all, where it lies.
    pub(super) fn perhaps_lie(&mut self, number: usize, frame: PartyFrame) -> Option<PartyFrame> {
        if self.liar != Some(number) || !self.dice.chance(self.faults.lie) {
            return Some(frame);
        }
        self.tally.lies += 1;
        let greets = matches!(frame.frame, Some(Up::Hello(_)));
        if !greets && self.dice.chance(0.1) {
            return None;
        }
        let wild = self.dice.wild();
        let said = frame.frame?;
        if !greets && self.dice.chance(0.05) {
            return Some(PartyFrame {
                frame: never_said(wild),
            });
        }
        let lie = match said {
            Up::Hello(hello) => Up::Hello(pb::Hello {
                round: wild,
                answered: wild as u32 % 9,
                last_round: wild,
                ..hello
            }),
            Up::Ready(ready) => Up::Ready(match wild % 3 {
                0 => pb::Ready {
                    round: wild,
                    ..ready
                },
                1 => pb::Ready {
                    nonce: self.dice.spoilt(ready.nonce.into()).into(),
                    commitment: self.dice.spoilt(ready.commitment.into()).into(),
                    ..ready
                },
                _ => pb::Ready {
                    key_id: vec![wild as u8; 16],
                    ..ready
                },
            }),
            // It keeps its nonce back, for the graph does not suit it.
            Up::NonceOpening(_) if wild % 3 == 2 => return None,
            Up::NonceOpening(opening) => Up::NonceOpening(match wild % 3 {
                0 => pb::NonceOpening {
                    round: wild,
                    ..opening
                },
                _ => pb::NonceOpening {
                    nonce: self.dice.spoilt(opening.nonce.into()).into(),
                    ..opening
                },
            }),
            Up::Chunk(chunk) if wild % 7 == 6 => Up::RoundRefused(pb::RoundRefused {
                round: chunk.round,
                code: pb::RoundRefusalCode::RoundRefusalFault.into(),
                reason: "it lied".into(),
                accused: self.somebody(),
                evidence: wild.to_be_bytes().to_vec(),
                ..pb::RoundRefused::default()
            }),
            Up::Chunk(chunk) => Up::Chunk(match wild % 7 {
                0 => pb::Chunk {
                    stage: wild as u32 % 5,
                    ..chunk
                },
                1 => pb::Chunk {
                    round: wild,
                    ..chunk
                },
                2 => pb::Chunk {
                    total: wild,
                    ..chunk
                },
                _ => pb::Chunk {
                    data: self.dice.spoilt(chunk.data),
                    ..chunk
                },
            }),
            Up::RoundConfirmed(confirmed) => Up::RoundConfirmed(match wild % 3 {
                0 => pb::RoundConfirmed {
                    round: wild,
                    ..confirmed
                },
                1 => pb::RoundConfirmed {
                    model: confirmed.model.map(|model| pb::ModelName {
                        version: wild,
                        ..model
                    }),
                    ..confirmed
                },
                _ => pb::RoundConfirmed {
                    result: self.dice.spoilt(confirmed.result.into()).into(),
                    ..confirmed
                },
            }),
            Up::ModelChunk(chunk) => Up::ModelChunk(pb::ModelChunk {
                data: self.dice.spoilt(chunk.data),
                ..chunk
            }),
            Up::Leaving(_) => Up::Leaving(pb::Leaving {
                code: (wild % 7) as i32,
                reason: "it lied".into(),
            }),
            Up::ModelRequest(_) => Up::ModelRequest(pb::ModelRequest { version: wild }),
            Up::ModelRefused(_) => Up::ModelRefused(pb::ModelRefused { version: wild }),
            Up::RoundRefused(refused) => Up::RoundRefused(match wild % 2 {
                0 => pb::RoundRefused {
                    round: wild,
                    ..refused
                },
                _ => pb::RoundRefused {
                    accused: self.somebody(),
                    ..refused
                },
            }),
        };
        Some(PartyFrame { frame: Some(lie) })
    }

    /// What a party gives a server directly, with its round; something else, or nothing, where it lies. Where parties alone
    /// learn the result and nobody vouches for it, a lie about its own key would give it, and nobody else, another result:
    /// there it cuts its upload short.
    pub(super) fn perhaps_upload_other(
        &mut self,
        number: usize,
        (round, message): (u64, Bytes),
    ) -> Option<(u64, Bytes)> {
        if self.liar != Some(number) || !self.dice.chance(self.faults.lie) {
            return Some((round, message));
        }
        self.tally.lies += 1;
        let of_key = self.setting.job.hides_sum()
            && self.setting.job.spec().adversary == Adversary::SemiHonest;
        match self.dice.below(10) {
            0 => None,
            1 => Some((self.dice.wild(), message)),
            _ if of_key => Some((round, message.slice(..message.len() / 2))),
            _ => Some((round, self.dice.spoilt(message))),
        }
    }

    /// The name of a party, to be accused.
    fn somebody(&mut self) -> String {
        let number = self.dice.below(self.members.len() as u64) as usize;
        let member = self.members.get(number);
        member.map_or(String::new(), |member| member.identity.name.clone())
    }
}

/// A frame that no party may say then: the coordinator ends the connection of whoever does.
fn never_said(wild: u64) -> Option<Up> {
    match wild % 4 {
        0 => Some(Up::Hello(pb::Hello::default())),
        1 => Some(Up::ModelRefused(pb::ModelRefused { version: wild })),
        2 => Some(Up::Ready(pb::Ready {
            round: wild,
            nonce: vec![7; 32],
            commitment: vec![7; 32],
            ..pb::Ready::default()
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use blindsum_protocol::{JobSpec, ProtocolName};

    use super::super::World;
    use super::super::faults::Kind;
    use super::*;

    /// All that is said in the place of a frame, by somebody who always lies.
    fn lies_for(frame: &PartyFrame) -> Vec<Option<PartyFrame>> {
        let spec = JobSpec {
            protocol: ProtocolName::SecAggPlus.into(),
            parties: 4,
            dim: 2,
            ..JobSpec::default()
        };
        let job = Arc::new(spec.validate().unwrap());
        let faults = super::super::Faults {
            lie: 1.0,
            ..super::super::Faults::default()
        };
        let mut episode = World::with(job, 7, Kind::Liar, faults).unwrap().episode;
        let liar = episode.liar.unwrap();
        let lies = (0..300).map(|_| episode.perhaps_lie(liar, frame.clone()));
        lies.collect()
    }

    fn frames(lies: &[Option<PartyFrame>]) -> impl Iterator<Item = &Up> {
        let said = lies.iter().flatten();
        said.filter_map(|frame| frame.frame.as_ref())
    }

    #[test]
    fn openings_are_wrong_or_kept_back() {
        let opening = pb::NonceOpening {
            round: 5,
            nonce: vec![1; 32],
        };
        let lies = lies_for(&opening.clone().into());
        // More often than any frame is.
        assert!(lies.iter().filter(|lie| lie.is_none()).count() > 60);
        let openings: Vec<_> = frames(&lies)
            .filter_map(|frame| match frame {
                Up::NonceOpening(lie) => Some(lie),
                _ => None,
            })
            .collect();
        let of_round = |lie: &&&pb::NonceOpening| lie.round == 5 && lie.nonce != opening.nonce;
        assert!(openings.iter().filter(of_round).count() > 30);
        assert!(openings.iter().any(|lie| lie.round != 5));
    }

    #[test]
    fn confirmations_are_of_other_rounds_models_and_results() {
        let confirmed = pb::RoundConfirmed {
            round: 5,
            model: Some(pb::ModelName::default()),
            result: vec![1; 32],
        };
        let lies = lies_for(&confirmed.clone().into());
        let confirmations = frames(&lies).filter_map(|frame| match frame {
            Up::RoundConfirmed(lie) => Some((
                lie.round == 5,
                lie.model == confirmed.model,
                lie.result == confirmed.result,
            )),
            _ => None,
        });
        let mut kinds: Vec<_> = confirmations.collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kinds = |kind| kinds.contains(&kind);
        assert!(
            kinds((false, true, true)) && kinds((true, false, true)) && kinds((true, true, false))
        );
    }

    #[test]
    fn what_no_party_may_say_is_said() {
        let chunk = pb::Chunk::default();
        let lies = lies_for(&chunk.into());
        assert!(lies.iter().flatten().any(|frame| frame.frame.is_none()));
        assert!(frames(&lies).any(|frame| matches!(frame, Up::Hello(_))));
        assert!(frames(&lies).any(|frame| matches!(frame, Up::ModelRefused(_))));
        let both = |ready: &pb::Ready| !ready.nonce.is_empty() && !ready.commitment.is_empty();
        assert!(frames(&lies).any(|frame| matches!(frame, Up::Ready(ready) if both(ready))));
    }
}
