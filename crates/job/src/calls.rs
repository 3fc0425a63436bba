//! Rounds that a host begins: a program with rounds of its own, such as a framework for federated learning, says with
//! which parties, for which step, and is handed what comes of it.
//!
//! A job of a host ([`Parts::hosted`](crate::coordinator::Parts::hosted)) begins no round by itself. Its host *calls* one
//! ([`Call`]), of exactly the parties that it names. The coordinator waits for these and for nobody else; the others sit
//! the round out. Whom the host knows to have failed it reports, and nobody waits for these any more.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::certificate::check_name;
use blindsum_encode::Reals;
use blindsum_protocol::{Job, Tag};

use crate::Model;
use crate::report::{JobState, MetricReport};

/// A call, by a number that the program that drives the job gives it. No number comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A round that a host begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The host's number of the step that the round is of; none if it does not matter. A party that waits for one tag takes
    /// part in no round of another one. A call after a lost round may have the same tag.
    pub tag: Option<u64>,
    /// The hash of what the step is about, beside a tag, such as the model that the host sends the parties by its own way: it
    /// is bound in every key, and a party that knows it takes part in no round that is about something else.
    pub about: Option<[u8; 32]>,
    /// The names of the parties, from the job's smallest roster to `parties` of them, in any order.
    pub parties: Vec<String>,
    /// The values of the model that the round starts from, `[dim]`; none is the job's own.
    pub model: Option<Reals>,
    /// Seconds in which the parties may come and be ready; none is the job's `join_deadline`.
    pub join_within: Option<f64>,
    /// Seconds after which the call ends, with a sum or without; none leaves it to the job's deadlines.
    pub deadline: Option<f64>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallEnd {
    /// The round has a result.
    Sum(Box<CallSum>),
    /// There is no result; parties keep the model of before.
    Lost(CallLost),
}

/// The result of a round that a host called.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSum {
    /// The tag of the call.
    pub tag: Option<u64>,
    /// The number of the round.
    pub round: u64,
    /// The names of the parties whose updates are in the sum.
    pub survivors: Vec<String>,
    /// The weighted mean of their updates in the precision of the job, `[dim]`; none where the coordinator learns no sum.
    pub mean: Option<Reals>,
    /// The exact weighted sums of their integers, `[dim]`, if the job's encoding is of integers and the coordinator learns
    /// them.
    pub sums: Option<Vec<u128>>,
    /// The sum of their weights, where the coordinator learns it.
    pub total_weight: Option<u64>,
    /// The metrics of the job by their names, where the coordinator learns them.
    pub metrics: BTreeMap<String, MetricReport>,
    /// The parties that were called and are not in the sum, with the reasons.
    pub lost: BTreeMap<String, String>,
    /// The name of the result, in hexadecimal digits: that of the parties.
    pub result: String,
    /// The version of the model after the round.
    pub model_version: u64,
    /// Seconds from the offer of the round to its result.
    pub seconds: f64,
}

/// A call without a result.
#[derive(Clone, Debug, PartialEq)]
pub struct CallLost {
    /// The tag of the call.
    pub tag: Option<u64>,
    /// The number of the round; 0 where none was offered.
    pub round: u64,
    /// Why there is no result, with what to do where something can be done.
    pub reason: String,
    /// The parties that were lost, with the reasons.
    pub lost: BTreeMap<String, String>,
}

/// Why no round was begun. Nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The coordinator begins the rounds of this job by itself.
    #[error(
        "round of job {job}: no host begins its rounds: start its coordinator with hosted = true"
    )]
    NotHosted {
        /// The job.
        job: String,
    },
    /// Another round is under way.
    #[error("round of job {job}: one is under way: wait for its end, or call it off")]
    Busy {
        /// The job.
        job: String,
    },
    /// The job is over, or has failed.
    #[error("round of job {job}: the job is {}: {advice}", state.as_str())]
    Over {
        /// The job.
        job: String,
        /// How it stands.
        state: JobState,
        /// What to do.
        advice: &'static str,
    },
    /// An operator lets no round begin.
    #[error("round of job {job}: {why}: call it again when an operator has resumed the job")]
    Held {
        /// The job.
        job: String,
        /// Why.
        why: String,
    },
    /// No job has this name here.
    #[error(
        "round of job {job}: there is no such job here: `blindsum admin jobs` lists those that there are"
    )]
    UnknownJob {
        /// The name.
        job: String,
    },
    /// The coordinator stops.
    #[error("round of job {job}: its coordinator stops: call it when one is started again")]
    Stopping {
        /// The job.
        job: String,
    },
    /// A value breaks a rule.
    #[error("round: {field}: {rule}")]
    Value {
        /// The field of the [`Call`].
        field: &'static str,
        /// The rule, with the value and what to do.
        rule: String,
    },
}

impl CallError {
    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotHosted { .. } => "not-hosted",
            Self::Busy { .. } => "busy",
            Self::Over { .. } => "state",
            Self::Held { .. } => "held",
            Self::UnknownJob { .. } => "unknown-job",
            Self::Stopping { .. } => "stopping",
            Self::Value { .. } => "value",
        }
    }
}

/// The longest time of a call, in seconds.
const MAX_SECONDS: f64 = 1e6;

/// The largest tag: a whole number of every language.
const MAX_TAG: u64 = i64::MAX as u64;

impl Call {
    /// Its tag with what it is about.
    pub fn named_tag(&self) -> Option<Tag> {
        let about = self.about;
        self.tag.map(|number| Tag { number, about })
    }

    /// Checks what does not depend on how the job stands; gives the model that the round starts from, where there is one,
    /// as the version after `before`.
    ///
    /// # Errors
    /// [`CallError::Value`].
    pub fn check(&self, job: &Job, before: &Model) -> Result<Option<Model>, CallError> {
        let value = |field, rule: String| CallError::Value { field, rule };
        let (spec, least, given) = (job.spec(), job.least_roster(), self.parties.len());
        let most = spec.parties as usize;
        if !(least..=most).contains(&given) {
            let rule = format!(
                "{least} <= {given} names <= parties = {most}: a round of this job takes no fewer and no more"
            );
            return Err(value("parties", rule));
        }
        if let Some(tag) = self.tag.filter(|tag| *tag > MAX_TAG) {
            let rule = format!("0 <= tag = {tag} <= 2^63 - 1: count the steps in whole numbers");
            return Err(value("tag", rule));
        }
        if self.about.is_some() && self.tag.is_none() {
            let rule = "needs a tag: give the step a number".to_owned();
            return Err(value("about", rule));
        }
        let mut names = BTreeSet::new();
        if let Some(wrong) = self.parties.iter().find(|name| check_name(name).is_err()) {
            let rule = format!(
                "{:?} is no name of a certificate: small letters, digits, hyphens and points",
                crate::foreign(wrong)
            );
            return Err(value("parties", rule));
        }
        if let Some(twice) = self
            .parties
            .iter()
            .find(|name| !names.insert(name.as_str()))
        {
            let rule = format!(
                "{:?} is named twice: name each party once",
                crate::foreign(twice)
            );
            return Err(value("parties", rule));
        }
        if let Some(root) = spec.root().filter(|root| !names.contains(root)) {
            let rule = format!(
                "must have the party {root}: the others' vectors are compared with its own"
            );
            return Err(value("parties", rule));
        }
        for (field, seconds) in [
            ("join_within", self.join_within),
            ("deadline", self.deadline),
        ] {
            if let Some(seconds) =
                seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= MAX_SECONDS))
            {
                let rule = format!("0 < {field} = {seconds} <= {MAX_SECONDS} seconds");
                return Err(value(field, rule));
            }
        }
        let Some(values) = &self.model else {
            return Ok(None);
        };
        let given = Model::given(job, before, values.clone());
        given.map(Some).map_err(|rule| value("model", rule))
    }
}
