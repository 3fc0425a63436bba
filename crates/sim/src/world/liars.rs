//! What a lying party says instead of what its machine does.

use blindsum_job::pb::party_frame::Frame as Up;
use blindsum_job::pb::{self, PartyFrame};
use bytes::Bytes;

use super::World;

impl World {
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
        let wild = self.wild();
        let said = frame.frame?;
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
                    nonce: self.spoilt(ready.nonce.into()).into(),
                    commitment: self.spoilt(ready.commitment.into()).into(),
                    ..ready
                },
                _ => pb::Ready {
                    key_id: vec![wild as u8; 16],
                    ..ready
                },
            }),
            Up::NonceOpening(opening) => Up::NonceOpening(match wild % 2 {
                0 => pb::NonceOpening {
                    round: wild,
                    ..opening
                },
                _ => pb::NonceOpening {
                    nonce: self.spoilt(opening.nonce.into()).into(),
                    ..opening
                },
            }),
            Up::Chunk(chunk) if wild % 7 == 6 => Up::RoundRefused(pb::RoundRefused {
                round: chunk.round,
                code: pb::RoundRefusalCode::RoundRefusalFault.into(),
                reason: "it lied".into(),
                accused: self.somebody(),
                evidence: wild.to_be_bytes().to_vec(),
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
                    data: self.spoilt(chunk.data),
                    ..chunk
                },
            }),
            Up::RoundConfirmed(confirmed) => Up::RoundConfirmed(pb::RoundConfirmed {
                result: self.spoilt(confirmed.result.into()).into(),
                ..confirmed
            }),
            Up::ModelChunk(chunk) => Up::ModelChunk(pb::ModelChunk {
                data: self.spoilt(chunk.data),
                ..chunk
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

    /// The name of a party, to be accused.
    fn somebody(&mut self) -> String {
        let number = self.dice.below(self.parties.len() as u64) as usize;
        let party = self.parties.get(number);
        party.map_or(String::new(), |party| party.name.to_string())
    }

    /// A small number, a large one, or one near the rounds of the job.
    pub(super) fn wild(&mut self) -> u64 {
        let any = self.dice.below(u64::MAX);
        self.dice.pick(&[any, any % 9, u64::MAX]).unwrap_or(any)
    }

    /// The same bytes with one bit turned, or cut short.
    pub(super) fn spoilt(&mut self, bytes: Bytes) -> Bytes {
        let mut bytes = bytes.to_vec();
        let at = self.dice.below(bytes.len().max(1) as u64) as usize;
        match (self.dice.chance(0.1), bytes.get_mut(at)) {
            (true, _) => bytes.truncate(at),
            (false, Some(byte)) => *byte ^= 1 << (at % 8),
            (false, None) => bytes.push(0),
        }
        bytes.into()
    }
}
