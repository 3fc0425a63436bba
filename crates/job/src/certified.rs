//! What begins a round, once every certificate of its members was verified.

use std::sync::Arc;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster};
use blindsum_protocol::{Job, Round, RoundParameters, Tag};

use crate::connection::Certificates;
use crate::error::wrong;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, Model};

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
            let round = Round::announced(job, number, roster, &hash, numbers);
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
