//! The numbers that a party takes from its coordinator, and what it commits to its nonce with.

use blindsum_protocol::{FaultKind, Job, JobSpec, RoundParameters, nonce_commitment};
use serde::Deserialize;

use crate::support::{Hex, load};

const FILE: &str = include_str!("../../../../vectors/numbers.json");

/// A job and a roster; the numbers that a coordinator chooses, and others with the name of the one that breaks a rule.
#[derive(Deserialize)]
struct Judged {
    spec: JobSpec,
    roster: usize,
    chosen: [u32; 3],
    told: Vec<(u32, u32, u32, String)>,
}

impl Judged {
    fn job(&self) -> Job {
        self.spec.clone().validate().unwrap()
    }

    /// Which number breaks a rule; empty where none does.
    fn verdict(&self, job: &Job, told: RoundParameters) -> String {
        match job.check_parameters(self.roster, told) {
            Ok(()) => String::new(),
            Err(FaultKind::Number { name, rule }) => {
                assert!(rule.contains(name), "{name}: {rule}");
                name.into()
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Abuse case 46: numbers that are too weak are refused, all others are taken, whoever reckons.
#[test]
fn case_46_numbers_are_judged_as_exact_probabilities_say() {
    let (mut taken, mut refused) = (0, 0);
    for judged in load::<Judged>(FILE, "numbers") {
        let job = judged.job();
        let chosen = RoundParameters::from_words(judged.chosen);
        assert_eq!(job.round_parameters_for(judged.roster).unwrap(), chosen);
        assert_eq!(judged.verdict(&job, chosen), "");
        for (neighbours, threshold, packing, expected) in &judged.told {
            let told = RoundParameters::from_words([*neighbours, *threshold, *packing]);
            let (spec, roster) = (&judged.spec, judged.roster);
            assert_eq!(
                judged.verdict(&job, told),
                *expected,
                "{told:?} of {roster} in {spec:?}"
            );
            *(if expected.is_empty() {
                &mut taken
            } else {
                &mut refused
            }) += 1;
        }
    }
    assert!(taken > 100 && refused > 500, "{taken} and {refused}");
}

#[test]
fn commitments_to_nonces_are_the_same() {
    #[derive(Deserialize)]
    struct Committed {
        spec: JobSpec,
        number: u64,
        name: String,
        nonce: Hex,
        commitment: Hex,
    }
    for one in load::<Committed>(FILE, "commitments") {
        let job = one.spec.validate().unwrap();
        let commitment = nonce_commitment(&job, one.number, &one.name, &one.nonce.array());
        assert_eq!(commitment, one.commitment.array());
    }
}
