//! The round that a party is in.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster};
use blindsum_encode::Judged;
use blindsum_protocol::{
    Client, Job, Message, PartyId, Plan, Prepared, Round, RoundParameters, ServerRole, Tag,
};

use super::certificates::Certificates;
use super::guard::Guard;
use super::metrics::Reported;
use super::past::Past;
use super::policy::Cohort;
use super::result::{Clipped, RoundResult, Timings};
use crate::chunks::Assembly;
use crate::error::wrong;
use crate::machine::Time;
use crate::orders::Terms;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, Model, seconds};

/// Time beyond the deadlines of a round for its messages to arrive.
const SLACK: f64 = 30.0;

/// A round under way at a party.
pub(super) struct Active {
    pub number: u64,
    pub round: Arc<Round>,
    pub me: PartyId,
    /// The model that it starts from; none in a key set-up of a party that cannot read it yet.
    pub model: Option<Model>,
    /// The machine; none before it has started, and while a step runs.
    pub client: Option<Client>,
    /// How the machine came to where it is; kept where the party may be suspended.
    pub past: Option<Past>,
    /// Whether its update was out when the machine was taken away the last time.
    pub out: bool,
    /// Other servers that have not taken their part of the latest answer yet; none before they are given any.
    pub uploading: Option<BTreeSet<ServerRole>>,
    /// A message of the coordinator that is being received: its stage and its bytes so far.
    pub receiving: Option<(u32, Assembly)>,
    /// A message that waits for the caller's update.
    pub held: Option<Message>,
    /// The caller's update, once it is there.
    pub update: Option<Judged>,
    /// What clipping did to the caller's update, once it was sent.
    pub clipped: Option<Clipped>,
    /// What the caller is warned of, about the bounds of the round.
    pub warnings: Vec<String>,
    /// The metrics that the caller reports.
    pub reported: Reported,
    /// The result, while the coordinator's word on the model is awaited.
    pub computed: Option<RoundResult>,
    /// Whether the caller does not want the result.
    pub unwanted: bool,
    /// Whether a key set-up has given this party the key of the job.
    pub holds_key: bool,
    /// When something may be computed ahead; none while the party does not wait, and once that is done.
    pub idle_from: Option<Time>,
    /// What was computed ahead of the machine's start.
    pub prepared: Arc<Prepared>,
    /// What the machine asks about survivors.
    pub guard: Arc<Guard>,
    pub timings: Timings,
    /// When the round cannot give a result any more.
    pub deadline: Time,
}

impl Active {
    /// The stage behind that of the coordinator's latest message that was heard; 0 before the first.
    pub fn heard(&self) -> u32 {
        self.client
            .as_ref()
            .map_or(0, |client| client.heard().into())
    }

    /// The stage of the latest answer; none before the first.
    pub fn answered(&self) -> Option<u8> {
        self.client.as_ref()?.stage()
    }

    /// The stage in which this party's answer carries its vector.
    pub fn input_stage(&self) -> Option<u8> {
        self.round.plan().input_stage_of(self.me)
    }

    /// Whether this is a key set-up with this number that has given the party the key.
    pub fn is_over(&self, number: u64) -> bool {
        self.number == number && self.holds_key
    }

    /// Whether its update is on its way: the coordinator may count it, and knows the result then.
    pub fn may_count(&self) -> bool {
        let input = self.input_stage();
        self.out || (input.is_some() && self.answered() >= input)
    }

    /// Whether its update has left this party. The coordinator has nothing of it before other servers have their parts.
    pub fn is_out(&self) -> bool {
        let uploads = self.uploading.as_ref();
        let waits = uploads.is_some_and(|missing| !missing.is_empty());
        // guard: an-update-whose-parts-wait-is-not-out
        self.out || (self.may_count() && !waits)
    }

    /// Takes the machine away for a while. What it knows of the update is noted first: it may not come back.
    pub fn take_client(&mut self) -> Option<Client> {
        // guard: work-ahead-notes-that-an-update-is-out
        self.out = self.is_out();
        self.client.take()
    }

    /// Whether the caller's update is here already, or out.
    pub fn has_update(&self) -> bool {
        self.update.is_some() || self.may_count()
    }

    /// Whether its latest answer is the one that carries its vector.
    pub fn says_vector(&self) -> bool {
        let input = self.input_stage();
        input.is_some() && self.answered() == input
    }

    /// The connection has ended: what has come of a message will come again.
    pub fn connection_lost(&mut self) {
        self.receiving = None;
    }

    /// The coordinator gets time to tell what became of the round meanwhile.
    pub fn connected_again(&mut self, now: Time) {
        self.deadline = self.deadline.max(now + seconds(SLACK));
    }

    /// Whether the machine has done all it does: the coordinator's word on the end is awaited.
    pub fn has_result(&self) -> bool {
        self.computed.is_some() || self.holds_key
    }

    /// Whether a message can be answered without the caller's update.
    pub fn answers_now(&self, message: &[u8]) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| !client.takes_input_with(message))
    }

    /// Whether the next step of the machine needs the caller's update.
    pub fn needs_update(&self) -> bool {
        match &self.client {
            None => self.input_stage() == Some(0),
            Some(client) => client.needs_input(),
        }
    }
}

/// When a round that begins now has passed all its deadlines.
pub(super) fn deadline(round: &Round, terms: &Terms, now: Time) -> Time {
    let whole = |plan: &Plan| {
        let answers: f64 = plan.answers().map(|step| terms.deadline(Some(step))).sum();
        let reply = plan.replies().last();
        answers + reply.map_or(0.0, |step| terms.deadline(Some(step)))
    };
    let setup = round.job().key_setup_plan().map_or(0.0, whole);
    now + seconds(whole(round.job().plan()).max(setup) + SLACK)
}

/// Finds the certificates of a roster and checks every one of them. The round has the clipping bounds that
/// follow from the model, where it is here.
pub(crate) fn certified_round(
    start: &pb::RoundStart,
    job: &Arc<Job>,
    anchor: &TrustAnchor,
    certificates: &Certificates,
    model: Option<&Model>,
    unix_seconds: u64,
) -> Result<Round, JobError> {
    let number = start.round;
    let refused = |reason: &str| wrong(format!("round {number}: {reason}"));
    let name = start.model.as_ref();
    let name = name.ok_or_else(|| refused("RoundStart names no model"))?;
    let hash = <[u8; 32]>::try_from(name.hash.as_slice())
        .map_err(|_| refused("the hash of the model must have 32 bytes"))?;
    let roster = certified_roster(start, job, anchor, certificates, unix_seconds);
    let roster = roster.map_err(|untrusted| match untrusted {
        Untrusted::OutOfTime(reason) => JobError::OutOfTime {
            round: number,
            reason,
        },
        Untrusted::Wrong(reason) => refused(&reason),
    })?;
    let (job, roster) = (job.clone(), Arc::new(roster));
    let numbers = start
        .numbers
        .as_ref()
        .map_or_else(RoundParameters::default, RoundParameters::from);
    let tag = Tag::read(start.tag, &start.about).map_err(|reason| refused(&reason))?;
    let round = match start.kind() {
        pb::RoundKind::KeySetup if numbers != RoundParameters::default() => {
            return Err(refused("the numbers of a key set-up must be 0"));
        }
        pb::RoundKind::KeySetup => {
            Round::key_setup(job, number, roster).map(|round| round.with_tag(tag))
        }
        pb::RoundKind::Sum => {
            let round = Round::told(job, number, roster, &hash, numbers);
            let round = round.map(|round| round.with_tag(tag));
            round.and_then(|round| match model {
                None => Ok(round),
                Some(model) => model.bind(round),
            })
        }
    };
    round.map_err(|fault| JobError::Fault {
        round: number,
        fault,
    })
}

/// What the coordinator is told of a beginning of a round that is refused: a clock that is wrong is nobody's fault.
pub(crate) fn refusal_code(error: &JobError) -> RoundRefusalCode {
    match error {
        JobError::OutOfTime { .. } => RoundRefusalCode::RoundRefusalUnable,
        JobError::Policy(_) => RoundRefusalCode::RoundRefusalPolicy,
        _ => RoundRefusalCode::RoundRefusalFault,
    }
}

/// Why a roster is not trusted.
enum Untrusted {
    /// A certificate in it is not in its time by the clock here.
    OutOfTime(String),
    /// The coordinator sent what it must not send.
    Wrong(String),
}

impl From<&str> for Untrusted {
    fn from(reason: &str) -> Self {
        Self::Wrong(reason.into())
    }
}

/// The members of a round with their certificates, every one of them checked.
fn certified_roster(
    start: &pb::RoundStart,
    job: &Job,
    anchor: &TrustAnchor,
    certificates: &Certificates,
    unix_seconds: u64,
) -> Result<CertifiedRoster, Untrusted> {
    let mut members = Vec::with_capacity(start.roster.len());
    for participant in &start.roster {
        let fingerprint = <[u8; 32]>::try_from(participant.fingerprint.as_ref())
            .map_err(|_| "a fingerprint must have 32 bytes")?;
        let nonce = <[u8; 32]>::try_from(participant.nonce.as_ref())
            .map_err(|_| "a nonce must have 32 bytes")?;
        let certificate = certificates
            .get(&fingerprint)
            .ok_or("a certificate of the roster was never sent")?;
        let party = anchor
            .verify_party(certificate, unix_seconds)
            .map_err(|error| untrusted(&error, anchor.signed_name(certificate)))?;
        members.push(Member {
            name: party.name,
            certificate: certificate.clone(),
            nonce,
        });
    }
    let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
    // guard: rosters-in-the-order-of-names
    if !job.is_in_order(&names) {
        return Err("the roster is not in the order of the job".into());
    }
    Roster(members)
        .certify(anchor, unix_seconds)
        .map_err(|error| Untrusted::Wrong(error.to_string()))
}

/// Why a member with this certificate is not trusted. `name` is that in it, where the CA has signed it.
fn untrusted(error: &CertificateError, name: Option<String>) -> Untrusted {
    let out_of_time = name.and_then(|name| error.out_of_time(&name));
    match out_of_time {
        // guard: certificates-signed-by-the-ca-stay-when-a-clock-is-wrong
        Some(reason) => Untrusted::OutOfTime(reason),
        None => Untrusted::Wrong(format!("a member of the roster cannot be trusted: {error}")),
    }
}

/// The names of a round's parties.
pub(super) fn cohort(round: &Round) -> Cohort {
    let members = round.roster().members().iter();
    members.map(|member| member.name.clone()).collect()
}
