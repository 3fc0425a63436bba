//! What the coordinator hears, and what it wants done.

use blindsum_job::coordinator::{self, Hold};
use blindsum_job::party::Say;
use blindsum_job::pb::coordinator_frame::Frame as DownFrame;
use blindsum_job::pb::{self, PartyFrame};
use blindsum_protocol::ServerIndex;

use super::{Ensemble, Event};
use crate::hosts::frames;

impl Ensemble {
    /// The coordinator hears something.
    pub(super) fn hear(&mut self, link: u64, say: Say) {
        let host = match self.links.get(&link) {
            Some(host) if !self.closed.contains(&link) => &self.hosts[*host],
            _ => return,
        };
        let id = coordinator::LinkId(link);
        let input = match say {
            Say::Frame(PartyFrame {
                frame: Some(pb::party_frame::Frame::Hello(hello)),
            }) => {
                let peer = host.peer();
                coordinator::Input::Connected {
                    link: id,
                    peer,
                    hello,
                }
            }
            Say::Frame(frame) => coordinator::Input::Frame {
                link: id,
                frame: frame.frame.unwrap(),
            },
            Say::Message {
                round,
                stage,
                message,
            } => {
                let judged = self
                    .server
                    .gate()
                    .judge(&host.peer().who(), (round, stage.into()));
                let limit = judged.unwrap_or_else(|reason| panic!("{}: {reason}", host.name));
                let Some(limit) = limit else {
                    return;
                };
                assert!(message.len() as u64 <= limit, "{} bytes", message.len());
                let hold = Hold::default();
                coordinator::Input::Answer {
                    link: id,
                    round,
                    message,
                    hold,
                }
            }
            Say::Model { .. } => panic!("no toy seals models"),
        };
        self.server.handle(self.now, input);
        self.serve();
    }

    /// What the coordinator wants done next; a task may break on the way.
    fn next_effect(&mut self) -> Option<coordinator::Effect> {
        let (breaks, broke) = (&mut self.server_breaks, &mut self.server_broke);
        self.server.poll_with(self.now, |task| match *breaks {
            Some(0) => {
                *breaks = None;
                *broke = true;
            }
            left => {
                *breaks = left.map(|left| left - 1);
                task.run();
            }
        })
    }

    /// Does what the coordinator wants done.
    pub(super) fn serve(&mut self) {
        while let Some(effect) = self.next_effect() {
            match effect {
                coordinator::Effect::Admit(_)
                | coordinator::Effect::Lease(_)
                | coordinator::Effect::Called { .. }
                | coordinator::Effect::CallEnded { .. }
                | coordinator::Effect::Ordered { .. } => {}
                coordinator::Effect::Send(link, say) => {
                    for mut frame in frames(say) {
                        if let (true, Some(DownFrame::RoundStart(start))) =
                            (self.hides_terms, &mut frame.frame)
                        {
                            start.terms = None;
                        }
                        let is_piece = matches!(frame.frame, Some(DownFrame::Chunk(_)));
                        if self.echo && is_piece {
                            self.events.push_back(Event::ToHost(link.0, frame.clone()));
                        }
                        self.events.push_back(Event::ToHost(link.0, frame));
                    }
                }
                coordinator::Effect::Refuse(link, last)
                | coordinator::Effect::Close(link, last)
                | coordinator::Effect::Cut(link, last) => {
                    self.closed.insert(link.0);
                    self.events.push_back(Event::ToHost(link.0, last.into()));
                }
                coordinator::Effect::Letter { to, round, letter } => {
                    self.says(ServerIndex::ALL[0], to, round, letter);
                }
                coordinator::Effect::Over(result) => assert!(self.server_broke || result.is_ok()),
            }
        }
    }
}
