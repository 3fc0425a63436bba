//! The steps of a party that take long: encoding, masking, unmasking. They run on threads that may
//! block, and hand everything back.

use std::sync::Arc;
use std::time::Instant;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{EncodeError, Encoder};
use blindsum_protocol::{
    Answer, Client, ClientSetup, EncodingName, Fault, FaultKind, Input, Job, Message, Round,
    RoundSum,
};
use rand_chacha::ChaCha20Rng;

use super::state::StateFile;
use super::{IntegerResult, RoundResult, Timings, Update};
use crate::{Model, NetError};

/// Finds everything that can be wrong with an update before anything is sent.
pub(super) fn check_update(job: &Job, update: &Update, weight: u32) -> Result<(), NetError> {
    let unused = MaskSeed::from(Secret::from([0; 32]));
    Encoder::new(job.encoding(), update.values(), weight, unused)
        .map(|_| ())
        .map_err(|e| NetError::Input(e.to_string()))
}

/// What a step works on.
pub(super) struct Step {
    pub setup: ClientSetup,
    /// The machine; none before its first message.
    pub client: Option<Client>,
    /// The coordinator's message; none starts the machine.
    pub message: Option<Message>,
    pub update: Option<(Update, u32)>,
    pub state: Option<Arc<StateFile>>,
    pub rng: ChaCha20Rng,
}

/// What a step led to.
pub(super) struct Stepped {
    pub client: Option<Client>,
    pub answer: Result<Answer, Fault>,
    /// The machine's snapshot, where there is a state file and something to send.
    pub snapshot: Vec<u8>,
    /// How long the machine took.
    pub seconds: f64,
}

impl Step {
    /// Runs the machine.
    pub fn run(mut self) -> Stepped {
        let mut client = self.client.take();
        let clock = Instant::now();
        let answer = self.advance(&mut client);
        let seconds = clock.elapsed().as_secs_f64();
        let mut snapshot = Vec::new();
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
            seconds,
        }
    }

    fn advance(&mut self, client: &mut Option<Client>) -> Result<Answer, Fault> {
        let encoding = self.setup.round.encoding().clone();
        let mut encoder = match &self.update {
            None => None,
            Some((update, weight)) => {
                let seed = MaskSeed::from(Secret::generate(&mut self.rng));
                let refused = |e: EncodeError| Fault::caller(FaultKind::Input(e.to_string()));
                let encoder = Encoder::new(&encoding, update.values(), *weight, seed);
                Some(encoder.map_err(refused)?)
            }
        };
        let input = encoder.as_mut().map(|encoder| encoder as &mut dyn Input);
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
                    prepared: self.setup.prepared.clone(),
                };
                let (started, message) = Client::start(setup, input, &mut self.rng)?;
                *client = Some(started);
                Ok(Answer::Send(message))
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
) -> Result<RoundResult, NetError> {
    let job = round.job();
    let mut mean = vec![0.0f32; job.spec().dim as usize];
    let (encoding, survivors) = (round.encoding(), sum.survivors.len());
    let dishonest =
        |e: EncodeError| NetError::Coordinator(format!("the sum is none of honest parties: {e}"));
    let total_weight = encoding
        .decode_mean(&sum.sum, survivors, &mut mean)
        .map_err(dishonest)?;
    let integers = match job.spec().encoding {
        EncodingName::Quantised | EncodingName::Fixed64 => None,
        EncodingName::Integers => {
            let (mut sums, mut mean) = (vec![0; mean.len()], vec![0.0; mean.len()]);
            encoding
                .decode_sums(&sum.sum, survivors, &mut sums)
                .and_then(|_| encoding.decode_mean(&sum.sum, survivors, &mut mean))
                .map_err(dishonest)?;
            Some(IntegerResult { sums, mean })
        }
    };
    let update = job.spec().model_update;
    let mut after = model.after(&mean, survivors, update).map_err(dishonest)?;
    if job.hides_sum() {
        after = after.under_name_of(&model.named_after(told, update));
    }
    let members = round.roster().members();
    let survivors = sum.survivors.iter().filter_map(|p| members.get(p.rank()));
    Ok(RoundResult {
        survivors: survivors.map(|member| member.name.clone()).collect(),
        model: after,
        mean,
        integers,
        total_weight,
        timings: Timings::default(),
    })
}
