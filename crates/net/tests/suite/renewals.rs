//! Certificates that end while a job runs: renewed in time they cost nothing, else nobody but their party.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::fake::{Cast, Fake, Line, done, job, one_round, tripled, welcome};
use crate::common::raw::{Raw, certificate};
use crate::common::*;
use blindsum_crypto::pki::{Validity, request};
use blindsum_crypto::sign::Algorithm;
use blindsum_net::party::{NextRound, Party, PartyConfig};
use blindsum_net::pb::{self, RefusalCode, party_frame::Frame};
use blindsum_net::report::{JobState, JobStatus};
use blindsum_net::{CredentialFiles, Credentials, JobError, Model, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tempfile::TempDir;

/// The files of party a, whose key stays the same.
struct Files {
    folder: TempDir,
    request: String,
}

impl Files {
    fn new(pki: &Pki, validity: Validity) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let asked = request("a", Algorithm::Ed25519, &mut rng).unwrap();
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
            request: asked.request,
        };
        std::fs::write(files.path("a.key"), &**asked.key).unwrap();
        std::fs::write(files.path("ca.pem"), pki.ca_pem()).unwrap();
        files.renew(pki, validity);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The CA signs the request again.
    fn renew(&self, pki: &Pki, validity: Validity) {
        let signed = pki.sign(&self.request, "a", validity);
        std::fs::write(self.path("new.pem"), signed.certificate).unwrap();
        std::fs::rename(self.path("new.pem"), self.path("a.pem")).unwrap();
    }

    fn read(&self) -> Credentials {
        let files = CredentialFiles {
            certificate: self.path("a.pem"),
            key: self.path("a.key"),
            ca: self.path("ca.pem"),
            revoked: None,
        };
        files.read().unwrap()
    }
}

fn long() -> Validity {
    Validity::days(now() - 60, 1)
}

fn until(not_after: u64) -> Validity {
    Validity {
        not_before: now() - 60,
        not_after,
    }
}

fn wait_until(time: u64) {
    while now() <= time {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn patient(url: &str, credentials: Credentials) -> PartyConfig {
    PartyConfig {
        give_up_after: 600.0,
        ..party_config(url, credentials)
    }
}

/// A job without an end that needs all three of its parties.
fn three() -> JobSpec {
    JobSpec {
        rounds: 0,
        min_parties: 3,
        input_deadline: 20.0,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// A party that plays until it hears why not.
fn play(config: PartyConfig) -> std::thread::JoinHandle<NetError> {
    std::thread::spawn(move || {
        let mut party = Party::join(config).unwrap();
        loop {
            let mut round = match party.next_round() {
                Ok(round) => round.unwrap(),
                Err(error) => return error,
            };
            std::thread::sleep(Duration::from_millis(100));
            let _ = round.submit(vec![1.0f32; 5], 1);
            let _ = round.result();
        }
    })
}

#[test]
fn case_55_a_certificate_that_is_renewed_in_time_costs_no_round() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![three()], None);
    let url = coordinator.url();
    let end = now() + 6;
    let files = Files::new(&pki, until(end));
    let _a = play(patient(&url, files.read()));
    let _others = ["b", "c"].map(|name| play(patient(&url, pki.party(name))));
    coordinator.wait("test", |status| status.rounds_done > 0);
    files.renew(&pki, long());
    wait_until(end);
    let then = coordinator.wait("test", |_| true).rounds_done;
    let status = coordinator.wait("test", |status| status.rounds_done > then + 30);
    assert_eq!(status.state, JobState::Running);
}

#[test]
fn case_55_a_certificate_that_ends_costs_nobody_but_its_party() {
    let pki = Pki::new(2);
    let coordinator = Running::start(&pki, vec![three()], None);
    let url = coordinator.url();
    let end = now() + 4;
    let files = Files::new(&pki, until(end));
    let ended = play(patient(&url, files.read()));
    let _others = ["b", "c"].map(|name| play(patient(&url, pki.party(name))));
    coordinator.wait("test", |status| status.rounds_done > 0);
    // It is told what to do.
    let error = ended.join().unwrap();
    let NetError::Job(JobError::Refused { code, reason }) = &error else {
        panic!("{error}");
    };
    assert_eq!(*code, RefusalCode::RefusalCertificate);
    assert!(
        reason.contains("pki sign CA NAME.csr --replace"),
        "{reason}"
    );
    // The job waits for it, for longer than three rounds could fail in.
    let then = coordinator.wait("test", |status| status.connected == ["b", "c"]);
    std::thread::sleep(Duration::from_secs(5));
    files.renew(&pki, long());
    let _again = play(patient(&url, files.read()));
    let more = |status: &JobStatus| status.rounds_done > then.rounds_done + 2;
    assert_eq!(coordinator.wait("test", more).state, JobState::Running);
}

/// A member is ready and its time is over when the last one is ready, too.
#[test]
fn case_55_a_hostile_member_whose_certificate_ends_does_not_end_a_job_that_waits() {
    let pki = Pki::new(3);
    let coordinator = Running::start(&pki, vec![three()], None);
    let url = coordinator.url();
    let end = now() + 4;
    let files = Files::new(&pki, until(end));
    let mut raw = Raw::join(&url, files.read(), "a");
    let _b = play(patient(&url, pki.party("b")));
    let mut c = Party::join(patient(&url, pki.party("c"))).unwrap();
    raw.ready();
    coordinator.wait("test", |status| status.waiting_for == ["c"]);
    wait_until(end);
    assert!(matches!(
        c.wait_round(Duration::ZERO),
        Ok(NextRound::Waiting)
    ));
    let (code, reason) = raw.refusal();
    assert_eq!(code, RefusalCode::RefusalOutOfTime, "{reason}");
    files.renew(&pki, long());
    let _a = play(patient(&url, files.read()));
    // It is the first one: none has failed before it.
    let mut round = c.next_round().unwrap().unwrap();
    assert_eq!(round.number(), 1);
    round.submit(vec![1.0f32; 5], 1).unwrap();
    assert_eq!(round.result().unwrap().survivors, ["a", "b", "c"]);
}

/// A party whose caller is asked for an update, and the connection over which the round began.
struct Amid {
    pki: Pki,
    files: Files,
    fake: Fake,
}

impl Amid {
    fn new(seed: u64) -> Self {
        let pki = Pki::new(seed);
        Self {
            files: Files::new(&pki, long()),
            fake: Fake::start(&pki),
            pki,
        }
    }

    /// The certificate is renewed amid a round; the party has looked at it when this returns.
    fn renewed_amid_a_round(&self, then: impl FnOnce(Line<'_>, &pb::RoundStart)) -> NetError {
        let (job, model) = (job(), Model::initial(&job()));
        let credentials = self.files.read();
        let config = patient(&self.fake.url(), credentials.clone());
        let (begun, begins) = channel();
        let (submit, submits) = channel::<()>();
        let party = std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            let mut round = party.next_round().unwrap().unwrap();
            begun.send(party.reload()).unwrap();
            let _ = submits.recv();
            let _ = round.submit(vec![1.0f32; 5], 1);
            let _ = round.result();
            let Err(error) = party.next_round() else {
                panic!("there is no other round");
            };
            error
        });
        let mut line = self.fake.welcome(&job);
        let nonce = line.offer(1, &model);
        let others = [&self.pki.party("b"), &self.pki.party("c")];
        let start = Cast::new(&credentials, &nonce, &others).start(1, &model);
        line.send(start.clone());
        let reload = begins.recv_timeout(PATIENCE).unwrap();
        self.files.renew(&self.pki, until(now() + 7200));
        reload.reload();
        drop(submit);
        then(line, &start);
        party.join().unwrap()
    }

    fn refuse(line: &Line<'_>) {
        line.send(pb::Refused {
            code: RefusalCode::RefusalCertificate.into(),
            reason: "it has expired".into(),
            ..pb::Refused::default()
        });
    }
}

#[test]
fn case_55_a_renewed_certificate_is_shown_once_the_round_is_over() {
    let amid = Amid::new(4);
    let error = amid.renewed_amid_a_round(|mut line, _| {
        // All of the round goes over one connection.
        let told = tripled(&job(), &line.chunk());
        line.send(told.clone());
        line.send(done(&Model::new(1, vec![1.0; 5]), &told));
        let (line, hello) = amid.fake.accept();
        assert_eq!((hello.round, hello.connection), (0, 2));
        line.send(welcome(&job()));
        Amid::refuse(&line);
    });
    assert!(
        matches!(error, NetError::Job(JobError::Refused { .. })),
        "{error}"
    );
}

/// The one that is refused may be the one before; nobody comes back with the one that is refused.
#[test]
fn case_55_a_party_that_is_refused_for_its_certificate_comes_back_with_a_newer_one_only() {
    let amid = Amid::new(5);
    let error = amid.renewed_amid_a_round(|mut line, start| {
        let told = tripled(&job(), &line.chunk());
        Amid::refuse(&line);
        let (mut line, hello) = amid.fake.accept();
        assert_eq!((hello.round, hello.connection), (1, 2));
        line.send(welcome(&job()));
        // The roster has the certificate before; its key is the same.
        line.send(pb::RoundStart {
            answers_taken: 1,
            ..start.clone()
        });
        line.send(told.clone());
        line.send(done(&Model::new(1, vec![1.0; 5]), &told));
        let confirmed = line.next();
        assert!(
            matches!(confirmed, Some(Frame::RoundConfirmed(_))),
            "{confirmed:?}"
        );
        Amid::refuse(&line);
    });
    assert!(
        matches!(error, NetError::Job(JobError::Refused { .. })),
        "{error}"
    );
}

/// The certificate is renewed between the word that it is ready and the beginning of the round.
#[test]
fn case_55_a_roster_with_the_certificate_before_is_no_other_one() {
    let amid = Amid::new(6);
    let (job, model) = (job(), Model::initial(&job()));
    let before = amid.files.read();
    let config = patient(&amid.fake.url(), before.clone());
    let party = one_round(config);
    let mut line = amid.fake.welcome(&job);
    let nonce = line.offer(1, &model);
    amid.files.renew(&amid.pki, until(now() + 7200));
    let (mut line, hello) = amid.fake.accept();
    assert_eq!((hello.round, hello.connection), (1, 2));
    line.send(welcome(&job));
    assert_ne!(certificate(&amid.files.read()), certificate(&before));
    let others = [&amid.pki.party("b"), &amid.pki.party("c")];
    line.send(Cast::new(&before, &nonce, &others).start(1, &model));
    let told = tripled(&job, &line.chunk());
    line.send(told.clone());
    line.send(done(&Model::new(1, vec![1.0; 5]), &told));
    party.join().unwrap().0.unwrap().unwrap().unwrap();
}
