//! A party whose job is done, and whose connection broke before its last model came.

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_job::Model;
use blindsum_job::chunks::CHUNK;
use blindsum_job::machine::{Now, Time};
use blindsum_job::party::{Effect, Identity, Input, LinkId, Over, PartyMachine, Settings, Told};
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_protocol::{Adversary, Job, JobSpec, ProtocolName};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::hosts::{BEGIN, policy};

struct Scene {
    job: Job,
    party: PartyMachine,
    link: LinkId,
    seconds: u64,
    over: Option<Over>,
}

impl Scene {
    fn new() -> Self {
        let (job, settings, identity) = parts(4);
        Self::of(
            job,
            PartyMachine::open(settings, identity, None, now(0), [5; 32]),
        )
    }

    fn of(job: Job, party: PartyMachine) -> Self {
        let mut scene = Self {
            job,
            party,
            link: LinkId(0),
            seconds: 0,
            over: None,
        };
        scene.connect();
        scene
    }

    fn connect(&mut self) {
        self.link.0 += 1;
        self.hand(Input::Linked(self.link));
        let welcome = pb::Welcome {
            version: *pb::WIRE_VERSIONS.end(),
            program: "test".into(),
            job_spec: serde_json::to_string(self.job.spec()).unwrap(),
            job_hash: self.job.hash().to_vec(),
            model: Some(Model::initial(&self.job).name()),
            ..pb::Welcome::default()
        };
        self.hear(welcome);
    }

    fn hear(&mut self, frame: impl Into<CoordinatorFrame>) {
        self.hand(Input::Frame(self.link, frame.into()));
    }

    /// The job is done, with a model that does not come.
    fn hear_done(&mut self) {
        let mut model = Model::initial(&self.job).name();
        (model.version, model.hash) = (3, vec![7; 32]);
        self.hear(pb::JobDone {
            model: Some(model),
            ..pb::JobDone::default()
        });
    }

    fn lose(&mut self) {
        self.hand(Input::Lost(self.link, "lost".into()));
    }

    fn hand(&mut self, input: Input) {
        self.party.handle(now(self.seconds), input);
        self.carry_out();
    }

    fn pass(&mut self, seconds: u64) {
        self.seconds += seconds;
        self.party.tick(now(self.seconds));
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.party.poll_working(now(self.seconds)) {
            if let Effect::Tell(Told::Over(over)) = effect {
                self.over = Some(over);
            }
        }
    }
}

/// A job with so many coordinates, and who takes part in it.
pub fn parts(dim: u64) -> (Job, Settings, Identity) {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let validity = Validity {
        not_before: BEGIN - 86_400,
        not_after: BEGIN + 86_400,
    };
    let algorithm = Algorithm::Ed25519;
    let ca = CertificateAuthority::create("test", algorithm, validity, &mut rng).unwrap();
    let issued = ca.issue("a", &Kind::Party, algorithm, validity, &mut rng);
    let identity = Identity {
        name: "a".into(),
        key: Arc::new(IdentityKey::from_pem(&issued.unwrap().key).unwrap()),
        anchor: Arc::new(TrustAnchor::from_pem(ca.certificate(), None).unwrap()),
        ca: [0; 32],
    };
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        adversary: Adversary::SemiHonest,
        parties: 3,
        min_parties: 2,
        dim,
        ..JobSpec::default()
    };
    let settings = Settings {
        job: spec.job.clone(),
        policy: policy(),
        mask_memory: 0,
        ledger: None,
        location: String::new(),
        job_memory: Arc::default(),
        initial: None,
    };
    (spec.validate().unwrap(), settings, identity)
}

fn now(seconds: u64) -> Now {
    Now {
        time: Time(Duration::from_secs(seconds)),
        unix_millis: (BEGIN + seconds) * 1000,
    }
}

#[test]
fn case_54_the_last_model_is_asked_for_over_the_next_connection() {
    let mut scene = Scene::new();
    scene.hear_done();
    scene.lose();
    assert!(scene.over.is_none());
    scene.connect();
    let last = Model::first(&scene.job, vec![0.5; 4]).unwrap();
    let (bytes, version) = (last.to_bytes(), 1);
    let name = pb::ModelName {
        version,
        ..last.name()
    };
    scene.hear(pb::JobDone {
        model: Some(name),
        ..pb::JobDone::default()
    });
    assert!(scene.over.is_none());
    scene.hear(pb::ModelChunk {
        version,
        offset: 0,
        total: bytes.len() as u64,
        data: bytes,
    });
    assert!(matches!(
        scene.over,
        Some(Over::JobDone { model: Some(_), .. })
    ));
}

#[test]
fn case_54_a_last_model_that_never_comes_is_waited_for_a_minute() {
    let mut scene = Scene::new();
    scene.hear_done();
    // While the connection holds it is on its way.
    scene.pass(100);
    for _ in 0..5 {
        scene.lose();
        scene.pass(10);
        scene.connect();
        scene.hear_done();
        assert!(scene.over.is_none());
    }
    scene.pass(9);
    assert!(scene.over.is_none());
    scene.pass(1);
    assert!(matches!(
        scene.over,
        Some(Over::JobDone { model: None, .. })
    ));
}

#[test]
fn case_54_an_offer_after_the_end_is_of_a_job_that_goes_on() {
    let mut scene = Scene::new();
    scene.hear_done();
    scene.lose();
    scene.connect();
    scene.hear(pb::RoundOffer {
        round: 9,
        model: Some(Model::initial(&scene.job).name()),
        ..pb::RoundOffer::default()
    });
    scene.pass(100);
    assert!(scene.over.is_none());
}

/// A line on which a piece comes every 25 s is slow and no more.
#[test]
fn case_54_a_last_model_that_is_coming_in_is_waited_for() {
    let (job, settings, identity) = parts(140_000);
    let party = PartyMachine::open(settings, identity, None, now(0), [5; 32]);
    let mut scene = Scene::of(job, party);
    scene.hear_done();
    scene.lose();
    scene.connect();
    let last = Model::first(&scene.job, vec![0.5; 140_000]).unwrap();
    let (bytes, version) = (last.to_bytes(), 1);
    let name = pb::ModelName {
        version,
        ..last.name()
    };
    scene.hear(pb::JobDone {
        model: Some(name),
        ..pb::JobDone::default()
    });
    let total = bytes.len() as u64;
    for (piece, offset) in bytes.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        scene.pass(25);
        assert!(scene.over.is_none(), "{} s", scene.seconds);
        scene.hear(pb::ModelChunk {
            version,
            offset,
            total,
            data: piece.to_vec().into(),
        });
    }
    assert!(matches!(
        scene.over,
        Some(Over::JobDone { model: Some(_), .. })
    ));
}

#[test]
fn case_54_a_suspended_party_does_not_wait_for_the_last_model_for_ever() {
    let records = Arc::new(MemoryRecords::default());
    let resumed = |mark, seconds: u64| {
        let (job, settings, identity) = parts(4);
        let entropy = [6 + seconds as u8; 32];
        let party = PartyMachine::resume(
            settings,
            identity,
            records.clone(),
            mark,
            now(seconds),
            entropy,
        );
        (job, party)
    };
    let (job, party) = resumed(0, 0);
    let mut scene = Scene::of(job, party);
    scene.hear_done();
    scene.lose();
    for seconds in [20, 40] {
        scene.pass(20);
        scene.hand(Input::Suspend);
        (_, scene.party) = resumed(scene.party.mark(), seconds);
        scene.carry_out();
        assert!(scene.over.is_none());
    }
    scene.pass(20);
    assert!(matches!(
        scene.over,
        Some(Over::JobDone { model: None, .. })
    ));
}
