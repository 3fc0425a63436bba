//! How many rounds a job may have, by its specification and after it was extended.

use super::*;

#[test]
fn case_69_a_job_of_more_rounds_than_allowed_is_refused_also_one_without_end() {
    let policy = Policy {
        max_rounds: Some(50),
        ..Policy::default()
    };
    assert_eq!(check(&policy, of(50)), Ok(()));
    for many in [51, 0] {
        let error = check(&policy, of(many)).unwrap_err();
        let (rounds, allowed) = (many, 50);
        assert_eq!(error, PolicyError::MaxRounds { rounds, allowed });
        assert!(error.to_string().contains("raise max_rounds"), "{error}");
        assert_eq!(check(&Policy::default(), of(many)), Ok(()));
    }
}

#[test]
fn case_69_whoever_agreed_to_one_specification_agreed_to_its_rounds() {
    let pinned = Policy {
        job_hash: Some([7; 32]),
        ..Policy::default()
    };
    assert_eq!(pinned.check_extension(50, 50), Ok(()));
    for rounds in [51, 0] {
        let refused = Err(PolicyError::MaxRounds {
            rounds,
            allowed: 50,
        });
        assert_eq!(pinned.check_extension(rounds, 50), refused);
        assert_eq!(Policy::default().check_extension(rounds, 50), Ok(()));
        let more = Policy {
            max_rounds: Some(60),
            ..pinned.clone()
        };
        assert_eq!(more.check_extension(rounds, 50).is_ok(), rounds == 51);
    }
    assert_eq!(pinned.check_extension(0, 0), Ok(()));
}

fn of(rounds: u32) -> JobSpec {
    JobSpec { rounds, ..spec() }
}
