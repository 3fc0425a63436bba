//! Servers as sequential code: it goes from top to bottom and waits in the middle for answers. It is polled whenever
//! answers have come, by whoever drives the machine; there is no runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use blindsum_math::words::Words;
use rand_core::CryptoRng;

use crate::core::round::stages::{Body, FollowerStep, Letters};
use crate::core::round::{Bodies, FollowerStage, Relayed, ServerStage, ServerStep};
use crate::{Fault, FaultKind, PartyId, PartySet, Seat, ServerRole};

type Code<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

fn poll<T>(code: &mut Code<T>) -> Poll<Result<T, Fault>> {
    code.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Whose answers code waits for.
#[derive(Default)]
pub(super) struct Wanted {
    pub parties: BTreeSet<PartyId>,
    pub servers: Vec<ServerRole>,
    pub required: usize,
    /// Bytes of an answer: all are of one length.
    pub length: usize,
}

/// Answers of one stage.
pub(super) type Answers = BTreeMap<Seat, Vec<u8>>;

/// What lies between a coordinator's code and its stages.
#[derive(Default)]
struct Table {
    wanted: Option<Wanted>,
    answers: Option<Answers>,
    said: Vec<Relayed>,
}

/// What a coordinator's code has in its hand.
#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Mutex<Table>>);

impl Desk {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something at the end of the stage under way.
    pub fn say(&self, message: Relayed) {
        self.table().said.push(message);
    }

    /// Waits for the answers of the next stage: those that came until it ended.
    pub async fn gather(&self, wanted: Wanted) -> Answers {
        self.table().wanted = Some(wanted);
        poll_fn(|_| match self.table().answers.take() {
            Some(answers) => Poll::Ready(answers),
            None => Poll::Pending,
        })
        .await
    }
}

/// What a coordinator's code comes to.
pub(super) struct Opened {
    pub sum: Words,
    pub survivors: PartySet,
    /// What they are told.
    pub body: Body,
}

/// A coordinator whose code waits for the answers of a stage.
pub(super) struct Lead {
    code: Code<Opened>,
    desk: Desk,
    wanted: Wanted,
    answers: Answers,
}

impl Lead {
    /// The stage for whose answers the code waits first.
    pub fn start<F>(code: impl FnOnce(Desk) -> F) -> Result<Box<dyn ServerStage>, Fault>
    where
        F: Future<Output = Result<Opened, Fault>> + Send + 'static,
    {
        let desk = Desk::default();
        let mut code: Code<Opened> = Box::pin(code(desk.clone()));
        if let Poll::Ready(ended) = poll(&mut code) {
            return Err(ended.err().unwrap_or(Fault::caller(FaultKind::Ended)));
        }
        let wanted = desk.table().wanted.take().unwrap_or_default();
        Ok(Box::new(Self {
            code,
            desk,
            wanted,
            answers: Answers::new(),
        }))
    }

    fn take(&mut self, from: Seat, body: &[u8]) -> Result<(), FaultKind> {
        if body.len() != self.wanted.length {
            let rule = format!("{} bytes, not {}", self.wanted.length, body.len());
            return Err(FaultKind::malformed("answer", rule));
        }
        self.answers.insert(from, body.to_vec());
        Ok(())
    }
}

impl ServerStage for Lead {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.wanted.parties
    }

    fn servers(&self) -> &[ServerRole] {
        &self.wanted.servers
    }

    fn required(&self) -> usize {
        self.wanted.required
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        self.take(from.into(), body)
    }

    fn receive_of(&mut self, from: ServerRole, body: &[u8]) -> Result<(), FaultKind> {
        self.take(from.into(), body)
    }

    fn close(mut self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        self.desk.table().answers = Some(std::mem::take(&mut self.answers));
        if let Poll::Ready(ended) = poll(&mut self.code) {
            let Opened {
                sum,
                survivors,
                body,
            } = ended?;
            return Ok(ServerStep::Done {
                sum: Some(sum),
                bodies: Bodies::Same(survivors.iter().collect(), body),
                survivors,
                faults: Vec::new(),
            });
        }
        let (wanted, said) = {
            let mut table = self.desk.table();
            (table.wanted.take(), std::mem::take(&mut table.said))
        };
        self.wanted = wanted.unwrap_or_default();
        Ok(ServerStep::Next {
            next: self,
            bodies: Bodies::Relayed(said),
            faults: Vec::new(),
        })
    }
}

/// What the code of another server has in its hand.
#[derive(Clone, Default)]
pub(super) struct Ear(Arc<Mutex<(Option<Body>, Option<Body>)>>);

impl Ear {
    fn both(&self) -> MutexGuard<'_, (Option<Body>, Option<Body>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the coordinator's next message.
    pub async fn receive(&self) -> Body {
        poll_fn(|_| match self.both().0.take() {
            Some(body) => Poll::Ready(body),
            None => Poll::Pending,
        })
        .await
    }

    /// Answers the latest message.
    pub fn say(&self, body: Body) {
        self.both().1 = Some(body);
    }
}

/// Another server, whose code waits for a message.
pub(super) struct Follow {
    code: Code<()>,
    ear: Ear,
}

impl Follow {
    /// The code before the first message.
    pub fn start<F>(code: impl FnOnce(Ear) -> F) -> Box<dyn FollowerStage>
    where
        F: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let ear = Ear::default();
        let code: Code<()> = Box::pin(code(ear.clone()));
        Box::new(Self { code, ear })
    }
}

impl FollowerStage for Follow {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        _rng: &mut dyn CryptoRng,
    ) -> Result<FollowerStep, Fault> {
        self.ear.both().0 = Some(body.to_vec());
        let polled = poll(&mut self.code);
        let body = self.ear.both().1.take();
        let next: Option<Box<dyn FollowerStage>> = match polled {
            Poll::Ready(ended) => {
                ended?;
                None
            }
            Poll::Pending => Some(self),
        };
        Ok(FollowerStep {
            body,
            letters: Letters::new(),
            learnt: None,
            next,
        })
    }
}
