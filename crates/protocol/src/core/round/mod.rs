//! One aggregation: what it is bound to, and below, the stages of its protocol for each who takes part.

mod in_words;
mod machines;
mod nonce;
mod setup;
pub(crate) mod stages;
mod sum;
mod tag;

pub use machines::FollowerSetup;
pub(crate) use machines::{Machines, MakeMachines, OtherServer, StartFollower};
pub use nonce::nonce_commitment;
pub(crate) use setup::{Ahead, Starter};
pub use setup::{ClientSetup, Prepared};
pub(crate) use stages::{
    Bodies, ClientStage, ClientStep, FollowerStage, InputRef, Relayed, ServerStage, ServerStep,
};
pub use stages::{Excuse, Piece};
pub(crate) use sum::Signed;
pub use sum::{InTheClear, RoundSum};
pub use tag::Tag;

use std::sync::{Arc, OnceLock};

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::roster::CertifiedRoster;
use blindsum_encode::{EncodeError, Encoding, MetricSum, Real, VoidMetric};
use blindsum_math::words::Words;

use crate::core::plan::Plan;
use crate::{
    AnyRelease, Fault, FaultKind, Job, NotOpened, PartyId, PartySet, ReleaseGuard, RoundKind,
    RoundParameters, ServerRole,
};

/// One aggregation: a job, a number that is never used again, the certified parties in order, and the model that
/// everybody starts from. The machines of parties and servers are made from it.
pub struct Round {
    job: Arc<Job>,
    kind: RoundKind,
    number: u64,
    numbers: RoundParameters,
    roster: Arc<CertifiedRoster>,
    context: Context,
    key_context: Context,
    encoding: Arc<Encoding>,
    plan: Plan,
    /// The step of the host that called the round, where a host chose one.
    tag: Option<Tag>,
    /// How many sums the model has that the round starts from; none where that is not known.
    sums_before: Option<u64>,
    /// What this process, if it is a server that opens results, knows of earlier ones.
    releases: Arc<dyn ReleaseGuard>,
    /// Made when they are first needed.
    machines: OnceLock<Arc<dyn Machines>>,
}

impl Round {
    /// A round with the numbers that a coordinator chooses; otherwise as [`announced`](Self::announced).
    ///
    /// # Errors
    /// A roster larger than `parties` or smaller than `min_parties`.
    pub fn new(
        job: Arc<Job>,
        number: u64,
        roster: Arc<CertifiedRoster>,
        model_hash: &[u8; 32],
    ) -> Result<Self, Fault> {
        let numbers = job.round_parameters_for(roster.len())?;
        Self::announced(job, number, roster, model_hash, numbers)
    }

    /// A round with the parameters that the coordinator has announced. Its context is `H("blindsum round"; job hash,
    /// number, roster hash, model hash, numbers)`: two parties that received different announcements derive different
    /// keys, and messages of one are useless to the other.
    ///
    /// # Errors
    /// A roster larger than `parties` or smaller than `min_parties`; [`FaultKind::Number`] for numbers that break a
    /// rule of [`check_parameters`](Job::check_parameters).
    pub fn announced(
        job: Arc<Job>,
        number: u64,
        roster: Arc<CertifiedRoster>,
        model_hash: &[u8; 32],
        numbers: RoundParameters,
    ) -> Result<Self, Fault> {
        job.check_roster_size(roster.len())?;
        // guard: numbers-are-checked
        job.check_parameters(roster.len(), numbers)
            .map_err(Fault::server)?;
        // guard: the-model-is-in-the-context, numbers-are-in-the-context
        let bound: [&[u8]; 2] = [model_hash, &numbers.to_bytes()];
        Self::of(RoundKind::Sum, job, number, roster, numbers, &bound)
    }

    /// A key set-up. Its context is `H("blindsum key set-up"; job hash, number, roster hash)`.
    ///
    /// # Errors
    /// As [`new`](Self::new); a protocol whose parties share no key.
    pub fn key_setup(
        job: Arc<Job>,
        number: u64,
        roster: Arc<CertifiedRoster>,
    ) -> Result<Self, Fault> {
        if !job.hides_sum() {
            let rule = format!("parties of {} share no key", job.spec().protocol);
            return Err(Fault::server(FaultKind::Parameters(rule)));
        }
        job.check_roster_size(roster.len())?;
        let none = RoundParameters::default();
        Self::of(RoundKind::KeySetup, job, number, roster, none, &[])
    }

    fn of(
        kind: RoundKind,
        job: Arc<Job>,
        number: u64,
        roster: Arc<CertifiedRoster>,
        numbers: RoundParameters,
        bound: &[&[u8]],
    ) -> Result<Self, Fault> {
        let (number_bytes, roster_hash) = (number.to_be_bytes(), roster.hash());
        // guard: the-job-and-roster-are-in-the-context
        let mut parts: Vec<&[u8]> = vec![job.hash(), &number_bytes, &roster_hash];
        parts.extend(bound);
        let context = Context(kdf::hash(kind.label(), &parts));
        Ok(Self {
            encoding: job.encoding().clone(),
            plan: job.plan_of(kind, roster.len()),
            releases: Arc::new(AnyRelease),
            job,
            kind,
            number,
            numbers,
            roster,
            context,
            key_context: context,
            tag: None,
            sums_before: None,
            machines: OnceLock::new(),
        })
    }

    /// The same round for this step of a host; none leaves it as it is. The context becomes
    /// `H("blindsum tag"; context, number, about)`, the number as 8 bytes, big-endian, and `about` where it is said: parties
    /// that were told different steps, or that a step is about something else, derive different keys. The bounds of
    /// [`with_clips`](Self::with_clips) come after it.
    #[must_use]
    pub fn with_tag(mut self, tag: Option<Tag>) -> Self {
        let Some(tag) = tag else {
            return self;
        };
        let number = tag.number.to_be_bytes();
        // guard: the-step-is-in-the-context
        let mut parts: Vec<&[u8]> = vec![&self.context.0, &number];
        // guard: what-a-step-is-about-is-in-the-context
        parts.extend(tag.about.as_ref().map(<[u8; 32]>::as_slice));
        self.context = Context(kdf::hash("blindsum tag", &parts));
        self.key_context = self.context;
        self.tag = Some(tag);
        self.machines = OnceLock::new();
        self
    }

    /// The same round with other clipping bounds, one for each tensor, found from earlier rounds. If they differ from
    /// the job's, the context becomes `H("blindsum clips"; context, bounds)`, each bound as the 8 bytes of a double: a
    /// party that computed other bounds derives other keys. A coordinator that learns no sums does not know the bounds:
    /// then the context stays, and only the [key context](Self::key_context) changes.
    ///
    /// # Errors
    /// More or fewer bounds than the job has tensors, or a bound that no encoding may have.
    pub fn with_clips(mut self, clips: &[f64]) -> Result<Self, Fault> {
        let encoding = self
            .encoding
            .with_clips(clips)
            .map_err(|e| Fault::caller(FaultKind::Parameters(e.to_string())))?;
        if encoding == *self.encoding {
            return Ok(self);
        }
        let clips: Vec<[u8; 8]> = clips.iter().map(|clip| clip.to_be_bytes()).collect();
        let mut parts: Vec<&[u8]> = vec![&self.context.0];
        parts.extend(clips.iter().map(<[u8; 8]>::as_slice));
        // guard: clips-are-in-the-key-context, clips-are-in-the-context
        self.key_context = Context(kdf::hash("blindsum clips", &parts));
        if !self.job.hides_sum() {
            self.context = self.key_context;
        }
        self.encoding = Arc::new(encoding);
        self.machines = OnceLock::new();
        Ok(self)
    }

    /// The same round from a model that has so many sums. It decides how many coordinates a party sends in sparse rounds.
    #[must_use]
    pub fn after_sums(mut self, sums: u64) -> Self {
        self.sums_before = Some(sums);
        self
    }

    /// How many sums there were before this round: those of the model that it starts from, if that is known, or else as many as
    /// rounds have numbers before this one.
    pub fn sums_before(&self) -> u64 {
        self.sums_before
            .unwrap_or_else(|| self.number.saturating_sub(1))
    }

    /// The same round with the memory of a server that computes together with others. Without it every set of survivors is
    /// opened.
    #[must_use]
    pub fn with_releases(mut self, releases: Arc<dyn ReleaseGuard>) -> Self {
        self.releases = releases;
        self
    }

    /// Whether the result of these survivors may be opened.
    ///
    /// # Errors
    /// [`FaultKind::NotOpened`].
    pub(crate) fn check_release(&self, survivors: &PartySet) -> Result<(), Fault> {
        not_opened(self.releases.check(survivors))
    }

    /// Records that the result of these survivors is opened; the first byte of it may be sent then.
    ///
    /// # Errors
    /// [`FaultKind::NotOpened`].
    pub(crate) fn record_release(&self, survivors: &PartySet) -> Result<(), Fault> {
        not_opened(self.releases.record(survivors))
    }

    /// The job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// How the vectors of this round are encoded: as the job says, with the bounds of [`Round::with_clips`].
    pub fn encoding(&self) -> &Arc<Encoding> {
        &self.encoding
    }

    /// Decodes the result of the round, of `survivors` parties, where all coordinates are sent: writes the mean of their
    /// vectors, by the rule of the job, to `mean`, `[dim]`, and gives their total weight.
    ///
    /// # Errors
    /// As [`Encoding::decode_mean`].
    pub fn decode_mean<R: Real>(
        &self,
        sum: &Words,
        survivors: usize,
        mean: &mut [R],
    ) -> Result<u64, EncodeError> {
        let results = self.job.spec().info().results;
        let signed = results.and_then(|results| (results.signed)(&self.job, sum));
        let Some(signed) = signed else {
            return self.encoding.decode_mean(sum, survivors, mean);
        };
        let Signed { factor, offset } = signed;
        self.encoding.decode_signed(sum, (factor, offset), mean)?;
        Ok(survivors as u64)
    }

    /// The sums of the metrics in the result of the round, of `survivors` parties, in the order of the job. A sparse round
    /// opens the words with `is_open`: a metric whose words are not opened is one that nobody reported. A metric is void if no
    /// parties of the protocol have its words.
    ///
    /// # Errors
    /// As [`Encoding::metric_sums`].
    pub fn metric_sums(
        &self,
        sum: &Words,
        survivors: usize,
        is_open: impl Fn(usize) -> bool,
    ) -> Result<Vec<Result<MetricSum, VoidMetric>>, EncodeError> {
        let total_weight = match self.is_sum() {
            true => self.encoding.total_weight(sum, survivors)?,
            false => survivors as u64,
        };
        let first = sum.len().saturating_sub(self.encoding.metric_words());
        let opened = |lane| if is_open(lane) { sum.get(lane) } else { 0 };
        let words: Vec<u64> = (first..sum.len()).map(opened).collect();
        self.encoding.metric_sums_of(&words, total_weight)
    }

    /// The mean that the rule of the job makes of the vectors of these parties, from what each encoded, without any
    /// protection: to compare results with. None where the result is the sum of what they encoded.
    pub fn in_the_clear(&self, encoded: &[(PartyId, Words)]) -> Option<InTheClear> {
        let results = self.job.spec().info().results?;
        (results.in_the_clear)(self, encoded)
    }

    /// Whether the result is the sum of what the parties encoded.
    pub fn is_sum(&self) -> bool {
        let results = self.job.spec().info().results;
        results.is_none_or(|results| (results.is_sum)(&self.job))
    }

    /// What the round is for.
    pub fn kind(&self) -> RoundKind {
        self.kind
    }

    /// What may happen in the round, with the parties that it has.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The machines of the round; those that share it share what they derive from it.
    pub(crate) fn machines(&self) -> Result<Arc<dyn Machines>, Fault> {
        if let Some(made) = self.machines.get() {
            return Ok(made.clone());
        }
        let info = self.job.spec().info();
        let make = match ((info.key_setup)(self.job.spec()), self.kind) {
            (Some(setup), RoundKind::KeySetup) => setup.machines,
            _ => info.machines,
        };
        let made = make(self)?;
        Ok(self.machines.get_or_init(|| made).clone())
    }

    fn other_servers(&self) -> &'static [OtherServer] {
        match self.kind {
            RoundKind::Sum => self.job.spec().info().servers,
            RoundKind::KeySetup => &[],
        }
    }

    /// The servers that the round needs in addition to the coordinator.
    pub fn servers(&self) -> impl Iterator<Item = ServerRole> + use<> {
        self.other_servers().iter().map(|server| server.role)
    }

    /// The machine of a server that is not the coordinator; none where the round needs no such server.
    pub(crate) fn follower(&self, role: ServerRole) -> Option<StartFollower> {
        let server = (self.other_servers().iter()).find(|server| server.role == role)?;
        Some(server.follow)
    }

    /// The number of the round.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The numbers of neighbours, shares and words in a polynomial; all 0 in a key set-up.
    pub fn parameters(&self) -> RoundParameters {
        self.numbers
    }

    /// The step of the host that called the round; none where no host chose one.
    pub fn tag(&self) -> Option<Tag> {
        self.tag
    }

    /// The parties, in order.
    pub fn roster(&self) -> &Arc<CertifiedRoster> {
        &self.roster
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.roster.len()
    }

    /// The context from which every key and signature of the round is derived.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The context from which the parties derive keys that the coordinator does not have. It includes the clipping
    /// bounds of the round even if only the parties know them.
    pub fn key_context(&self) -> &Context {
        &self.key_context
    }

    /// Everybody in the roster.
    pub fn everyone(&self) -> impl Iterator<Item = PartyId> + use<> {
        (0..self.roster.len() as u32).map(PartyId)
    }
}

fn not_opened(answer: Result<(), NotOpened>) -> Result<(), Fault> {
    answer.map_err(|NotOpened { round, reason }| {
        Fault::nobody(FaultKind::NotOpened { round, reason })
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Cohort;
    use crate::{JobSpec, ProtocolName, Quantised, TensorLayout};

    use super::*;

    fn round() -> Round {
        let tensor = |len, clip| TensorLayout {
            name: String::new(),
            len,
            clip,
        };
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: 3,
            dim: 5,
            encoding: Quantised {
                tensors: vec![tensor(2, 1.0), tensor(3, 0.5)],
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let cohort = Cohort::new(spec, 1);
        let Round { job, roster, .. } = &*cohort.round;
        Round::new(job.clone(), 7, roster.clone(), &[9; 32]).unwrap()
    }

    #[test]
    fn other_bounds_are_another_context() {
        let plain = round();
        assert_eq!(plain.encoding(), plain.job().encoding());
        let same = round().with_clips(&[1.0, 0.5]).unwrap();
        assert_eq!(same.context(), plain.context());
        let narrow = round().with_clips(&[1.0, 0.25]).unwrap();
        let other = round().with_clips(&[0.25, 0.5]).unwrap();
        assert_ne!(narrow.context(), plain.context());
        assert_ne!(narrow.context(), other.context());
        let clips: Vec<f64> = narrow.encoding().tensors().map(|(_, clip)| clip).collect();
        assert_eq!(clips, [1.0, 0.25]);
        assert_eq!(narrow.encoding().width(), plain.encoding().width());
    }

    /// Abuse case 46: parties that were told different numbers have no keys in common.
    #[test]
    fn case_46_other_numbers_are_another_context() {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            parties: 6,
            dim: 5,
            ..JobSpec::default()
        };
        let cohort = Cohort::new(spec, 1);
        let Round { job, roster, .. } = &*cohort.round;
        let told = |threshold| {
            let [neighbours, _, packing] = cohort.round.parameters().words();
            let numbers = RoundParameters::from_words([neighbours, threshold, packing]);
            let (job, roster) = (job.clone(), roster.clone());
            Round::announced(job, 7, roster, &[9; 32], numbers).unwrap()
        };
        let chosen = cohort.round.parameters().words()[1];
        assert_eq!(told(chosen).context(), told(chosen).context());
        assert_ne!(told(chosen).context(), told(chosen + 1).context());
    }

    #[test]
    fn bounds_that_are_none_are_refused() {
        for clips in [&[1.0][..], &[1.0, f64::NAN], &[0.0, 1.0]] {
            let fault = round().with_clips(clips).err().unwrap();
            assert!(matches!(fault.kind, FaultKind::Parameters(_)), "{fault}");
        }
    }

    #[test]
    fn machines_are_shared_until_the_round_changes() {
        let before = round();
        let made = before.machines().unwrap();
        assert!(Arc::ptr_eq(&made, &before.machines().unwrap()));
        let narrow = before.with_clips(&[0.5, 0.5]).unwrap();
        assert!(!Arc::ptr_eq(&made, &narrow.machines().unwrap()));
    }
}
