//! `plain`: no protection. Every party sends its packed words, the server adds them. It is the
//! baseline that the others are measured against.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_math::words::Words;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::options::table;
use crate::core::plan::{Stage, small};
use crate::core::protocol::{ProtocolInfo, ProtocolTable};
use crate::core::round::{
    Bodies, ClientSetup, ClientStage, ClientStep, InputRef, ServerStage, ServerStep,
};
use crate::kit::restore::{Restored, Stateless};
use crate::kit::result::{read_result, result_body};
use crate::kit::snapshot::Reader;
use crate::kit::vector::pack_input;
use crate::{Fault, FaultKind, Job, Opens, PartyId, PartySet, Plan, Round};

table! {
    /// No protection: the coordinator sees every update. The baseline.
    Plain = "plain";
    options {}
}

impl ProtocolTable for Plain {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

static INFO: ProtocolInfo = ProtocolInfo {
    min_parties: |_| 1,
    ..ProtocolInfo::of(plan, |_| {
        Ok(Arc::new(Stateless {
            start,
            restore,
            serve,
        }))
    })
};

fn plan(job: &Job, _parties: usize) -> Plan {
    let vector = small(job.spec()) + job.packed_len() as u64;
    let stages = [Stage::new("input", vector, vector).input()];
    Plan::new(job.spec(), Opens::Coordinator, stages)
}

fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    _rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let body = pack_input(setup.round.job(), input, |_, _| {}).map_err(Fault::caller)?;
    let next = Box::new(AwaitSum(setup.round.clone()));
    Ok(ClientStep::Send { body, next })
}

fn restore(setup: &Arc<ClientSetup>, stage: &str, _: &mut Reader<'_>) -> Restored {
    let sent = || Box::new(AwaitSum(setup.round.clone())) as Box<dyn ClientStage>;
    Ok((stage == "input").then(sent))
}

/// The vector is sent; the sum comes next.
struct AwaitSum(Arc<Round>);

impl ClientStage for AwaitSum {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let sum = read_result(&self.0, body).map_err(Fault::server)?;
        Ok(ClientStep::Done(sum))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(Zeroizing::default()))
    }
}

fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    Ok(Box::new(CollectInputs {
        expected: round.everyone().collect(),
        survivors: PartySet::empty(round.parties()),
        sum: round.job().zeros(),
        round: round.clone(),
    }))
}

/// Adds vectors as they come.
struct CollectInputs {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    survivors: PartySet,
    sum: Words,
}

impl ServerStage for CollectInputs {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        self.sum
            .add_packed(body)
            .map_err(|e| FaultKind::malformed("vector", e.to_string()))?;
        self.survivors.insert(from);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let body = result_body(&self.survivors, &self.sum);
        Ok(ServerStep::Done {
            bodies: Bodies::Same(self.survivors.iter().collect(), body),
            survivors: self.survivors,
            sum: Some(self.sum),
            faults: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;
    use crate::{Answer, Fault, FaultKind, JobSpec, PartyId, ProtocolName, SurvivorListError};

    #[test]
    fn a_sum_is_for_those_who_are_in_it() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: 5,
            dim: 9,
            ..JobSpec::default()
        };
        let mut rig = Rig::new(spec, 1);
        rig.up.remove(&PartyId(4));
        rig.serve().unwrap();
        let of_others = rig.down[&PartyId(0)].clone();
        let left_out = FaultKind::BadSurvivorList(SurvivorListError::SelfDropped);
        assert_eq!(
            rig.answer_to(PartyId(4), &of_others).unwrap_err(),
            Fault::server(left_out)
        );
        let again = rig.answer_to(PartyId(4), &of_others).unwrap_err();
        assert_eq!(again, Fault::caller(FaultKind::Ended));
        let Ok(Answer::Done(sum)) = rig.answer_to(PartyId(0), &of_others) else {
            panic!("no sum");
        };
        let expected = rig.cohort.sum_of((0..4).map(PartyId));
        assert!(sum.sum == expected, "another sum");
    }
}
