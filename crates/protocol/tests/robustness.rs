//! Rounds of every protocol in which one message is damaged on its way: nothing panics, and the outcome is the
//! exact sum or a named fault. Any numbers at all in a job specification: it is accepted or a rule is quoted.

use blindsum_math::words::Words;
use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Clipping, Closed, EncodingChoice,
    EncodingName, Excuse, Fault, FaultKind, Fixed64, Follower, FollowerSetup, Fssa, Input,
    Integers, Job, JobMemory, JobSpec, KnownServers, MemoryVault, Message, ModelUpdate, Outcome,
    Outgoing, PartyId, PartySet, ProtocolChoice, ProtocolName, Pss, Quantised, Round, RoundSum,
    RoundingName, Seat, SecAgg, SecAggPlus, Server, ServerIdentity, ServerIndex, ServerRole,
    SparseInput, Step, TensorLayout, Who,
};
use proptest::prelude::*;

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::Rig;

const PARTIES: u32 = 7;
/// Bytes of the frame before a message's body.
const HEADER: usize = 34;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn variants() -> impl Strategy<Value = JobSpec> {
    let protocol = prop::sample::select(ProtocolName::ALL);
    let adversary = prop::sample::select(Adversary::ALL);
    (protocol, adversary).prop_map(|(protocol, adversary)| JobSpec {
        protocol: protocol.into(),
        adversary,
        parties: PARTIES,
        dim: 21,
        dropout: 0.2,
        ..JobSpec::default()
    })
}

/// What happens to a message.
#[derive(Clone, Debug)]
enum Damage {
    Flip {
        byte: usize,
        bit: u32,
    },
    Cut {
        length: usize,
    },
    Append(Vec<u8>),
    /// It is replaced by the one to or from another party.
    Swap {
        other: u32,
    },
    /// Its end is that of the message to or from another party.
    Splice {
        other: u32,
        at: usize,
    },
    /// Some bytes are overwritten: lengths, counts, ranks.
    Overwrite {
        at: usize,
        bytes: [u8; 4],
    },
}

fn damages() -> impl Strategy<Value = Damage> {
    let (place, other) = (any::<usize>(), 0..PARTIES);
    prop_oneof![
        (place, 0..8u32).prop_map(|(byte, bit)| Damage::Flip { byte, bit }),
        place.prop_map(|length| Damage::Cut { length }),
        prop::collection::vec(any::<u8>(), 1..40).prop_map(Damage::Append),
        other.clone().prop_map(|other| Damage::Swap { other }),
        (other, place).prop_map(|(other, at)| Damage::Splice { other, at }),
        (place, any::<[u8; 4]>()).prop_map(|(at, bytes)| Damage::Overwrite { at, bytes }),
    ]
}

impl Damage {
    /// The message after the damage; `of` gives the message of another party.
    fn to(&self, message: &[u8], of: impl Fn(u32) -> Message) -> Vec<u8> {
        let mut bytes = message.to_vec();
        match self {
            Damage::Flip { byte, bit } => {
                let byte = byte % bytes.len();
                bytes[byte] ^= 1 << bit;
            }
            Damage::Cut { length } => bytes.truncate(length % bytes.len()),
            Damage::Append(more) => bytes.extend(more),
            Damage::Swap { other } => bytes = of(*other).to_vec(),
            Damage::Splice { other, at } => {
                let other = of(*other);
                let at = at % bytes.len().min(other.len());
                bytes.splice(at.., other[at..].iter().copied());
            }
            Damage::Overwrite { at, bytes: new } => {
                let at = HEADER + at % (bytes.len() - HEADER);
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(new)
                    .for_each(|(byte, new)| *byte = *new);
            }
        }
        bytes
    }
}

/// One of these.
fn choose(choices: Vec<u8>, index: u8) -> u8 {
    choices[usize::from(index) % choices.len()]
}

/// One of the stages in which parties answer.
fn answered(spec: &JobSpec, index: u8) -> u8 {
    let job = spec.clone().validate().unwrap();
    let of_parties = |step: &&Step| step.speaker == Who::Parties;
    let stages = job.plan().answers().filter(of_parties);
    choose(stages.map(|step| step.stage).collect(), index)
}

/// One of the stages at whose end parties are told something.
fn told(spec: &JobSpec, index: u8) -> u8 {
    let job = spec.clone().validate().unwrap();
    let to_parties = |step: &&Step| step.hearer == Who::Parties;
    let stages = job.plan().replies().filter(to_parties);
    choose(stages.map(|step| step.stage).collect(), index)
}

/// What a masked vector that was changed and taken all the same adds to the sum.
fn difference(rig: &Rig, before: &[u8], after: &[u8]) -> Words {
    let job = rig.cohort.round.job();
    let read = |bytes: &[u8]| Words::unpack(job.width(), job.lanes(), &bytes[HEADER..]).unwrap();
    let (before, after) = (read(before), read(after));
    let differences = after.iter().zip(before.iter());
    let values: Vec<u64> = differences
        .map(|(a, b)| a.wrapping_sub(b) & job.width().mask())
        .collect();
    Words::from_values(job.width(), &values).unwrap()
}

/// Goes on to the end: clients that meet a fault are lost. Gives the outcome and the sums that parties took.
fn finish(rig: &mut Rig) -> Result<(Outcome, Vec<Words>), Fault> {
    let mut sums = Vec::new();
    while rig.outcome.is_none() {
        rig.serve()?;
        for party in rig.down.keys().copied().collect::<Vec<_>>() {
            if !rig.clients.contains_key(&party) {
                continue;
            }
            match rig.answer(party) {
                Ok(Answer::Done(result)) => sums.push(result.sum),
                Ok(_) => {}
                Err(_) => rig.drop_out([party]),
            }
        }
    }
    Ok((rig.outcome.take().unwrap(), sums))
}

proptest! {
    #![proptest_config(config(150))]

    /// A party's message is damaged. If the server refuses it, the others finish without that party.
    #[test]
    fn damaged_messages_to_the_server(spec in variants(), stage in 0..5u8, victim in 0..PARTIES, damage in damages()) {
        let job = spec.clone().validate().unwrap();
        let stage = answered(&spec, stage);
        let (mut rig, victim) = (Rig::at(spec, stage), PartyId(victim));
        let message = rig.up.remove(&victim).unwrap();
        let all = rig.up.clone();
        let damaged: Message = damage.to(&message, |other| all.get(&PartyId(other)).unwrap_or(&message).clone()).into();
        let taken = rig.receive(victim, &damaged);
        if taken.is_err() {
            rig.drop_out([victim]);
        }
        match finish(&mut rig) {
            Ok((outcome, sums)) if job.hides_sum() => {
                // What the server took without being able to judge it, every party finds wrong.
                let changed = taken.is_ok() && damaged != message;
                let expected = rig.cohort.sum_of(outcome.survivors.iter());
                prop_assert_eq!(sums.len(), if changed { 0 } else { outcome.survivors.len() });
                prop_assert!(sums.iter().all(|sum| *sum == expected));
            }
            Ok((outcome, _)) => {
                let mut expected = rig.cohort.sum_of(outcome.survivors.iter());
                // A sealed column that was changed does not open, and an upload that is not the one of the other
                // servers does not count: they add nothing to the sum.
                use ProtocolName::{Fssa, Mpc3, Pss, PssMalicious};
                let sealed = matches!(job.spec().protocol.name(), Fssa | Pss | PssMalicious | Mpc3) || job.needs_everybody();
                if taken.is_ok() && stage == job.plan().input_stage().unwrap() && !sealed {
                    expected.add(&difference(&rig, &message, &damaged)).unwrap();
                }
                prop_assert_eq!(outcome.sum, Some(expected));
                if taken.is_err() {
                    prop_assert_eq!(outcome.survivors.contains(victim), stage > job.plan().input_stage().unwrap());
                }
            }
            // Without one of its parties a ring has no sum.
            Err(fault) => prop_assert!(taken.is_ok() || job.needs_everybody(), "{}: {:?}", fault, taken),
        }
    }

    /// The server's message to a party is damaged. The party takes it or ends its round; if everybody signs what
    /// they were told, the sum is exact or there is none.
    #[test]
    fn damaged_messages_to_a_party(spec in variants(), stage in 0..5u8, victim in 0..PARTIES, damage in damages()) {
        let stage = told(&spec, stage);
        let judged = [ProtocolName::Plain, ProtocolName::Flashe].contains(&spec.protocol.name());
        let exact = spec.adversary == Adversary::Active || judged;
        let (mut rig, victim) = (Rig::at(spec, stage), PartyId(victim));
        rig.serve().unwrap();
        let all = rig.down.clone();
        let damaged = damage.to(&all[&victim], |other| all[&PartyId(other)].clone());
        rig.down.remove(&victim);
        rig.answer_all().unwrap();
        if rig.answer_to(victim, &damaged).is_err() {
            let again = rig.answer_to(victim, &all[&victim]).unwrap_err();
            prop_assert_eq!(again.kind, FaultKind::Ended);
            rig.drop_out([victim]);
        }
        if let (Ok((outcome, sums)), true) = (finish(&mut rig), exact) {
            let expected = rig.cohort.sum_of(outcome.survivors.iter());
            prop_assert!(sums.iter().chain(&outcome.sum).all(|sum| *sum == expected));
        }
    }
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..40u32, 1 => any::<u32>(), 1 => 90_000..110_000u32]
}

fn reals() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1.0f64, 1 => any::<f64>(), 1 => prop::sample::select(vec![0.0, -0.0, 1.0, 1e300])]
}

prop_compose! {
    fn tensors()(layout in prop::collection::vec((any::<u64>(), reals()), 0..3)) -> Vec<TensorLayout> {
        layout.into_iter().map(|(len, clip)| TensorLayout { name: String::new(), len, clip }).collect()
    }
}

/// The protocol with these options, as far as it has them.
fn with_options(
    protocol: ProtocolName,
    [neighbours, threshold, packing]: [u32; 3],
) -> ProtocolChoice {
    match protocol {
        ProtocolName::SecAgg => SecAgg { threshold }.into(),
        ProtocolName::SecAggPlus => SecAggPlus {
            neighbours,
            threshold,
        }
        .into(),
        ProtocolName::Fssa => Fssa { threshold, packing }.into(),
        ProtocolName::Pss => Pss { threshold, packing }.into(),
        other => other.into(),
    }
}

prop_compose! {
    fn specs()(
        (protocol, adversary) in (prop::sample::select(ProtocolName::ALL), prop::sample::select(Adversary::ALL)),
        (encoding, clipping, rounding) in (
            prop::sample::select(EncodingName::ALL),
            prop::sample::select(Clipping::ALL),
            prop::sample::select(RoundingName::ALL),
        ),
        (parties, min_parties, bits, max_weight) in (numbers(), numbers(), numbers(), numbers()),
        (neighbours, threshold, packing) in (
            prop_oneof![Just(0), numbers()],
            prop_oneof![Just(0), numbers()],
            prop_oneof![8 => Just(0), 1 => numbers()],
        ),
        (dim, tensors) in (prop_oneof![1..100u64, any::<u64>()], tensors()),
        (clip, max_norm) in (reals(), prop_oneof![3 => Just(0.0), 1 => reals()]),
        (corrupt, dropout, join_deadline) in (reals(), reals(), reals()),
        without_model in any::<bool>(),
    ) -> JobSpec {
        let encoding = match encoding {
            EncodingName::Quantised => Quantised { bits, clip, clipping, max_norm, rounding, max_weight, tensors }.into(),
            EncodingName::Fixed64 => Fixed64 { clip, max_weight, tensors }.into(),
            EncodingName::Integers => EncodingChoice::from(Integers { bits, max_weight }),
        };
        let integers = encoding.integer_bits().is_some();
        JobSpec {
            protocol: with_options(protocol, [neighbours, threshold, packing]),
            model_update: if integers && without_model { ModelUpdate::Nothing } else { ModelUpdate::Add },
            adversary, encoding, parties, min_parties, dim, corrupt, dropout, join_deadline,
            ..JobSpec::default()
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// Case 24: a job is accepted or refused by a rule, whatever its numbers, and soon.
    #[test]
    fn case_24_any_job_specification_is_judged(spec in specs()) {
        match spec.validate() {
            Ok(job) => {
                prop_assert!((1..=job.spec().parties as usize).contains(&job.min_parties()));
                prop_assert!(job.lanes() >= job.spec().dim as usize);
            }
            Err(error) => prop_assert!(!error.rule.is_empty() && !error.field.is_empty()),
        }
    }
}
