//! Before a round: the coordinator offers it, and the parties that are ready in time become its roster.

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::CertificateError;
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster, RosterError};
use blindsum_protocol::{Fault, KeyName, Round, RoundKind, Tag};
use tracing::{info, warn};

use super::bans::Out;
use super::face::{Choice, Input};
use super::job::Event;
use super::offered::{Joining, ReadyParty};
use super::phase::Phase;
use super::{Halt, Lead};
use crate::pb;
use crate::pb::party_frame::Frame;
use crate::report::RoundReport;
use crate::{foreign, seconds};

/// Rounds that are skipped at most where a party knows of later ones.
pub(super) const MAX_SKIPPED: u64 = 1000;

/// How long a coordinator that was started again waits for further parties, each time that one has come.
const COMING_BACK: Duration = Duration::from_millis(2500);

impl Lead {
    /// Offers the next round and collects its roster.
    pub(super) async fn join(&mut self, report: &mut RoundReport) -> Result<Arc<Round>, Halt> {
        let number = report.number;
        self.phase = Phase::Offered(Joining::new(number));
        self.models.sealed.round_offered();
        self.calls.offered(number);
        for (_, member) in self
            .members
            .iter()
            .filter(|(name, _)| self.calls.is_called(name))
        {
            let offer = self.models.offer(number, self.calls.tag());
            member.link.frame(offer.into());
        }
        info!(job = %self.context.name, round = number, connected = self.members.len(), "round offered");
        self.publish(Some(report.clone()));
        let collected = loop {
            let collected = match self.calls.is_hosted {
                true => self.collect_called(number).await,
                false => self.collect_ready(number).await,
            };
            // Time has gone by since they were ready.
            // guard: rosters-are-made-of-certificates-in-their-time
            if collected.is_err() || !self.expel_unfit() {
                break collected;
            }
        };
        let joining = self.phase.take_joining();
        collected?;
        let ready = self.wanted(number, joining);
        let (kind, ready) = self.choose_kind(number, ready);
        let ready = self.openable(number, kind, ready)?;
        let ready = self.choose_parties(number, ready);
        let roster = self.certify(number, ready)?;
        report.parties = roster.members().iter().map(|m| m.name.clone()).collect();
        let aborted = |fault: Fault| Halt::Aborted(fault.kind.to_string());
        let job = self.context.job().clone();
        let round = match kind {
            RoundKind::KeySetup => {
                let round = Round::key_setup(job, number, Arc::new(roster));
                round.map(|round| round.with_tag(self.calls.tag()))
            }
            RoundKind::Sum => {
                let numbers = job.numbers_for(roster.len()).map_err(aborted)?;
                let roster = match job.commits_nonces() {
                    true => self.open_nonces(number, roster, numbers).await?,
                    false => roster,
                };
                Round::told(
                    job,
                    number,
                    Arc::new(roster),
                    self.models.current.hash(),
                    numbers,
                )
                .map(|round| round.with_tag(self.calls.tag()))
                .and_then(|round| self.models.current.bind(round))
            }
        };
        let round = round.map_err(aborted)?;
        self.bounds.observe(&self.context.name, &round);
        Ok(Arc::new(self.remembering(round)))
    }

    /// Those that are ready, without those that sit out where there are enough others. Who is here and has said nothing
    /// is not waited for again; who asked for the model is.
    fn wanted(&mut self, number: u64, joining: Option<Joining>) -> Vec<ReadyParty> {
        let Some(joining) = joining else {
            return Vec::new();
        };
        let version = self.models.current.version();
        let members = self.members.iter();
        let late = members.filter(|(name, _)| joining.is_open(name) && self.calls.is_called(name));
        for (name, member) in late {
            self.bans.was_late(name, member.model_sent == Some(version));
        }
        let (least, is_hosted) = (self.context.least_roster(), self.calls.is_hosted);
        let (wanted, out) = self.bans.choose(joining.into_ready(), least, is_hosted);
        for party in out {
            let reason = self.bans.sits_out(&party.name);
            self.leave_out(number, &party.name, &reason.unwrap_or_default());
        }
        wanted
    }

    /// Until everybody is ready, or the deadline has passed and enough are. The job gives up where
    /// not enough can be, or where it takes too long.
    async fn collect_ready(&mut self, number: u64) -> Result<(), Halt> {
        let (least, most) = (
            self.context.least_roster(),
            self.context.spec().parties as usize,
        );
        let deadline = self.context.now() + seconds(self.operator.terms.join_deadline);
        let grace = self.context.parts.settings.reconnect_grace;
        loop {
            let now = self.context.now();
            let Some(joining) = self.phase.joining() else {
                return Ok(());
            };
            // Where there are not enough without them, those that should sit out take part.
            let sits_out = |name: &&Arc<str>| self.bans.sits_out(name).is_some();
            let out = joining.names().filter(sits_out).count();
            let is_lossy =
                |name: &&Arc<str>| sits_out(name) && self.bans.why_out(name) == Out::Lossy;
            let lossy = joining.names().filter(is_lossy).count();
            let all = joining.count();
            let ready = match now >= deadline {
                true => all,
                false => all - out,
            };
            // Nothing begins without the other servers and the root, which may have gone since the round was offered.
            let root = self.context.spec().root();
            let has_needed = self.members.has_needed(self.context.job())
                && root.is_none_or(|root| joining.has(root));
            // A choice is one of all that are here.
            let is_full = ready >= most && self.context.parts.settings.choice == Choice::First;
            if has_needed && (is_full || (ready >= least && now >= deadline)) {
                return Ok(());
            }
            let refused = joining.refused().count();
            if refused > 0 && self.members.len() - refused < least && now >= deadline {
                let reasons = joining.refusals();
                return Err(Halt::Aborted(format!("refused by parties: {reasons}")));
            }
            if now >= self.patience {
                return Err(match ready < least || has_needed {
                    true => self.out_of_patience("ready", ready),
                    false => Halt::Ended(self.members.lacks_needed(self.context.job())),
                });
            }
            // Once parties have met, whoever is there is whom to wait for; somebody who has just
            // gone gets the time to come back, and after a restart everybody does.
            let settled = match self.rounds.done_here {
                0 => self.members.changed() + COMING_BACK,
                _ => self.members.changed() + grace,
            };
            // Who waits for a model that nobody can seal who is ready cannot become ready, once everybody else is; but
            // for who has just refused one, whose word that it is ready without is on its way.
            let in_vain = |name: &str| self.models.sealed.waits_in_vain(name, joining.holders());
            let away = |name: &&Arc<str>| {
                joining.is_open(name) && (self.bans.is_slow(name) || in_vain(name))
            };
            let away = self.members.names().filter(away).count();
            // Those with which rounds were lost are in where it takes them, and nobody else is here to be waited for.
            let enough = ready >= least || all - out + lossy >= least;
            let everybody = enough && all + refused + away == self.members.len();
            // guard: campaign-no-waiting-for-the-absent
            let complete = everybody && self.rounds.met;
            if has_needed && complete && now >= settled {
                return Ok(());
            }
            let until = match (complete, now < deadline) {
                _ if !has_needed => self.patience,
                (true, true) => settled.min(deadline),
                (false, true) => deadline,
                (_, false) => self.patience,
            };
            if let Some(input) = self.next_input(Some(until)).await? {
                self.joining_input(number, input).await;
                self.may_begin()?;
            }
        }
    }

    pub(super) async fn joining_input(&mut self, number: u64, input: Input) {
        match self.handle(input).await {
            Some(Event::Frame {
                name,
                frame: Frame::Ready(ready),
            }) if ready.round == number && self.calls.is_called(&name) => self.ready(name, ready),
            Some(Event::Frame {
                name,
                frame: Frame::RoundRefused(refusal),
            }) if refusal.round == number => {
                let reason = foreign(&refusal.reason);
                if let Some(joining) = self.phase.joining_mut() {
                    // guard: a-refusal-is-one-line
                    if joining.refuses(&name, reason.clone()) {
                        warn!(job = %self.context.name, round = number, party = %name, %reason, "round refused");
                    }
                }
            }
            _ => {}
        }
    }

    fn ready(&mut self, name: Arc<str>, ready: pb::Ready) {
        let (said, not_said, what) = match self.context.job().commits_nonces() {
            true => (ready.commitment, ready.nonce, "commitment"),
            false => (ready.nonce, ready.commitment, "nonce"),
        };
        let Some(nonce) = said.try_into().ok().filter(|_| not_said.is_empty()) else {
            let reason = format!(
                "Ready: in this job it must have a {what} of 32 bytes, and of nonce and commitment nothing else"
            );
            return self.refuse(&name, &reason);
        };
        let key_id = ready.key_id;
        if !(key_id.is_empty() || key_id.len() == size_of::<KeyName>()) {
            return self.refuse(&name, "Ready: the key_id must have 0 or 16 bytes");
        }
        let tag = self.calls.tag();
        if (ready.tag, &ready.about) != (tag.map(|tag| tag.number), &Tag::about_bytes(tag)) {
            let reason = match (ready.tag, ready.about.is_empty()) {
                (None, _) => "its program knows of no tags of rounds: update it",
                (Some(_), true) if tag.is_some_and(|tag| Some(tag.number) == ready.tag) => {
                    "its program does not know what a round may be about: update it"
                }
                _ => "it is ready for another tag than that of the round",
            };
            self.calls.without(&name, reason);
            return self.members.tell_dropped(ready.round, &name, reason);
        }
        self.bans.is_ready(&name);
        self.calls.ready(&name);
        if let Some(joining) = self.phase.joining_mut() {
            joining.ready(ReadyParty {
                name,
                nonce,
                key_id,
                lacks_model: ready.lacks_model,
            });
        }
        self.models
            .sealed
            .ask(&self.context, &self.members, self.phase.joining());
        self.context.news();
    }

    /// The roster, in the order of names or, in a ring, of the places in it. Whoever cannot be certified stays out of it and is told why.
    fn certify(&mut self, round: u64, ready: Vec<ReadyParty>) -> Result<CertifiedRoster, Halt> {
        let most = self.context.spec().parties as usize;
        // As soon as so many are ready nobody else can be; but the root can not be left out.
        let root = self.context.spec().root();
        let (first, others): (Vec<_>, Vec<_>) = ready
            .into_iter()
            .partition(|party| Some(&*party.name) == root);
        let mut members: Vec<(Vec<u8>, Member)> = first
            .into_iter()
            .chain(others)
            .filter_map(|ReadyParty { name, nonce, .. }| {
                let member = self.members.get(&name)?;
                let place = self.context.job().place_of(&name, &member.location);
                let member = Member {
                    name: name.to_string(),
                    certificate: member.link.peer.certificate.to_vec(),
                    nonce,
                };
                Some((place, member))
            })
            .take(most)
            .collect();
        members.sort_by(|(one, a), (other, b)| (one, &a.name).cmp(&(other, &b.name)));
        let mut members: Vec<Member> = members.into_iter().map(|(_, member)| member).collect();
        let mut last = None;
        loop {
            let error = match Roster(members.clone())
                .certify(&self.context.parts.anchor, self.context.unix_seconds())
            {
                Ok(roster) => return Ok(roster),
                Err(error) => error,
            };
            let culprit = match &error {
                // The list is nobody's: whoever is asked about next fails by it too.
                RosterError::Certificate {
                    error: error @ CertificateError::RevocationListExpired { .. },
                    ..
                } => return Err(Halt::Aborted(error.to_string())),
                RosterError::Certificate { party, .. }
                | RosterError::WrongName { party, .. }
                | RosterError::DuplicateKey { party, .. }
                | RosterError::DuplicateName { party } => party.clone(),
                RosterError::Empty => {
                    let reason = last.unwrap_or_else(|| "nobody was ready in time".into());
                    return Err(Halt::Aborted(reason));
                }
                other => return Err(Halt::Aborted(other.to_string())),
            };
            if let RosterError::Certificate { error, .. } = &error
                && error.is_of_time()
            {
                self.certificates
                    .look_at_times(&self.context, &self.members);
            }
            warn!(job = %self.context.name, round, party = %culprit, %error, "left out of the roster");
            self.leave_out(round, &culprit, &error.to_string());
            members.retain(|member| member.name != culprit);
            last = Some(error.to_string());
        }
    }
}
