//! What a lying coordinator sends instead of what its machine says: something else, or something that it sent before,
//! to the same party or server, or to another one.

use std::collections::{BTreeMap, VecDeque};

use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_protocol::ServerRole;
use bytes::Bytes;

use super::Episode;

/// Frames that it can say again.
const REMEMBERED: usize = 300;

/// What a lying coordinator has at hand.
#[derive(Default)]
pub(super) struct Deceit {
    /// What it has said to anybody.
    said: VecDeque<CoordinatorFrame>,
    /// The certificate of somebody whom no CA of the job knows.
    pub stranger: Vec<u8>,
    /// The latest round that each other server was told begins.
    begun: BTreeMap<ServerRole, pb::RoundStart>,
}

impl Deceit {
    /// With the certificate of a stranger.
    pub fn with(stranger: Vec<u8>) -> Self {
        Self {
            stranger,
            ..Self::default()
        }
    }

    fn remember(&mut self, frame: &CoordinatorFrame) {
        // What ends a connection ends the game.
        if matches!(
            frame.frame,
            Some(Frame::Welcome(_) | Frame::Refused(_) | Frame::JobDone(_)) | None
        ) {
            return;
        }
        if self.said.len() == REMEMBERED {
            self.said.pop_front();
        }
        self.said.push_back(frame.clone());
    }
}

impl Episode {
    /// What a party, or a server, hears instead of this frame of the coordinator: the frame, unless that lies.
    pub(super) fn perhaps_mislead(&mut self, frame: CoordinatorFrame) -> Vec<CoordinatorFrame> {
        if self.faults.server_lies == 0.0 {
            return vec![frame];
        }
        self.deceit.remember(&frame);
        if !self.dice.chance(self.faults.server_lies) {
            return vec![frame];
        }
        self.tally.lies += 1;
        let again = self.dice.below(self.deceit.said.len().max(1) as u64) as usize;
        let again = self.deceit.said.get(again).cloned();
        match (self.dice.below(4), again) {
            (0, Some(again)) => vec![again, frame],
            (1, Some(again)) => vec![frame, again],
            _ => vec![self.another(frame)],
        }
    }

    /// What another server hears instead of this frame of the coordinator: as a party, and besides that the latest round
    /// begins, once more or in another way.
    pub(super) fn perhaps_mislead_follower(
        &mut self,
        role: ServerRole,
        frame: CoordinatorFrame,
    ) -> Vec<CoordinatorFrame> {
        if let Some(Frame::RoundStart(start)) = &frame.frame {
            self.deceit.begun.insert(role, start.clone());
        }
        let mut said = self.perhaps_mislead(frame);
        if self.dice.chance(4.0 * self.faults.server_lies)
            && let Some(start) = self.deceit.begun.get(&role)
        {
            // The connection may be a new one, which has brought no certificates.
            let certificates = self
                .members
                .iter()
                .map(|member| member.certificate.to_vec().into());
            let again = pb::RoundStart {
                certificates: certificates.collect(),
                ..start.clone()
            };
            self.tally.lies += 1;
            let wild = self.dice.wild();
            let again = match self.dice.chance(0.3) {
                true => self.another_start(again, wild),
                false => again,
            };
            said.push(again.into());
        }
        said
    }

    /// What a server that computes with the coordinator hears instead of this letter of it: the letter, unless that lies.
    pub(super) fn perhaps_mislead_server(&mut self, letter: Bytes) -> Bytes {
        if !self.dice.chance(self.faults.server_lies) {
            return letter;
        }
        self.tally.lies += 1;
        self.dice.spoilt(letter)
    }

    fn another(&mut self, frame: CoordinatorFrame) -> CoordinatorFrame {
        let wild = self.dice.wild();
        let Some(said) = frame.frame else {
            return frame;
        };
        let lie = match said {
            Frame::RoundOffer(offer) => Frame::RoundOffer(pb::RoundOffer {
                round: match wild % 2 {
                    0 => wild,
                    _ => offer.round.saturating_sub(1),
                },
                ..offer
            }),
            Frame::RosterFixed(fixed) => Frame::RosterFixed(self.another_roster(fixed, wild)),
            Frame::RoundStart(start) => Frame::RoundStart(self.another_start(start, wild)),
            Frame::Chunk(chunk) => Frame::Chunk(match wild % 4 {
                0 => pb::Chunk {
                    stage: wild as u32 % 5,
                    ..chunk
                },
                1 => pb::Chunk {
                    round: chunk.round.saturating_sub(1),
                    ..chunk
                },
                _ => pb::Chunk {
                    data: self.dice.spoilt(chunk.data),
                    ..chunk
                },
            }),
            Frame::RoundDone(done) => Frame::RoundDone(pb::RoundDone {
                result: self.dice.spoilt(done.result.into()).into(),
                ..done
            }),
            Frame::RoundAborted(aborted) => Frame::RoundAborted(pb::RoundAborted {
                counted: !aborted.counted,
                ..aborted
            }),
            Frame::ModelChunk(chunk) => Frame::ModelChunk(pb::ModelChunk {
                data: self.dice.spoilt(chunk.data),
                ..chunk
            }),
            Frame::JobHeld(held) => Frame::JobHeld(pb::JobHeld {
                reason: self
                    .dice
                    .spoilt(held.reason.into_bytes().into())
                    .escape_ascii()
                    .to_string(),
            }),
            other => other,
        };
        CoordinatorFrame { frame: Some(lie) }
    }

    /// Another roster that is said to be fixed: with other members or commitments, another order, other numbers.
    fn another_roster(&mut self, fixed: pb::RosterFixed, wild: u64) -> pb::RosterFixed {
        let mut fixed = fixed;
        match wild % 4 {
            0 => drop(fixed.roster.pop()),
            1 => fixed.roster.reverse(),
            2 => {
                if let Some(numbers) = &mut fixed.numbers {
                    numbers.threshold = numbers.threshold.saturating_sub(1);
                }
            }
            _ => {
                if let Some(member) = fixed.roster.first_mut() {
                    let commitment = std::mem::take(&mut member.commitment);
                    member.commitment = self.dice.spoilt(commitment);
                }
            }
        }
        fixed
    }

    /// A beginning of the same round with other members, another order, or another memory of what was said.
    fn another_start(&mut self, start: pb::RoundStart, wild: u64) -> pb::RoundStart {
        let mut start = start;
        match wild % 7 {
            0 => drop(start.roster.pop()),
            1 => start.roster.reverse(),
            2 => start.answers_taken = wild as u32 % 5,
            3 => start.roster.truncate(1),
            5 => {
                if let Some(numbers) = &mut start.numbers {
                    numbers.threshold = numbers.threshold.saturating_add(1);
                }
            }
            4 => {
                let stranger = self.deceit.stranger.clone();
                if let Some(last) = start.roster.last_mut() {
                    last.fingerprint = blindsum_job::fingerprint(&stranger).to_vec().into();
                    start.certificates.push(stranger.into());
                }
            }
            _ => {
                if let Some(member) = start.roster.first_mut() {
                    member.nonce = self.dice.spoilt(std::mem::take(&mut member.nonce));
                }
            }
        }
        start
    }
}
