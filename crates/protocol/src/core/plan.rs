//! What may happen in a round: who sends what to whom, how large it is, until when, and who learns the sum.
//!
//! A round goes stage by stage: in each, somebody answers the coordinator, and the coordinator tells somebody the
//! outcome. A plan is an upper bound that is known before the round. Limits, deadlines, names in reports and the
//! pictures in the documentation are taken from it. Whom the coordinator waits for at a moment, and to whom it sends
//! something, the machine decides; a message that is not in the plan is a fault of the machine.

use crate::{JobSpec, PartyId, Seat, ServerRole};

/// Who sends, or receives, the messages of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every party of the round that is still in it.
    Parties,
    /// Some of them, whom the machine names as it goes. The others send and receive nothing, and stay in the round.
    Few,
    /// One of them.
    Party(PartyId),
    /// The coordinator.
    Coordinator,
    /// Every server of the round but the coordinator.
    Servers,
    /// The server with this role.
    Server(ServerRole),
}

impl Who {
    /// Whether this party or server may be among them.
    pub fn may_include(self, seat: impl Into<Seat>) -> bool {
        match (self, seat.into()) {
            (Self::Parties | Self::Few, Seat::Party(_)) | (Self::Servers, Seat::Server(_)) => true,
            (Self::Party(one), Seat::Party(party)) => one == party,
            (Self::Server(one), Seat::Server(role)) => one == role,
            _ => false,
        }
    }

    /// Whether this party or server is among them for certain, if it is still in the round.
    pub fn includes(self, seat: impl Into<Seat>) -> bool {
        self != Self::Few && self.may_include(seat)
    }
}

/// Who learns the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// The coordinator, which tells the parties.
    Coordinator,
    /// The parties alone: the coordinator learns neither the sum nor the model.
    Parties,
    /// Another server, which tells the coordinator.
    Server(ServerRole),
    /// The coordinator and the other servers, together only.
    Servers,
    /// The same, and they tell no party.
    ServersAlone,
}

/// One exchange in one direction: each of the speakers may send one message to each of the hearers.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of its stage, which is in its messages.
    pub stage: u8,
    /// The name of its stage.
    pub name: &'static str,
    /// Who may send.
    pub speaker: Who,
    /// Who receives.
    pub hearer: Who,
    /// Whether the messages carry the parties' vectors.
    pub input: bool,
    /// Whether pieces of the messages are passed on in the next step.
    pub relayed: bool,
    /// Whether the coordinator may skip the step. The outcome of a stage is told also where its answers are skipped.
    pub optional: bool,
    /// The fewest messages with which the round goes on. A machine may need more.
    pub enough: usize,
    /// Bytes of the largest message, frame included.
    pub largest: u64,
    /// Seconds within which all messages of the step must have come.
    pub deadline: f64,
}

/// The steps of a round, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Two for each stage: its answers, then what the coordinator says.
    steps: Vec<Step>,
    opens: Opens,
    largest_letter: u64,
    memory: u64,
}

/// A stage: somebody answers, the coordinator says what came of it.
pub(crate) struct Stage {
    name: &'static str,
    speaker: Who,
    hearer: Who,
    input: bool,
    relayed: bool,
    optional: bool,
    enough: usize,
    /// Bytes of the largest message each way.
    up: u64,
    down: u64,
}

impl Stage {
    /// A plan of one stage: all parties answer, and all receive the outcome, with messages of the given sizes in
    /// bytes.
    pub fn new(name: &'static str, up: u64, down: u64) -> Self {
        Self {
            name,
            speaker: Who::Parties,
            hearer: Who::Parties,
            input: false,
            relayed: false,
            optional: false,
            enough: 1,
            up,
            down,
        }
    }

    /// The one with the vectors.
    pub fn input(self) -> Self {
        Self {
            input: true,
            ..self
        }
    }

    /// One whose answers are passed on in pieces.
    pub fn relayed(self) -> Self {
        Self {
            relayed: true,
            ..self
        }
    }

    /// One in which these answer.
    pub fn answered_by(self, speaker: Who) -> Self {
        Self { speaker, ..self }
    }

    /// One at whose end these are spoken to.
    pub fn heard_by(self, hearer: Who) -> Self {
        Self { hearer, ..self }
    }

    /// One that needs so many answers.
    pub fn enough(self, enough: usize) -> Self {
        Self { enough, ..self }
    }

    /// One that the coordinator may skip.
    pub fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }
}

impl Plan {
    /// Whether no result can be opened without every server.
    pub fn needs_all_servers(&self) -> bool {
        let talk = |step: &Step| step.speaker == Who::Servers;
        match self.opens {
            Opens::Servers | Opens::ServersAlone | Opens::Server(_) => true,
            Opens::Parties => self.steps.iter().any(talk),
            Opens::Coordinator => false,
        }
    }

    /// A coordinator and those who talk to it, stage by stage.
    pub(crate) fn new(
        spec: &JobSpec,
        opens: Opens,
        stages: impl IntoIterator<Item = Stage>,
    ) -> Self {
        let steps = (0..).zip(stages).flat_map(|(number, stage)| {
            let up = Step {
                stage: number,
                name: stage.name,
                speaker: stage.speaker,
                hearer: Who::Coordinator,
                input: stage.input,
                relayed: stage.relayed,
                optional: stage.optional,
                enough: match stage.input && stage.speaker == Who::Parties {
                    true => spec.least_survivors(),
                    false => stage.enough,
                },
                largest: stage.up,
                deadline: match stage.input {
                    true => spec.input_deadline,
                    false => spec.stage_deadline,
                },
            };
            let down = Step {
                speaker: Who::Coordinator,
                hearer: stage.hearer,
                input: false,
                relayed: false,
                // guard: an-outcome-is-told-where-answers-are-skipped
                optional: false,
                enough: 1,
                largest: stage.down,
                deadline: spec.stage_deadline,
                ..up.clone()
            };
            [up, down]
        });
        Self {
            steps: steps.collect(),
            opens,
            largest_letter: 0,
            memory: 0,
        }
    }

    /// The same plan of servers that say letters of so many bytes, frames included, at most.
    pub(crate) fn with_letters(mut self, largest: u64) -> Self {
        self.largest_letter = largest;
        self
    }

    /// Size in bytes of the largest letter that servers send each other while they compute, frame included; 0 if they
    /// send none.
    pub fn largest_letter(&self) -> u64 {
        self.largest_letter
    }

    /// The same plan of servers that hold so many bytes while they compute, at most.
    pub(crate) fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Bytes that each of several servers holds at most to compute, the parties' vectors among them; 0 where there is one
    /// server. A few megabytes for each party come on top, and the messages that are on their way.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Who learns the sum.
    pub fn opens(&self) -> Opens {
        self.opens
    }

    /// The steps with answers to the coordinator, one for each stage.
    pub fn answers(&self) -> impl Iterator<Item = &Step> {
        let of_coordinator = |step: &&Step| step.hearer == Who::Coordinator;
        self.steps.iter().filter(of_coordinator)
    }

    /// The steps in which the coordinator sends the outcome of a stage, one for each stage that has an outcome.
    pub fn replies(&self) -> impl Iterator<Item = &Step> {
        let by_coordinator = |step: &&Step| step.speaker == Who::Coordinator;
        self.steps.iter().filter(by_coordinator)
    }

    /// The step in which a stage is answered.
    pub fn answer(&self, stage: u8) -> Option<&Step> {
        self.answers().nth(stage.into())
    }

    /// The step in which the coordinator sends the outcome of a stage.
    pub fn reply(&self, stage: u8) -> Option<&Step> {
        self.replies().nth(stage.into())
    }

    /// Names of the stages, in order.
    pub fn stages(&self) -> Vec<&'static str> {
        self.answers().map(|step| step.name).collect()
    }

    /// The first stage whose answers carry vectors, where there is one.
    pub fn input_stage(&self) -> Option<u8> {
        self.answers()
            .find(|step| step.input)
            .map(|step| step.stage)
    }

    /// The stage in which this party's answer carries its vector, where there is one.
    pub fn input_stage_of(&self, party: PartyId) -> Option<u8> {
        let carries = |step: &&Step| step.input && step.speaker.may_include(party);
        self.answers().find(carries).map(|step| step.stage)
    }

    /// The first stage, from stage `from` on, whose outcome this party or server may be told.
    pub fn next_reply(&self, seat: impl Into<Seat>, from: u8) -> Option<u8> {
        let seat = seat.into();
        let hears = |step: &&Step| step.stage >= from && step.hearer.may_include(seat);
        self.replies().find(hears).map(|step| step.stage)
    }

    /// Whether stage `to` may be the next one whose outcome this party or server is told, if it knows the outcome of
    /// all stages before `from`: it is told no outcome in between for certain.
    pub fn may_hear(&self, seat: impl Into<Seat>, from: u8, to: u8) -> bool {
        let seat = seat.into();
        let certain = |step: &Step| step.hearer.includes(seat);
        let mut between = self
            .replies()
            .filter(|step| (from..to).contains(&step.stage));
        let told = self
            .reply(to)
            .is_some_and(|step| step.hearer.may_include(seat));
        // guard: what-all-hear-is-not-skipped
        from <= to && told && !between.any(certain)
    }

    /// Whether all parties receive the outcome of any stage from `from` to the one before `to`.
    pub fn tells_all(&self, from: u32, to: u32) -> bool {
        let between = |step: &&Step| (from..to).contains(&u32::from(step.stage));
        let for_all = |step: &Step| step.hearer == Who::Parties;
        self.replies().filter(between).any(for_all)
    }

    /// Whether the coordinator may go on to stage `to` if stage `from` is the next one.
    pub fn may_skip(&self, from: u8, to: u8) -> bool {
        let mut between = self
            .answers()
            .filter(|step| (from..to).contains(&step.stage));
        from <= to && self.answer(to).is_some() && between.all(|step| step.optional)
    }

    /// Whether somebody may give an answer of `bytes` bytes in a stage. `None` means no answer.
    pub fn allows_answer(&self, seat: impl Into<Seat>, stage: u8, bytes: Option<usize>) -> bool {
        let (seat, step) = (seat.into(), self.answer(stage));
        match bytes {
            Some(bytes) => step
                .is_some_and(|step| step.speaker.may_include(seat) && bytes as u64 <= step.largest),
            None => step.is_none_or(|step| step.optional || !step.speaker.includes(seat)),
        }
    }

    /// Whether the coordinator may send somebody who is still in the round a message of `bytes` bytes at the end of a
    /// stage. `None` means no message.
    pub fn allows_reply(&self, seat: impl Into<Seat>, stage: u8, bytes: Option<usize>) -> bool {
        let (seat, step) = (seat.into(), self.reply(stage));
        match bytes {
            Some(bytes) => step
                .is_some_and(|step| step.hearer.may_include(seat) && bytes as u64 <= step.largest),
            None => step.is_none_or(|step| !step.hearer.includes(seat)),
        }
    }
}

/// Bytes of a message of keys, shares, signatures and lists of all parties of a job: 4 KiB, and 1 KiB a party.
pub(crate) fn small(spec: &JobSpec) -> u64 {
    4096 + 1024 * u64::from(spec.parties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adversary, ProtocolName};

    #[test]
    fn vectors_go_up_in_the_input_stage_and_down_at_the_end() {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            adversary: Adversary::Active,
            parties: 10,
            dim: 100_000,
            input_deadline: 7.0,
            stage_deadline: 3.0,
            ..JobSpec::default()
        };
        let job = spec.validate().unwrap();
        let (small, large) = (4096 + 10 * 1024, 4096 + 10 * 1024 + job.packed_len() as u64);
        let plan = job.plan();
        let up: Vec<u64> = plan.answers().map(|step| step.largest).collect();
        let down: Vec<u64> = plan.replies().map(|step| step.largest).collect();
        assert_eq!(up, [small, small, large, small, small]);
        assert_eq!(down, [small, small, small, small, large]);
        assert_eq!(plan.input_stage(), Some(2));
        let deadlines: Vec<f64> = plan.answers().map(|step| step.deadline).collect();
        assert_eq!(deadlines, [3.0, 3.0, 7.0, 3.0, 3.0]);
        assert_eq!(plan.answer(5), None);
    }

    /// Everybody shares, few dispute if need be, the second server checks, everybody opens.
    fn disputed() -> Plan {
        let (few, second) = (Who::Few, Who::Server(ServerRole::Second));
        let stages = [
            Stage::new("share", 100, 100).input().heard_by(few),
            Stage::new("dispute", 50, 50).answered_by(few).optional(),
            Stage::new("check", 10, 10).answered_by(second),
            Stage::new("open", 50, 50),
        ];
        Plan::new(&JobSpec::default(), Opens::Coordinator, stages)
    }

    #[test]
    fn case_28_what_is_said_to_few_need_not_be_heard() {
        let (plan, party) = (disputed(), PartyId(3));
        // Of the end of stage 0 it may hear nothing; that of stage 1 it hears, whether or not there was a dispute.
        assert!(plan.may_hear(party, 0, 0) && plan.may_hear(party, 0, 1));
        assert!(!plan.may_hear(party, 0, 2), "what all hear is heard");
        assert!(plan.tells_all(0, 2) && !plan.tells_all(0, 1));
        assert!(!plan.may_hear(party, 2, 1) && !plan.may_hear(party, 4, 4));
        assert_eq!(plan.next_reply(party, 1), Some(1));
        assert_eq!(plan.next_reply(ServerRole::Second, 0), None);
    }

    #[test]
    fn only_optional_stages_are_skipped() {
        let plan = disputed();
        assert!(plan.may_skip(1, 1) && plan.may_skip(1, 2));
        assert!(!plan.may_skip(0, 1) && !plan.may_skip(1, 3) && !plan.may_skip(4, 4));
    }

    #[test]
    fn who_speaks_and_who_is_silent_is_in_the_plan() {
        let (plan, party, server) = (disputed(), PartyId(3), ServerRole::Second);
        assert!(plan.allows_answer(party, 0, Some(100)));
        assert!(!plan.allows_answer(party, 0, Some(101)), "too large");
        assert!(!plan.allows_answer(party, 0, None), "all answer");
        assert!(plan.allows_answer(party, 1, None) && plan.allows_answer(party, 1, Some(1)));
        assert!(!plan.allows_answer(party, 2, Some(1)), "a server's turn");
        assert!(plan.allows_answer(server, 2, Some(10)) && !plan.allows_answer(server, 2, None));
        assert!(!plan.allows_answer(ServerRole::Third, 2, Some(10)));
        assert!(plan.allows_reply(party, 0, None) && !plan.allows_reply(party, 1, None));
        assert!(!plan.allows_reply(party, 2, None) && plan.allows_reply(party, 2, Some(10)));
        assert!(!plan.allows_reply(server, 2, Some(10)), "said to parties");
    }

    #[test]
    fn each_party_of_a_ring_has_its_own_stage() {
        let hop = |rank| {
            let next = Who::Party(PartyId(rank + 1));
            let hop = Stage::new("hop", 100, 100).input();
            hop.answered_by(Who::Party(PartyId(rank))).heard_by(next)
        };
        let plan = Plan::new(&JobSpec::default(), Opens::Coordinator, (0..3).map(hop));
        let inputs = [0, 1, 2].map(|rank| plan.input_stage_of(PartyId(rank)));
        assert_eq!(inputs, [Some(0), Some(1), Some(2)]);
        assert_eq!(plan.input_stage_of(PartyId(3)), None);
        assert_eq!(plan.next_reply(PartyId(2), 0), Some(1));
        assert!(plan.may_hear(PartyId(2), 0, 1) && !plan.may_hear(PartyId(1), 0, 1));
    }
}
