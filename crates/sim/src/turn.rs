//! One party's turn: it takes a message of the server and answers, and the cost of that is measured.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{EncodeError, Encoder};
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Fault, Input, Message, Outcome, PartyId, Round,
    RoundSum, ServerRole, SparseInput, Step,
};
use rand_chacha::ChaCha20Rng;

use crate::clock::Clock;
use crate::inputs::vector_seeds;
use crate::memories::Memories;
use crate::relay::Parcel;
use crate::report::Cost;
use crate::seeds::{seed_bytes, stream};
use crate::{Cohort, Inputs, Scratch, SimError};

/// What every turn of a round needs.
pub(crate) struct Setting<'a> {
    pub(crate) cohort: &'a Arc<Cohort>,
    pub(crate) inputs: &'a dyn Inputs,
    pub(crate) seed: u64,
    pub(crate) round: Arc<Round>,
    pub(crate) memories: Memories<'a>,
    /// The sum of a round whose server does not learn it, as the first party found it.
    pub(crate) found: &'a OnceLock<RoundSum>,
}

/// A party with its machine.
pub(crate) struct Seat {
    pub(crate) party: PartyId,
    /// The round it believes to be in.
    believed: Arc<Round>,
    /// `None` before it starts.
    client: Option<Client>,
    rng: ChaCha20Rng,
    /// The letter that it will make when it arrives.
    pub(crate) owes: Option<usize>,
    /// Per stage, and one more for the result.
    pub(crate) costs: Vec<Cost>,
    pub(crate) end: PartyEnd,
}

/// How a round ended for a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartyEnd {
    /// It took a result; `agrees` if it was the server's.
    Result {
        /// Whether sum and survivors are those of the server.
        agrees: bool,
    },
    /// It met a fault instead of answering `stage`.
    Fault {
        /// The stage.
        stage: u8,
        /// The fault.
        fault: Fault,
    },
    /// It vanished, as the scenario says.
    Dropped,
    /// It received nothing more.
    Waiting,
}

/// What a party is to do.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The stage that the answer belongs to.
    pub(crate) leads_to: u8,
    /// `None` starts the party.
    pub(crate) message: Option<Parcel>,
    /// Whether it restarts when it has made its answer.
    pub(crate) restarts: bool,
}

/// The parts of an answer that servers beside the coordinator take.
pub(crate) type Parts = Vec<(ServerRole, Message)>;

/// What it did.
pub(crate) enum Said {
    /// An answer, and the parts of it that other servers take before.
    Message(Message, Parts),
    /// Nothing: the message was an old one.
    Nothing,
    /// It took the result; whether that is the server's.
    Result { agrees: bool },
    /// It met a fault.
    Fault(Fault),
}

/// What a machine says in a stage, or that it says nothing, is in its plan.
pub(crate) fn planned(
    who: impl Display,
    allowed: bool,
    step: Option<&Step>,
    stage: u8,
    bytes: Option<usize>,
) -> Result<(), SimError> {
    if allowed {
        return Ok(());
    }
    Err(SimError::Plan {
        who: who.to_string(),
        stage,
        bytes: bytes.map(|bytes| bytes as u64),
        allowed: step.map_or(0, |step| step.largest),
    })
}

impl Seat {
    pub(crate) fn new(setting: &Setting<'_>, party: PartyId, believed: Arc<Round>) -> Self {
        let numbers = [setting.seed, setting.round.number(), party.0.into()];
        Self {
            party,
            believed,
            client: None,
            rng: stream("party", &numbers),
            owes: None,
            costs: vec![Cost::default(); setting.round.plan().answers().count() + 1],
            end: PartyEnd::Waiting,
        }
    }

    /// Whether the next answer carries the vector.
    pub(crate) fn needs_input(&self) -> bool {
        match &self.client {
            Some(client) => client.needs_input(),
            None => self.believed.plan().input_stage_of(self.party) == Some(0),
        }
    }

    /// The party vanishes; what it had met before stays its end.
    pub(crate) fn leave(&mut self) {
        if self.end == PartyEnd::Waiting {
            self.end = PartyEnd::Dropped;
        }
    }

    /// Whether the party has vanished.
    pub(crate) fn is_gone(&self) -> bool {
        self.end == PartyEnd::Dropped
    }

    /// The server has taken the latest answer.
    pub(crate) fn acknowledged(&mut self) {
        if let Some(client) = &mut self.client {
            client.acknowledged();
        }
    }

    /// The costs of a stage.
    pub(crate) fn cost(&mut self, stage: u8) -> Option<&mut Cost> {
        self.costs.get_mut(usize::from(stage))
    }

    /// Takes a turn. `outcome` is what the server has, to compare a result with.
    pub(crate) fn take(
        &mut self,
        setting: &Setting<'_>,
        outcome: Option<&Outcome>,
        scratch: &mut Scratch,
        turn: &Turn,
    ) -> Result<Said, SimError> {
        let said = self.answer(setting, scratch, turn)?;
        let length = match &said {
            Ok(Answer::Send(message)) => Some(Some(message.len())),
            Ok(Answer::Wait) => Some(None),
            _ => None,
        };
        if let Some(length) = length {
            let (plan, party, stage) = (self.believed.plan(), self.party, turn.leads_to);
            let parts = self.parts().into_iter();
            let lengths = parts.map(|(_, part)| Some(part.len()));
            for length in lengths.chain([length]) {
                let allowed = plan.allows_answer(party, stage, length);
                planned(party, allowed, plan.answer(stage), stage, length)?;
            }
        }
        let said = match said {
            Ok(Answer::Send(message)) if turn.restarts => {
                drop(message);
                match self.restart(setting, turn.leads_to)? {
                    Some(again) => Said::Message(again, self.parts()),
                    None => Said::Nothing,
                }
            }
            Ok(Answer::Send(message)) => Said::Message(message, self.parts()),
            Ok(Answer::Old | Answer::Wait) => Said::Nothing,
            Ok(Answer::Done(result)) => Said::Result {
                agrees: outcome.is_some_and(|outcome| agrees(setting, outcome, result)),
            },
            Ok(Answer::KeyHeld(holders)) => Said::Result {
                agrees: outcome.is_some_and(|outcome| outcome.survivors == holders),
            },
            Err(fault) => Said::Fault(fault),
        };
        Ok(said)
    }

    /// The parts of the latest answer.
    fn parts(&self) -> Parts {
        let client = self.client.as_ref();
        client.map_or_else(Parts::new, |client| client.parts().to_vec())
    }

    /// The part that is measured: everything a party does, and nothing that the simulator does for it.
    fn answer(
        &mut self,
        setting: &Setting<'_>,
        scratch: &mut Scratch,
        turn: &Turn,
    ) -> Result<Result<Answer, Fault>, SimError> {
        let (party, number) = (self.party, setting.round.number());
        let values = self
            .needs_input()
            .then(|| setting.inputs.values(number, party, scratch));
        let weight = setting.inputs.weight(number, party);
        let metrics = setting.inputs.metrics(number, party, setting.round.job());
        let (believed, setup) = (self.believed.clone(), self.setup(setting)?);
        let message = match &turn.message {
            None => Message::new(),
            Some(parcel) => {
                let (to, stage) = (party, turn.leads_to.saturating_sub(1));
                let message = parcel.open().map_err(SimError::Spool)?;
                message.ok_or(SimError::Relay {
                    to: to.into(),
                    stage,
                })?
            }
        };
        let (answer, work) = Clock::Thread.measure(|| {
            let selection = match values {
                Some(values) => setting.memories.select(&believed, party, values)?,
                None => None,
            };
            let encoding = believed.encoding();
            let seeds = vector_seeds(encoding, setting.seed, number, party);
            let levels = || encoding.metric_levels(&metrics);
            let (sparse, dense);
            let input: Option<&dyn Input> = match (values, &selection) {
                (None, _) => None,
                (Some(_), Some(selection)) => {
                    let words = selection.encoder(seeds)?.with_metrics(&levels()?);
                    sparse = SparseInput::new(selection.places(), words);
                    Some(&sparse)
                }
                (Some(values), None) => {
                    let words = Encoder::new(encoding, values, weight, seeds)?;
                    dense = words.with_metrics(&levels()?);
                    Some(&dense)
                }
            };
            Ok(match &mut self.client {
                Some(client) => client.answer(&message, input, &mut self.rng),
                None => Client::start(setup, input, &mut self.rng).map(|(client, answer)| {
                    self.client = Some(client);
                    answer
                }),
            })
        });
        self.charge(turn.leads_to, work);
        answer.map_err(|error: EncodeError| SimError::values(party, &error))
    }

    fn charge(&mut self, stage: u8, work: Duration) {
        if let Some(cost) = self.cost(stage) {
            *cost += Cost {
                work,
                active: true,
                ..Cost::default()
            };
        }
    }

    /// Seals the client, forgets it, and goes on from what was sealed; where that is nothing the party is lost.
    fn restart(&mut self, setting: &Setting<'_>, stage: u8) -> Result<Option<Message>, SimError> {
        let party = self.party;
        let error = |rule: String| SimError::Restart { party, stage, rule };
        let numbers = [
            setting.seed,
            setting.round.number(),
            party.0.into(),
            stage.into(),
        ];
        let key = StorageKey::from(Secret::from(seed_bytes("storage key", &numbers)));
        let client = self
            .client
            .take()
            .ok_or_else(|| error("there is no client".into()))?;
        let sealed = client
            .seal(&key, &mut stream("storage", &numbers))
            .map_err(|fault| error(fault.to_string()))?;
        let Some(sealed) = sealed else {
            self.leave();
            return Ok(None);
        };
        let (before, at) = (client.latest().clone(), client.stage());
        drop(client);
        let client = Client::unseal(self.setup(setting)?, &key, &sealed)
            .map_err(|fault| error(fault.to_string()))?;
        if client.stage() != at {
            return Err(error(format!("stage {:?} must be {at:?}", client.stage())));
        }
        if *client.latest() != before {
            return Err(error("the latest answer must be the same bytes".into()));
        }
        let latest = client.latest().clone();
        self.client = Some(client);
        Ok(Some(latest))
    }

    fn setup(&self, setting: &Setting<'_>) -> Result<ClientSetup, SimError> {
        let identity = setting.cohort.identity(self.party.rank());
        let vault = setting.memories.vault(self.party);
        let (Some(identity), Some(vault)) = (identity, vault) else {
            let rule = format!("{} is not in the cohort", self.party);
            return Err(SimError::scenario("parties", rule));
        };
        Ok(ClientSetup {
            round: self.believed.clone(),
            me: self.party,
            identity: identity.clone(),
            vault: vault.clone(),
            servers: setting.cohort.servers(),
            memory: setting.memories.of_liar(self.party),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
        })
    }
}

/// Whether a party has the server's sum, or the one that the first party found; or none, where the servers alone learn it.
fn agrees(setting: &Setting<'_>, outcome: &Outcome, result: RoundSum) -> bool {
    if result.survivors != outcome.survivors {
        return false;
    }
    match &outcome.sum {
        Some(_) if !setting.round.job().tells_parties() => result.sum.is_empty(),
        // guard: results-are-compared-in-the-simulator
        Some(of_server) => *of_server == result.sum,
        None => match setting.found.set(result) {
            Ok(()) => true,
            Err(result) => setting.found.get() == Some(&result),
        },
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::JobSpec;

    use super::*;

    #[test]
    fn what_is_beyond_the_plan_is_found() {
        let job = JobSpec::default().validate().unwrap();
        let (plan, party) = (job.plan(), PartyId(0));
        let check = |stage, bytes| {
            let allowed = plan.allows_answer(party, stage, bytes);
            planned(party, allowed, plan.answer(stage), stage, bytes)
        };
        let largest = plan.answer(0).unwrap().largest as usize;
        assert!(check(0, Some(largest)).is_ok());
        let error = check(0, Some(largest + 1)).unwrap_err();
        assert!(error.to_string().contains("party 0 says "), "{error}");
        let error = check(0, None).unwrap_err();
        assert!(
            error.to_string().contains("party 0 says nothing"),
            "{error}"
        );
        assert!(check(9, Some(1)).is_err() && check(9, None).is_ok());
    }
}
