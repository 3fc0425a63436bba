//! The machines of a round, from functions; and how a client goes on from what a stage has saved.

use std::sync::Arc;

use rand_core::CryptoRng;

use crate::core::round::{
    ClientSetup, ClientStage, ClientStep, InputRef, Machines, Round, ServerStage,
};
use crate::kit::snapshot::Reader;
use crate::{Fault, FaultKind};

/// The machines of a protocol that derives nothing from a round.
pub(crate) struct Stateless {
    /// As [`Machines::start`].
    pub start: StartClient,
    /// Reads what a stage has saved, by the name that the plan gives it; none where no such stage saves anything.
    pub restore: RestoreClient,
    /// As [`Machines::serve`].
    pub serve: StartServer,
}

impl Machines for Stateless {
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        (self.start)(setup, input, rng)
    }

    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: &str,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind> {
        read(state, |reader| (self.restore)(setup, stage, reader))
    }

    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
        (self.serve)(round)
    }
}

/// The machines of a protocol that derives something from a round, which all machines of a process share.
pub(crate) struct Derived<T> {
    /// What is derived.
    pub derived: Arc<T>,
    /// As [`Machines::start`]: a client that sends a message before it has a vector.
    pub start: StartWith<T>,
    /// Reads what a stage has saved, by the name that the plan gives it; none where no such stage saves anything.
    pub restore: RestoreWith<T>,
    /// As [`Machines::serve`].
    pub serve: fn(&Arc<Round>, Arc<T>) -> Box<dyn ServerStage>,
}

impl<T: Send + Sync> Machines for Derived<T> {
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        _input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        (self.start)(setup, self.derived.clone(), rng)
    }

    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: &str,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind> {
        read(state, |reader| {
            (self.restore)(setup, &self.derived, stage, reader)
        })
    }

    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
        Ok((self.serve)(round, self.derived.clone()))
    }
}

/// Reads a snapshot to its end.
pub(crate) fn read(
    state: &[u8],
    restore: impl FnOnce(&mut Reader<'_>) -> Restored,
) -> Result<Box<dyn ClientStage>, FaultKind> {
    let mut reader = Reader::new(state);
    let none = || FaultKind::Snapshot("no such stage".into());
    let next = restore(&mut reader)?.ok_or_else(none)?;
    reader.end()?;
    Ok(next)
}

/// A stage, if the one of this name saves anything.
pub(crate) type Restored = Result<Option<Box<dyn ClientStage>>, FaultKind>;
type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
type StartWith<T> = fn(&Arc<ClientSetup>, Arc<T>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
type RestoreClient = fn(&Arc<ClientSetup>, &str, &mut Reader<'_>) -> Restored;
type RestoreWith<T> = fn(&Arc<ClientSetup>, &Arc<T>, &str, &mut Reader<'_>) -> Restored;
type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
