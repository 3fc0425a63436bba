//! What liars say instead of what their machines do.

use blindsum_job::pb::coordinator_frame::Frame as Down;
use blindsum_job::pb::party_frame::Frame as Up;
use blindsum_job::pb::{self, CoordinatorFrame, PartyFrame};
use bytes::Bytes;

use super::World;

impl World {
    /// The frame of a party, or another one where it lies.
    pub(super) fn perhaps_lie(&mut self, number: usize, frame: PartyFrame) -> PartyFrame {
        if self.liar != Some(number) || !self.dice.chance(self.faults.lie) {
            return frame;
        }
        self.tally.lies += 1;
        let wild = self.wild();
        let Some(said) = frame.frame else {
            return frame;
        };
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
                    ..ready
                },
                _ => pb::Ready {
                    key_id: vec![wild as u8; 16],
                    ..ready
                },
            }),
            Up::Chunk(chunk) => Up::Chunk(match wild % 6 {
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
            Up::RoundRefused(refused) => Up::RoundRefused(pb::RoundRefused {
                round: wild,
                ..refused
            }),
        };
        PartyFrame { frame: Some(lie) }
    }

    /// The frame of the coordinator, or another one where it lies.
    pub(super) fn perhaps_mislead(
        &mut self,
        link: u64,
        frame: CoordinatorFrame,
    ) -> CoordinatorFrame {
        if !self.dice.chance(self.faults.server_lies) {
            return frame;
        }
        let _ = link;
        self.tally.lies += 1;
        let wild = self.wild();
        let Some(said) = frame.frame else {
            return frame;
        };
        let lie = match said {
            Down::RoundOffer(offer) => Down::RoundOffer(pb::RoundOffer {
                round: match wild % 2 {
                    0 => wild,
                    _ => offer.round.saturating_sub(1),
                },
                ..offer
            }),
            Down::RoundStart(start) => Down::RoundStart(self.another_start(start, wild)),
            Down::Chunk(chunk) => Down::Chunk(match wild % 4 {
                0 => pb::Chunk {
                    stage: wild as u32 % 5,
                    ..chunk
                },
                1 => pb::Chunk {
                    round: chunk.round.saturating_sub(1),
                    ..chunk
                },
                _ => pb::Chunk {
                    data: self.spoilt(chunk.data),
                    ..chunk
                },
            }),
            Down::RoundDone(done) => Down::RoundDone(pb::RoundDone {
                result: self.spoilt(done.result.into()).into(),
                ..done
            }),
            Down::RoundAborted(aborted) => Down::RoundAborted(pb::RoundAborted {
                counted: !aborted.counted,
                ..aborted
            }),
            Down::ModelChunk(chunk) => Down::ModelChunk(pb::ModelChunk {
                data: self.spoilt(chunk.data),
                ..chunk
            }),
            other => other,
        };
        CoordinatorFrame { frame: Some(lie) }
    }

    /// A beginning of the same round with other members, another order, or another memory of what was said.
    fn another_start(&mut self, start: pb::RoundStart, wild: u64) -> pb::RoundStart {
        let mut start = start;
        match wild % 4 {
            0 => drop(start.roster.pop()),
            1 => start.roster.reverse(),
            2 => start.answers_taken = wild as u32 % 5,
            _ => {
                if let Some(member) = start.roster.first_mut() {
                    member.nonce = self.spoilt(std::mem::take(&mut member.nonce).into()).into();
                }
            }
        }
        start
    }

    /// A small number, a large one, or one near the rounds of the job.
    fn wild(&mut self) -> u64 {
        let any = self.dice.below(u64::MAX);
        self.dice.pick(&[any, any % 9, u64::MAX]).unwrap_or(any)
    }

    /// The same bytes with one bit turned, or cut short.
    fn spoilt(&mut self, bytes: Bytes) -> Bytes {
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
