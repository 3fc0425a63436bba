//! What may happen in a round: who says what to whom, how large, until when, and who learns the sum.
//!
//! A plan is an upper bound that is known before the round: limits, deadlines, names in reports and what the
//! documentation says are read off it. What a machine says beyond its plan is a fault of the machine.

use crate::JobSpec;

/// Who speaks, or hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every party of the round that is still in it.
    Parties,
    /// The coordinator.
    Coordinator,
}

/// Who learns the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// The coordinator, which tells the parties.
    Coordinator,
    /// The parties alone: the coordinator learns neither the sum nor the model.
    Parties,
}

/// One exchange, in one direction: each of the speakers may say one message to each of the hearers.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name; the answer of parties and what the coordinator makes of it share one.
    pub name: &'static str,
    /// Who may speak.
    pub speaker: Who,
    /// Who is spoken to.
    pub hearer: Who,
    /// Whether the messages carry the parties' vectors.
    pub input: bool,
    /// Whether pieces of the messages are passed on in the next step.
    pub relayed: bool,
    /// Bytes of the largest message, with its frame.
    pub largest: u64,
    /// Seconds for all of it.
    pub deadline: f64,
}

/// What may happen in a round, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
    opens: Opens,
}

/// A stage: parties answer, the coordinator tells them what came of it.
pub(crate) struct Stage {
    pub name: &'static str,
    pub input: bool,
    pub relayed: bool,
    /// Bytes of the largest message each way.
    pub up: u64,
    pub down: u64,
}

impl Stage {
    /// One with messages of so many bytes.
    pub fn new(name: &'static str, up: u64, down: u64) -> Self {
        Self {
            name,
            input: false,
            relayed: false,
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
}

impl Plan {
    /// One coordinator and parties that talk to it, stage by stage.
    pub(crate) fn star(
        spec: &JobSpec,
        opens: Opens,
        stages: impl IntoIterator<Item = Stage>,
    ) -> Self {
        let steps = stages.into_iter().flat_map(|stage| {
            let up = Step {
                name: stage.name,
                speaker: Who::Parties,
                hearer: Who::Coordinator,
                input: stage.input,
                relayed: stage.relayed,
                largest: stage.up,
                deadline: match stage.input {
                    true => spec.input_deadline,
                    false => spec.stage_deadline,
                },
            };
            let down = Step {
                speaker: Who::Coordinator,
                hearer: Who::Parties,
                input: false,
                relayed: false,
                largest: stage.down,
                deadline: spec.stage_deadline,
                ..up.clone()
            };
            [up, down]
        });
        Self {
            steps: steps.collect(),
            opens,
        }
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Who learns the sum.
    pub fn opens(&self) -> Opens {
        self.opens
    }

    /// The steps in which parties speak: the n-th is what they answer n-th.
    pub fn answers(&self) -> impl Iterator<Item = &Step> {
        self.said_by(Who::Parties)
    }

    /// What the coordinator says at the end of each of them.
    pub fn replies(&self) -> impl Iterator<Item = &Step> {
        self.said_by(Who::Coordinator)
    }

    fn said_by(&self, who: Who) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.speaker == who)
    }

    /// The parties' answer in a stage.
    pub fn answer(&self, stage: u8) -> Option<&Step> {
        self.answers().nth(stage.into())
    }

    /// What the coordinator says at the end of a stage.
    pub fn reply(&self, stage: u8) -> Option<&Step> {
        self.replies().nth(stage.into())
    }

    /// Names of the stages, in order.
    pub fn stages(&self) -> Vec<&'static str> {
        self.answers().map(|step| step.name).collect()
    }

    /// The stage whose answer needs the party's vector, where there is one.
    pub fn input_stage(&self) -> Option<u8> {
        let place = self.answers().position(|step| step.input);
        place.map(|stage| stage as u8)
    }
}

/// Bytes of a message of keys, shares, signatures and lists of all parties of a job: 4 KiB, and 1 KiB a party.
pub(crate) fn small(spec: &JobSpec) -> u64 {
    4096 + 1024 * u64::from(spec.parties)
}

#[cfg(test)]
mod tests {
    use crate::{Adversary, JobSpec, ProtocolName};

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
}
