//! The steps of a party that take long: encoding, masking, unmasking. They run as tasks on other threads, which give
//! everything back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{
    EncodeError, Encoding, Judged, NoiseSeed, Reals, Seeds, Selection, Sent, Update,
};
use blindsum_protocol::{
    Answer, Client, ClientSetup, Fault, FaultKind, Input, Job, Message, Round, RoundSum,
    SparseInput,
};
use rand_chacha::ChaCha20Rng;

use super::metrics::{Metrics, levels_of};
use super::records::JobRecords;
use super::result::{Clipped, RoundResult, Timings};
use super::sparse::Leftover;
use crate::decoded::{Decoded, integer_sums};
use crate::records::root_secret;
use crate::report::MetricReport;
use crate::{JobError, Model};

/// Finds everything that can be wrong with an update and its metrics before anything is sent; a round takes what was judged
/// here.
///
/// # Errors
/// [`JobError::Input`] says what.
pub fn check_update(
    job: &Job,
    update: Update,
    weight: u32,
    metrics: &Metrics,
) -> Result<Judged, JobError> {
    let refused = |e: EncodeError| JobError::Input(e.to_string());
    let levels = levels_of(job, metrics)?;
    let judged = Judged::new(job.encoding(), update, weight).map_err(refused)?;
    Ok(judged.with_metrics(levels))
}

/// What a step works on.
pub(super) struct Step {
    pub setup: ClientSetup,
    /// The machine; none before its first message.
    pub client: Option<Client>,
    /// The coordinator's message; none starts the machine.
    pub message: Option<Message>,
    pub update: Option<Judged>,
    /// What is left of earlier updates, where the round is sparse.
    pub leftover: Option<Leftover>,
    pub state: Option<Arc<JobRecords>>,
    pub rng: ChaCha20Rng,
}

/// What a step led to.
pub(super) struct Stepped {
    pub client: Option<Client>,
    pub answer: Result<Answer, Fault>,
    /// The machine's snapshot, where there is a state file, something to send, and a machine that another process
    /// may go on with.
    pub snapshot: Option<Vec<u8>>,
    /// What was sent of the update, where the round is sparse.
    pub sent: Option<Sent>,
    /// What clipping did to the update, where this step sent it.
    pub clipped: Option<Clipped>,
}

impl Step {
    /// Runs the machine.
    pub fn run(mut self) -> Stepped {
        let mut client = self.client.take();
        let selected = self.select();
        let mut clipped = None;
        let answer = match &selected {
            Ok(selection) => self.advance(&mut client, selection.as_ref(), &mut clipped),
            Err(error) => Err(Fault::caller(FaultKind::Input(error.to_string()))),
        };
        let mut snapshot = None;
        let answer = match (answer, &client, &self.state) {
            (Ok(answer @ (Answer::Send(_) | Answer::Wait)), Some(client), Some(state)) => {
                client.seal(state.key(), &mut self.rng).map(|sealed| {
                    snapshot = sealed;
                    answer
                })
            }
            (answer, _, _) => answer,
        };
        Stepped {
            client,
            answer,
            snapshot,
            sent: selected.ok().flatten().map(Selection::into_sent),
            clipped,
        }
    }

    /// What is sent of the update, where the round is sparse and this step sends it.
    fn select(&self) -> Result<Option<Selection>, EncodeError> {
        match (&self.update, &self.leftover) {
            (Some(judged), Some(leftover)) => leftover
                .select(&self.setup.round, judged.update())
                .map(Some),
            _ => Ok(None),
        }
    }

    /// The seeds of the vector. A step that is replayed has the same ones: it sends the same bytes. Another round has others.
    fn seeds(&mut self, encoding: &Encoding) -> Result<Seeds, Fault> {
        let rounding = MaskSeed::from(Secret::generate(&mut self.rng));
        if encoding.noise().is_none() {
            return Ok(rounding.into());
        }
        let root = root_secret(&self.setup.identity);
        let root = root.map_err(|error| Fault::caller(FaultKind::Input(error.to_string())))?;
        let fresh = Secret::generate(&mut self.rng);
        let noise = NoiseSeed::derive(fresh, &root, self.setup.round.context());
        Ok(Seeds::with_noise(rounding, noise))
    }

    fn advance(
        &mut self,
        client: &mut Option<Client>,
        selection: Option<&Selection>,
        clipped: &mut Option<Clipped>,
    ) -> Result<Answer, Fault> {
        let encoding = self.setup.round.encoding().clone();
        let seeds = self.seeds(&encoding)?;
        let refused = |e: EncodeError| Fault::caller(FaultKind::Input(e.to_string()));
        let (sparse, dense);
        let input: Option<&dyn Input> = match (&self.update, selection) {
            (None, _) => None,
            (Some(judged), Some(selection)) => {
                let words = selection.encoder(seeds).map_err(refused)?;
                *clipped = Some(selection.report().into());
                let words = words.with_metrics(judged.metrics());
                sparse = SparseInput::new(selection.places(), words);
                Some(&sparse)
            }
            (Some(judged), None) => {
                dense = judged.encoder(&encoding, seeds).map_err(refused)?;
                *clipped = Some(dense.report().into());
                Some(&dense)
            }
        };
        match (client.as_mut(), &self.message) {
            (Some(client), Some(message)) => client.answer(message, input, &mut self.rng),
            (Some(client), None) if client.latest().is_empty() => Ok(Answer::Old),
            (Some(client), None) => Ok(Answer::Send(client.latest().clone())),
            (None, _) => {
                let setup = ClientSetup {
                    round: self.setup.round.clone(),
                    me: self.setup.me,
                    identity: self.setup.identity.clone(),
                    vault: self.setup.vault.clone(),
                    servers: self.setup.servers.clone(),
                    memory: self.setup.memory.clone(),
                    prepared: self.setup.prepared.clone(),
                    guard: self.setup.guard.clone(),
                };
                let (started, answer) = Client::start(setup, input, &mut self.rng)?;
                *client = Some(started);
                Ok(answer)
            }
        }
    }
}

/// The mean out of the sum, and the model after it; `told` is the message that brought the sum.
pub(super) fn result(
    round: &Round,
    sum: &RoundSum,
    model: &Model,
    told: &[u8],
) -> Result<RoundResult, JobError> {
    // guard: results-have-their-names
    let name = || crate::result_name(round, told);
    let numbers = || match round.job().tells_parties() {
        true => Numbers::of(round, sum, model, told),
        false => Ok(Numbers::none(model)),
    };
    let (result, numbers) = crate::both(told.len(), name, numbers);
    let numbers = numbers?;
    let members = round.roster().members();
    let survivors = sum.survivors.iter().filter_map(|p| members.get(p.rank()));
    Ok(RoundResult {
        survivors: survivors.map(|member| member.name.clone()).collect(),
        contributors: contributors(round, sum),
        mean: numbers.mean,
        sums: numbers.sums,
        total_weight: numbers.total_weight,
        metrics: numbers.metrics,
        model: numbers.model,
        result,
        clipped: None,
        leftover: None,
        privacy: None,
        warnings: Vec::new(),
        timings: Timings::default(),
    })
}

/// How many parties sent each coordinate, `[dim]`, where rounds are sparse.
fn contributors(round: &Round, sum: &RoundSum) -> Option<Vec<u32>> {
    let dim = round.encoding().dim();
    let counts = sum.contributors.as_ref()?;
    Some(counts.iter().copied().take(dim).collect())
}

/// The numbers in a result.
struct Numbers {
    mean: Reals,
    sums: Option<Vec<u128>>,
    total_weight: u64,
    metrics: BTreeMap<String, MetricReport>,
    model: Model,
}

impl Numbers {
    /// Those of a party that is told no sum.
    fn none(model: &Model) -> Self {
        Self {
            mean: Reals::Double(Vec::new()),
            sums: None,
            total_weight: 0,
            metrics: BTreeMap::new(),
            model: model.clone(),
        }
    }

    fn of(round: &Round, sum: &RoundSum, model: &Model, told: &[u8]) -> Result<Self, JobError> {
        let in_words = |error: EncodeError| match error {
            EncodeError::Model { .. } => JobError::Model(error.to_string()),
            other => JobError::Coordinator(format!("no honest parties can have this sum: {other}")),
        };
        let (words, survivors) = (&sum.sum, sum.survivors.len());
        let decoded = Decoded::of(round, words, survivors, sum.contributors.as_deref());
        let decoded = decoded.map_err(in_words)?;
        let mut after = decoded.model_after(round, model).map_err(in_words)?;
        if round.job().hides_sum() {
            after = after.under_name_of(&model.named_after(told));
        }
        Ok(Self {
            sums: integer_sums(round, words, survivors).map_err(in_words)?,
            mean: decoded.mean,
            total_weight: decoded.total_weight,
            metrics: decoded.metrics,
            model: after,
        })
    }
}
