//! What every input needs whatever the job is doing.

use std::sync::Arc;

use blindsum_protocol::{Seat, ServerIndex, ServerRole};
use bytes::Bytes;

use super::api::{Hold, Input, LinkId};
use super::arriving::Arrival;
use super::servers::admit_server;
use super::state::State;
use crate::foreign;
use crate::pb::party_frame::Frame;
use crate::pb::{self, RefusalCode};
use crate::totals::LossCause;

/// What concerns the round that is offered or under way.
pub(super) enum Event {
    /// A frame of a party.
    Frame { name: Arc<str>, frame: Frame },
    /// The answer of a party or another server to a stage.
    Answer {
        seat: Seat,
        round: u64,
        message: Bytes,
        hold: Hold,
    },
    /// What a server says that computes with this one.
    Letter {
        from: ServerIndex,
        round: u64,
        letter: Bytes,
    },
    /// The line to such a server was lost.
    LineLost { to: ServerIndex, reason: String },
    /// What a round passes on cannot be read.
    Unreadable { round: u64, reason: String },
}

impl State {
    /// Does what every input needs whatever the job is doing, and gives back what concerns the round.
    pub(super) async fn handle(&mut self, input: Input) -> Option<Event> {
        match input {
            Input::Connected { link, peer, hello } => {
                match peer.role {
                    Some(role) => admit_server(self, link, peer, role, &hello),
                    None => Arrival::admit(self, link, peer, hello).await,
                }
                None
            }
            Input::Lost {
                link,
                reason,
                returns,
            } => {
                match self.connections.server_at(link) {
                    Some(role) => self.leave_server(role, &reason),
                    None => self.leave(link, &reason, returns),
                }
                None
            }
            Input::Frame { link, frame } => {
                if let Some(role) = self.connections.server_at(link) {
                    self.server_frame(role, frame);
                    return None;
                }
                let name = self.connections.name_at(link)?.clone();
                self.frame(name, frame).await
            }
            Input::Answer {
                link,
                round,
                message,
                hold,
            } => Some(Event::Answer {
                seat: self.seat_at(link)?,
                round,
                message,
                hold,
            }),
            Input::Letter {
                from,
                round,
                letter,
            } => Some(Event::Letter {
                from,
                round,
                letter,
            }),
            Input::LineLost { to, reason } => Some(Event::LineLost { to, reason }),
            Input::Unreadable { round, reason } => Some(Event::Unreadable { round, reason }),
            Input::LeaseLost { name } => {
                self.lease_lost(&name);
                None
            }
            Input::Order { id, order } => {
                self.ordered(id, &order).await;
                None
            }
            Input::Call { id, call } => {
                self.called(id, call);
                None
            }
            Input::PartyFailed { name, reason } => {
                self.reported_failed(&name, &reason);
                None
            }
            Input::CallOff { id, reason } => {
                self.calls.call_off(id, &reason);
                None
            }
            Input::Settings(settings) => {
                // A wait that is under way began this long before its patience is over.
                let before = self.context.settings().patience;
                self.patience = self.patience.moved(before, settings.patience);
                self.context.parts.settings = settings;
                None
            }
            Input::Stop => None,
        }
    }

    /// A frame of a party that is connected.
    async fn frame(&mut self, name: Arc<str>, frame: Frame) -> Option<Event> {
        match frame {
            Frame::Leaving(leaving) => self.departs(&name, &leaving),
            Frame::ModelRequest(_) | Frame::ModelChunk(_) | Frame::ModelRefused(_) => {
                self.model_frame(&name, frame);
            }
            Frame::RoundConfirmed(confirmed) => self.confirmed(&name, &confirmed).await,
            Frame::RoundRefused(refused) if self.ended.owes(&name, refused.round) => {
                self.result_refused(&name, &refused).await;
            }
            frame => return Some(Event::Frame { name, frame }),
        }
        None
    }

    /// A frame of a server: it says nothing between rounds, and in one only that it cannot go on.
    fn server_frame(&mut self, role: ServerRole, frame: Frame) {
        match frame {
            Frame::RoundRefused(refusal) => {
                let number = self.phase.running().map(|running| running.number());
                if number == Some(refusal.round) {
                    let model = self.models.key();
                    self.opened.refused_by(&self.context, model, role, &refusal);
                    let reason = format!("refused by the server: {}", foreign(&refusal.reason));
                    let seat = Seat::Server(role);
                    self.drop_seat(seat, LossCause::Refused, &reason);
                }
            }
            _ => {
                let reason = "a frame that no server sends";
                if let Some(server) = self.connections.server(role) {
                    let last = pb::Refused::new(RefusalCode::RefusalBadFrame, reason);
                    server.link.cut(last);
                }
                self.leave_server(role, reason);
            }
        }
    }

    /// The place in the round under way of whoever is at the other end of a connection.
    fn seat_at(&self, link: LinkId) -> Option<Seat> {
        if let Some(role) = self.connections.server_at(link) {
            return Some(role.into());
        }
        let name = self.connections.name_at(link)?;
        Some(self.phase.running()?.id(name)?.into())
    }

    /// A party confirms what it holds after a round; that must be what the coordinator has. Only the first word
    /// of each survivor is heard.
    async fn confirmed(&mut self, name: &str, confirmed: &pb::RoundConfirmed) {
        if self.settled(name, confirmed.round) {
            self.ended.compare(&self.context, name, confirmed).await;
        }
    }

    /// A survivor cannot use the result that it was told, and will not confirm it.
    async fn result_refused(&mut self, name: &str, refused: &pb::RoundRefused) {
        if self.settled(name, refused.round) {
            let detail = format!("{name} refuses the result: {}", foreign(&refused.reason));
            let context = &self.context;
            context
                .record_event(refused.round, "refused", name, detail)
                .await;
        }
    }

    /// A survivor of this sum needs to be told nothing more; true where it did until now.
    fn settled(&mut self, name: &str, round: u64) -> bool {
        let is_news = self.ended.settle(round, name, self.context.now());
        if is_news {
            self.context.news();
            self.leave_failed(name);
        }
        is_news
    }
}
