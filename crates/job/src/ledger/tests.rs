use std::sync::Arc;

use blindsum_protocol::{
    Adversary, Clipping, DiscreteGaussian, JobSpec, ProtocolName, Quantised, Skellam,
};

use super::*;

fn release(number: u8) -> Release {
    Release {
        job: [1; 32],
        round: number.into(),
        key: [number; 32],
        // μ² = 1/4.
        cost: Spent::of_parts(blindsum_protocol::SquaredMu::of_units(1 << 62), &[]).unwrap(),
        honest: 3,
        time: 1_800_000_000,
    }
}

fn open(file: &Arc<MemoryLedger>) -> Result<Arc<Ledger>, JobError> {
    Ledger::open("data", file.clone())
}

/// The bytes of a ledger with so many releases.
fn bytes(releases: u8) -> Vec<u8> {
    let file = Arc::<MemoryLedger>::default();
    let ledger = open(&file).unwrap();
    for number in 0..releases {
        ledger.charge(release(number), None).unwrap();
    }
    file.bytes()
}

fn of_bytes(bytes: &[u8]) -> Result<u64, String> {
    let ledger = open(&Arc::new(MemoryLedger::of(bytes.into())));
    let balance = ledger.and_then(|ledger| ledger.balance());
    balance
        .map(|it| it.releases)
        .map_err(|error| error.to_string())
}

/// μ² of four releases is 1: ε of the Gaussian mechanism with multiplier 1 is 4.3772 at 1e-5.
#[test]
fn releases_add_up_and_are_there_after_a_restart() {
    let file = Arc::<MemoryLedger>::default();
    for number in 0..4 {
        let balance = open(&file).unwrap().charge(release(number), None).unwrap();
        assert_eq!(balance.releases, u64::from(number) + 1);
    }
    let balance = open(&file).unwrap().balance().unwrap();
    let epsilon = balance.spent.epsilon(1e-5).unwrap();
    assert!((epsilon - 4.3772).abs() < 1e-3, "{epsilon}");
}

/// Abuse case 39: the same bytes are one release, others another one.
#[test]
fn case_39_what_was_charged_is_not_charged_again() {
    let file = Arc::<MemoryLedger>::default();
    let ledger = open(&file).unwrap();
    ledger.charge(release(1), None).unwrap();
    assert_eq!(ledger.charge(release(1), None).unwrap().releases, 1);
    assert_eq!(
        open(&file)
            .unwrap()
            .charge(release(1), None)
            .unwrap()
            .releases,
        1
    );
    assert_eq!(ledger.charge(release(2), None).unwrap().releases, 2);
}

/// Abuse case 39: a budget is met exactly, by two processes with one file.
#[test]
fn case_39_two_processes_spend_one_budget() {
    let file = Arc::<MemoryLedger>::default();
    let both = [open(&file).unwrap(), open(&file).unwrap()];
    let four = Spent::of_parts(blindsum_protocol::SquaredMu::of_units(1 << 64), &[]).unwrap();
    let budget = Some(Budget {
        epsilon: four.epsilon(1e-5).unwrap(),
        delta: 1e-5,
    });
    for number in 0..4 {
        let ledger = &both[usize::from(number) % 2];
        ledger.charge(release(number), budget).unwrap();
    }
    assert_eq!(open(&file).unwrap().balance().unwrap().releases, 4);
    for ledger in &both {
        assert!(ledger.afford(&release(9).cost, budget).is_err());
        let error = ledger.charge(release(9), budget).unwrap_err();
        let JobError::Policy(PolicyError::Budget { releases, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!(releases, 4);
        // What was charged goes out again.
        assert_eq!(ledger.charge(release(3), budget).unwrap().releases, 4);
    }
}

/// Abuse case 39: after a crash the ledger has the release that was under way or does not; no other one is lost, and the next one
/// takes the place of what was torn.
#[test]
fn case_39_a_torn_record_is_cut_off() {
    let (two, three) = (bytes(2), bytes(3));
    assert_eq!((of_bytes(&two), of_bytes(&three)), (Ok(2), Ok(3)));
    for end in two.len()..three.len() {
        assert_eq!(of_bytes(&three[..end]), Ok(2));
        // The file was made longer before its contents were there.
        let mut longer = three.clone();
        longer[end..].fill(0);
        if three.len() - end >= 32 {
            assert_eq!(of_bytes(&longer), Ok(2), "zeros from {end} on");
        }
        let file = Arc::new(MemoryLedger::of(three[..end].into()));
        let ledger = open(&file).unwrap();
        assert_eq!(ledger.charge(release(7), None).unwrap().releases, 3);
        assert_eq!(of_bytes(&file.bytes()), Ok(3));
    }
}

/// Abuse case 39: whatever byte of whole records is damaged, the ledger is refused: it is not taken for a shorter one.
#[test]
fn case_39_damage_is_refused() {
    let three = bytes(3);
    for at in 0..three.len() {
        let mut damaged = three.clone();
        damaged[at] ^= 0x10;
        let error = of_bytes(&damaged).unwrap_err();
        assert!(error.contains("ledger is damaged in record"), "{error}");
    }
    let other = Ledger::open("other", Arc::new(MemoryLedger::of(three)));
    let error = other.unwrap_err().to_string();
    assert!(error.contains("damaged in record 1"), "{error}");
}

/// Abuse case 39: a ledger that is put back to an earlier state is found out: by its process, also where it has become as long
/// again, and by its witness.
#[test]
fn case_39_an_older_copy_is_refused() {
    let file = Arc::new(MemoryLedger::default().with_witness(Vec::new()));
    let ledger = open(&file).unwrap();
    ledger.charge(release(1), None).unwrap();
    let old = file.bytes();
    ledger.charge(release(2), None).unwrap();
    file.restore(old.clone());
    let error = ledger.balance().unwrap_err().to_string();
    assert!(
        error.contains("it is not the one that was read before"),
        "{error}"
    );
    let error = open(&file).unwrap_err().to_string();
    assert!(
        error.contains("older than its witness: it has 1 releases of 2"),
        "{error}"
    );
    // Another process goes on from the older state, without the witness.
    let other = Arc::new(MemoryLedger::of(old));
    open(&other).unwrap().charge(release(3), None).unwrap();
    file.restore(other.bytes());
    let error = ledger.balance().unwrap_err().to_string();
    assert!(
        error.contains("it is not the one that was read before"),
        "{error}"
    );
    let error = open(&file).unwrap_err().to_string();
    assert!(
        error.contains("not that of its witness: release 2 is another one"),
        "{error}"
    );
}

/// Abuse case 39: the last hash is of all records: ledgers that differ in the first one have other marks.
#[test]
fn case_39_records_are_chained() {
    let head = |first: u8| {
        let file = Arc::<MemoryLedger>::default();
        let ledger = open(&file).unwrap();
        for number in [first, 9] {
            ledger.charge(release(number), None).unwrap();
        }
        file.bytes().last_chunk::<32>().copied().unwrap()
    };
    assert_eq!(head(1), head(1));
    assert_ne!(head(1), head(2));
}

/// Killed before its witness was told, a party goes on.
#[test]
fn a_witness_may_be_behind() {
    let file = Arc::new(MemoryLedger::default().with_witness(Vec::new()));
    open(&file).unwrap().charge(release(1), None).unwrap();
    let witness = file.witness().unwrap();
    open(&file).unwrap().charge(release(2), None).unwrap();
    let behind = Arc::new(MemoryLedger::of(file.bytes()).with_witness(witness));
    assert_eq!(open(&behind).unwrap().balance().unwrap().releases, 2);
}

#[test]
fn units_have_simple_names() {
    check_unit("ward-3").unwrap();
    for unit in ["", "Ward", "a/b", "..", "a.b", &"x".repeat(65)] {
        check_unit(unit).unwrap_err();
    }
}

fn cost(privacy: blindsum_protocol::PrivacyChoice) -> Spent {
    let encoding = Quantised {
        bits: 10,
        clipping: Clipping::L2,
        ..Quantised::default()
    };
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::SemiHonest,
        parties: 10,
        dim: 100,
        encoding: encoding.into(),
        privacy,
        ..JobSpec::default()
    };
    let job = spec.validate().unwrap();
    job.privacy().unwrap().release(5).unwrap()
}

/// Abuse case 39: jobs of both kinds of noise are charged to one ledger: ε counts both, and survives writing.
#[test]
fn case_39_both_kinds_of_noise_add_up() {
    let gaussian = cost(
        DiscreteGaussian {
            noise_multiplier: 1.0,
            delta: 1e-5,
            ..DiscreteGaussian::default()
        }
        .into(),
    );
    let skellam = cost(
        Skellam {
            noise_multiplier: 1.0,
            delta: 1e-5,
            ..Skellam::default()
        }
        .into(),
    );
    let file = Arc::<MemoryLedger>::default();
    let ledger = open(&file).unwrap();
    for (number, cost) in [&gaussian, &skellam, &gaussian].into_iter().enumerate() {
        let release = Release {
            cost: cost.clone(),
            ..release(number as u8)
        };
        ledger.charge(release, None).unwrap();
    }
    let spent = ledger.balance().unwrap().spent;
    assert_eq!(spent, gaussian.plus(&gaussian).plus(&skellam));
    assert_eq!(open(&file).unwrap().balance().unwrap().spent, spent);
    let epsilon = |spent: &Spent| spent.epsilon(1e-5).unwrap();
    let alone = [&gaussian.plus(&gaussian), &skellam].map(epsilon);
    assert!(
        alone.iter().all(|alone| epsilon(&spent) > *alone),
        "{alone:?}"
    );
}
