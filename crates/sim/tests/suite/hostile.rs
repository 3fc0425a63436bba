//! Liars in the middle, for any protocol: what they say costs them their place and nobody else anything.

use std::sync::Arc;

use blindsum_protocol::{
    Adversary, Culprit, Fault, FaultKind, Message, PartyId, Round, SurvivorListError,
};
use blindsum_sim::{Action, Cohort, Hooks, PartyEnd, Scenario};

use crate::support::{answered, jobs, name, played, simulate_with, small, some, told};

const LIAR: PartyId = PartyId(3);

/// A party that changes its answer of one stage, in the first round that begins: another one may begin without it.
struct Changes<F> {
    stage: u8,
    change: F,
    begun: u32,
}

impl<F: FnMut(&Message) -> Action + Send> Hooks for Changes<F> {
    fn begin(&mut self, _: &Arc<Round>, _: &Arc<Cohort>) {
        self.begun += 1;
    }

    fn client_says(&mut self, stage: u8, from: PartyId, message: &Message) -> Action {
        match (stage, from, self.begun) == (self.stage, LIAR, 1) {
            true => (self.change)(message),
            false => Action::Deliver,
        }
    }
}

/// Runs every protocol and every stage with one party's answer changed; the others get their sum, and
/// the server knows who sent what.
fn costs_the_liar_only(change: fn(&Message) -> Action, expected: fn(&FaultKind) -> bool) {
    for job in jobs(&small()) {
        for stage in some(&job, answered(&job)) {
            let mut hooks = Changes {
                stage,
                change,
                begun: 0,
            };
            let run = simulate_with(Scenario::new(job.clone()), &mut hooks);
            let what = format!("{} at stage {stage}", name(&job));
            let outcome = run
                .last
                .outcome
                .as_ref()
                .unwrap_or_else(|fault| panic!("{what}: {fault}"));
            let named =
                |fault: &Fault| fault.culprit == Culprit::Party(LIAR) && expected(&fault.kind);
            assert!(
                run.last.refused.iter().any(named),
                "{what}: {:?}",
                run.last.refused
            );
            assert!(outcome.faults.iter().any(named), "{what}");
            let others = (0..8).map(PartyId).filter(|party| *party != LIAR);
            assert!(
                others
                    .clone()
                    .all(|party| outcome.survivors.contains(party)),
                "{what}"
            );
        }
    }
}

#[test]
fn case_27_truncated_messages() {
    costs_the_liar_only(
        |message| Action::Replace(message[..message.len() - 1].to_vec()),
        |kind| matches!(kind, FaultKind::Malformed { .. }),
    );
}

#[test]
fn case_27_trailing_bytes() {
    costs_the_liar_only(
        |message| Action::Replace([message, &[0u8] as &[u8]].concat()),
        |kind| matches!(kind, FaultKind::Malformed { .. }),
    );
}

#[test]
fn case_27_empty_message() {
    costs_the_liar_only(
        |_| Action::Replace(Vec::new()),
        |kind| matches!(kind, FaultKind::Malformed { field: "frame", .. }),
    );
}

#[test]
fn case_27_other_version() {
    costs_the_liar_only(
        |message| Action::Replace(changed(message, 0)),
        |kind| matches!(kind, FaultKind::Version { .. }),
    );
}

#[test]
fn case_28_other_round() {
    costs_the_liar_only(
        |message| Action::Replace(changed(message, 5)),
        |kind| *kind == FaultKind::OtherRound,
    );
}

#[test]
fn case_28_other_stage() {
    costs_the_liar_only(
        |message| Action::Replace(changed(message, 1)),
        |kind| {
            matches!(
                kind,
                FaultKind::OtherStage { .. } | FaultKind::Conflicting { .. }
            )
        },
    );
}

/// The second of two different answers is refused, the first one counts.
#[test]
fn case_28_second_answer_differs() {
    for job in jobs(&small()) {
        for stage in some(&job, answered(&job)) {
            let change = |message: &Message| {
                Action::Send(vec![
                    message.clone(),
                    changed(message, message.len() - 1).into(),
                ])
            };
            let run = simulate_with(
                Scenario::new(job.clone()),
                &mut Changes {
                    stage,
                    change,
                    begun: 0,
                },
            );
            let what = format!("{} at stage {stage}", name(&job));
            assert_eq!(run.report.last.survivors, 8, "{what}");
            assert_eq!(
                run.last.refused,
                [Fault::party(LIAR, FaultKind::Conflicting { stage })],
                "{what}"
            );
        }
    }
}

/// A message with the bits of one byte turned over.
fn changed(message: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = message.to_vec();
    bytes[at] ^= 0xff;
    bytes
}

/// Somebody who is not in the roster, and parties that speak for others or when it is not their turn.
struct Strangers(Option<Message>);

impl Hooks for Strangers {
    fn client_says(&mut self, stage: u8, _from: PartyId, message: &Message) -> Action {
        if stage == 0 {
            self.0 = Some(message.clone());
        }
        Action::Deliver
    }

    fn before_close(&mut self, _stage: u8) -> Vec<(PartyId, Message)> {
        let message = self.0.clone().into_iter();
        message
            .flat_map(|m| [(PartyId(8), m.clone()), (PartyId(u32::MAX), m)])
            .collect()
    }
}

#[test]
fn case_28_strangers_are_refused() {
    for job in jobs(&small()) {
        let run = simulate_with(Scenario::new(job.clone()), &mut Strangers(None));
        assert_eq!(run.report.last.survivors, 8, "{}", name(&job));
        assert_eq!(run.last.refused.len(), 2 * played(&job));
        for fault in &run.last.refused {
            let outside = fault.culprit == Culprit::Party(PartyId(8))
                || fault.culprit == Culprit::Party(PartyId(u32::MAX));
            assert!(outside, "{fault}");
        }
    }
}

/// A server that changes what it tells one party in the first round that begins, and whether that party said anything
/// afterwards in it.
struct LyingServer<F> {
    stage: u8,
    change: F,
    begun: u32,
    fault: Option<(u8, Fault)>,
    said_after: bool,
}

impl<F: FnMut(&Message) -> Action + Send> Hooks for LyingServer<F> {
    fn begin(&mut self, _: &Arc<Round>, _: &Arc<Cohort>) {
        self.begun += 1;
    }

    fn server_says(&mut self, stage: u8, to: PartyId, message: &Message) -> Action {
        match (stage, to, self.begun) == (self.stage, LIAR, 1) {
            true => (self.change)(message),
            false => Action::Deliver,
        }
    }

    fn client_says(&mut self, _stage: u8, from: PartyId, _message: &Message) -> Action {
        self.said_after |= from == LIAR && self.fault.is_some() && self.begun == 1;
        Action::Deliver
    }

    fn client_ended(&mut self, stage: u8, party: PartyId, fault: &Fault) {
        assert_eq!(party, LIAR);
        self.fault = Some((stage, fault.clone()));
    }
}

/// A party that is told nonsense stops there, says nothing more, and the others go on or abort cleanly.
fn ends_the_victim(change: fn(&Message) -> Action, expected: fn(&FaultKind) -> bool) {
    for job in jobs(&small()) {
        for stage in some(&job, told(&job)) {
            let mut hooks = LyingServer {
                stage,
                change,
                begun: 0,
                fault: None,
                said_after: false,
            };
            let run = simulate_with(Scenario::new(job.clone()), &mut hooks);
            let what = format!("{} after stage {stage}", name(&job));
            let (at, fault) = hooks
                .fault
                .unwrap_or_else(|| panic!("{what}: the lie was believed"));
            assert_eq!(at, stage + 1, "{what}");
            // What one party has sealed for another may be wrong already when the server gets it.
            let blamed = matches!(fault.culprit, Culprit::Server | Culprit::ServerOr(_));
            assert!(blamed, "{what}: {}", fault.culprit);
            assert!(expected(&fault.kind), "{what}: {fault}");
            assert!(!hooks.said_after, "{what}");
            assert_eq!(
                run.last.ends[LIAR.rank()],
                PartyEnd::Fault { stage: at, fault },
                "{what}"
            );
        }
    }
}

#[test]
fn case_27_server_says_nonsense() {
    let malformed: fn(&FaultKind) -> bool = |kind| {
        let list = FaultKind::BadSurvivorList(SurvivorListError::OutsideRoster);
        matches!(kind, FaultKind::Malformed { .. }) || *kind == list
    };
    ends_the_victim(
        |message| Action::Replace(message[..message.len() - 1].to_vec()),
        malformed,
    );
    ends_the_victim(
        |message| Action::Replace([message, &[0u8] as &[u8]].concat()),
        malformed,
    );
    ends_the_victim(|_| Action::Replace(vec![0; 20]), malformed);
}

#[test]
fn case_28_server_speaks_of_another_round_or_stage() {
    ends_the_victim(
        |message| Action::Replace(changed(message, 33)),
        |kind| *kind == FaultKind::OtherRound,
    );
    ends_the_victim(
        |message| Action::Replace(changed(message, 1)),
        |kind| matches!(kind, FaultKind::OtherStage { .. }),
    );
}

/// Case 11: a server that starts one party from another model. That party takes part in nothing: what it
/// hears and says belongs to another round.
#[derive(Default)]
struct OtherModel {
    begun: u32,
}

impl Hooks for OtherModel {
    fn begin(&mut self, _: &Arc<Round>, _: &Arc<Cohort>) {
        self.begun += 1;
    }

    fn believed_round(&mut self, party: PartyId, round: &Arc<Round>) -> Arc<Round> {
        if (party, self.begun) != (LIAR, 0) {
            return round.clone();
        }
        let other = Round::new(
            round.job().clone(),
            round.number(),
            round.roster().clone(),
            &[9; 32],
        );
        Arc::new(other.unwrap())
    }
}

#[test]
fn case_11_one_party_is_given_another_model() {
    for job in jobs(&small()) {
        let run = simulate_with(Scenario::new(job.clone()), &mut OtherModel::default());
        let outcome = run.last.outcome.unwrap();
        assert!(!outcome.survivors.contains(LIAR), "{}", name(&job));
        assert_eq!(outcome.survivors.len(), 7);
        let refused = [Fault::party(LIAR, FaultKind::OtherRound)];
        assert_eq!(outcome.faults, refused, "{}", name(&job));
        assert_eq!(run.last.ends[LIAR.rank()], PartyEnd::Waiting);
    }
}

/// A server that gives out a wrong sum is not found out by the parties, as the documentation says, but by
/// the simulator.
#[test]
fn case_45_a_wrong_result_shows_in_the_report() {
    for job in jobs(&small()) {
        let last = job.plan().answers().count() as u8 - 1;
        let change = |message: &Message| {
            let mut bytes = message.to_vec();
            bytes[34 + 1] ^= 1;
            Action::Replace(bytes)
        };
        let mut hooks = LyingServer {
            stage: last,
            change,
            begun: 0,
            fault: None,
            said_after: false,
        };
        let inputs = blindsum_sim::Synthetic::new(&job, 0);
        let run = crate::support::simulate_inputs(Scenario::new(job.clone()), &inputs, &mut hooks)
            .unwrap();
        let end = &run.last.ends[LIAR.rank()];
        let vouched =
            job.computing_servers().next().is_some() && job.spec().adversary == Adversary::Active;
        if vouched {
            // The other servers vouch for another sum.
            let stage = last + 1;
            let rule = "the tag of the second server does not authenticate this sum: it, or the coordinator, is \
                malicious";
            let rule = rule.into();
            let kind = FaultKind::Malformed { field: "tag", rule };
            let fault = Fault::server(kind);
            assert_eq!(*end, PartyEnd::Fault { stage, fault });
            continue;
        }
        if job.hides_sum() {
            // Parties check the sum themselves.
            let fault = Fault::server(FaultKind::WrongSum);
            assert_eq!(
                *end,
                PartyEnd::Fault {
                    stage: last + 1,
                    fault
                }
            );
            continue;
        }
        let believed = PartyEnd::Result { agrees: false };
        assert_eq!(*end, believed, "{}", name(&job));
        assert!(!run.report.last.exact && run.last.outcome.is_ok());
    }
}
