//! Many parties in one process, each with a connection of its own, to measure what a coordinator needs for them.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::NetError;
use crate::party::{NextRound, Party, PartyConfig, RoundHandle};

/// Parties that join at the same time.
const AT_ONCE: usize = 16;

/// Threads that compute for all of them.
const COMPUTING: usize = 8;

/// How long a round may let parties wait.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Parties of one job, which share a few threads. Dropping it ends their connections without goodbyes.
pub struct Crowd {
    parties: Vec<Party>,
    _threads: Runtime,
}

impl Crowd {
    /// Connects all parties.
    ///
    /// # Errors
    /// The error of the first party that cannot join.
    pub fn join(configs: Vec<PartyConfig>) -> Result<Self, NetError> {
        let mut threads = Builder::new_multi_thread();
        let threads = threads.max_blocking_threads(COMPUTING).enable_all().build();
        let threads = threads.map_err(NetError::system)?;
        let (handle, mut waiting) = (threads.handle(), configs.into_iter());
        let mut parties = Vec::new();
        loop {
            let next: Vec<PartyConfig> = waiting.by_ref().take(AT_ONCE).collect();
            if next.is_empty() {
                break;
            }
            let joined: Result<Vec<Party>, NetError> = std::thread::scope(|scope| {
                let join = |config| scope.spawn(move || Party::join_on(config, handle));
                let joining: Vec<_> = next.into_iter().map(join).collect();
                let joined = joining.into_iter().map(|party| match party.join() {
                    Ok(joined) => joined.map(|(party, _task)| party),
                    Err(_) => Err(NetError::Left),
                });
                joined.collect()
            });
            parties.extend(joined?);
        }
        Ok(Self {
            parties,
            _threads: threads,
        })
    }

    /// All parties take part in one round with the same update, and wait for its result.
    ///
    /// # Errors
    /// The error of the first party that gets no result.
    pub fn round(&mut self, update: &[f32]) -> Result<(), NetError> {
        // Each is ready now, and does not wait for those behind it.
        let asked = self.parties.iter_mut();
        let asked = asked.map(|party| begun(party.wait_round(Duration::ZERO)?));
        let asked: Vec<Option<RoundHandle>> = asked.collect::<Result<_, NetError>>()?;
        let mut rounds = Vec::new();
        for (party, asked) in self.parties.iter_mut().zip(asked) {
            let round = match asked {
                None => begun(party.wait_round(PATIENCE)?)?,
                found => found,
            };
            rounds.push(round.ok_or(NetError::Left)?);
        }
        for round in &mut rounds {
            round.submit(update.to_vec(), 1)?;
        }
        for mut round in rounds {
            round.result()?;
        }
        Ok(())
    }
}

/// The round that has begun; none where there is none yet.
fn begun(next: NextRound) -> Result<Option<RoundHandle>, NetError> {
    match next {
        NextRound::Round(round) => Ok(Some(*round)),
        NextRound::Held(_) | NextRound::Waiting => Ok(None),
        NextRound::Refused(error) => Err(error),
        NextRound::JobDone => Err(NetError::Left),
    }
}
