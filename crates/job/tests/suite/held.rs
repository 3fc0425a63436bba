//! Parties are told that operators hold the job, and that it goes on.

use std::time::Duration;

use blindsum_job::Model;
use blindsum_job::machine::{Now, Time};
use blindsum_job::orders::{Command, MAX_REASON};
use blindsum_job::party::{Effect, Input, LinkId, PartyMachine, Told};
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_protocol::{Job, JobSpec, ProtocolName};
use std::sync::Arc;

use crate::farewell::parts;
use crate::hosts::BEGIN;
use crate::scene::Scene;

fn spec() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 3,
        min_parties: 2,
        dim: 4,
        ..JobSpec::default()
    }
}

/// What a party has been told of operators, newest last.
fn said(scene: &mut Scene, party: usize) -> Vec<String> {
    let told = scene.frames_to(party).into_iter();
    let told = told.filter_map(|frame| match frame {
        Frame::Welcome(welcome) => Some(format!("welcome: {}", welcome.held)),
        Frame::JobHeld(held) => Some(held.reason),
        _ => None,
    });
    told.collect()
}

const PAUSED: &str = "paused by olga: a test";

#[test]
fn whoever_knows_the_frame_is_told_of_a_pause_and_of_its_end() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect_as(0, |hello| hello.knows_held = true);
    // A program of before.
    scene.connect(1);
    scene.order(Command::Pause {}).unwrap();
    assert_eq!(said(&mut scene, 0), ["welcome: ", PAUSED]);
    // An order that is refused, and one that holds nothing, say nothing.
    scene.order(Command::Pause {}).unwrap_err();
    let (party, seconds) = ("party-2".to_owned(), None);
    scene.order(Command::Ban { party, seconds }).unwrap();
    assert_eq!(said(&mut scene, 0), [""; 0]);
    scene.order(Command::Resume {}).unwrap();
    assert_eq!(said(&mut scene, 0), [""]);
    assert_eq!(said(&mut scene, 1), ["welcome: "]);
    scene.order(Command::Drain { within: None }).unwrap();
    assert_eq!(said(&mut scene, 1), [""; 0]);
}

#[test]
fn whoever_connects_while_the_job_is_paused_hears_it_also_after_a_restart() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect(0);
    scene.order(Command::Pause {}).unwrap();
    scene.connect_as(1, |hello| hello.knows_held = true);
    let welcome = format!("welcome: {PAUSED}");
    assert_eq!(said(&mut scene, 1), [welcome.as_str()]);
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    scene.connect_as(1, |hello| hello.knows_held = true);
    assert_eq!(said(&mut scene, 1), [welcome.as_str()]);
    scene.order(Command::Resume {}).unwrap();
    assert_eq!(said(&mut scene, 1), [""]);
}

/// A party, and what its caller is told.
struct Listener {
    job: Job,
    party: PartyMachine,
    link: LinkId,
    millis: u64,
    told: Vec<String>,
}

impl Listener {
    fn new() -> Self {
        let (job, settings, identity) = parts(4);
        let party = PartyMachine::open(settings, identity, None, now(0), [5; 32]);
        Self::of(job, party)
    }

    fn of(job: Job, party: PartyMachine) -> Self {
        Self {
            job,
            party,
            link: LinkId(0),
            millis: 0,
            told: Vec::new(),
        }
    }

    fn connect(&mut self, held: &str) {
        self.link.0 += 1;
        self.hand(Input::Linked(self.link));
        let welcome = pb::Welcome {
            version: *pb::WIRE_VERSIONS.end(),
            program: "test".into(),
            job_spec: serde_json::to_string(self.job.spec()).unwrap(),
            job_hash: self.job.hash().to_vec(),
            model: Some(Model::initial(&self.job).name()),
            held: held.into(),
        };
        self.hear(welcome);
    }

    fn hear(&mut self, frame: impl Into<CoordinatorFrame>) {
        self.hand(Input::Frame(self.link, frame.into()));
    }

    fn held(&mut self, reason: &str) {
        let reason = reason.into();
        self.hear(pb::JobHeld { reason });
    }

    fn hand(&mut self, input: Input) {
        self.party.handle(now(self.millis), input);
        self.carry_out();
    }

    fn pass(&mut self, millis: u64) {
        self.millis += millis;
        self.party.tick(now(self.millis));
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.party.poll_working(now(self.millis)) {
            match effect {
                Effect::Tell(Told::Held(reason)) => self.told.push(reason),
                Effect::Tell(Told::Over(_)) => panic!("the party has ended"),
                _ => {}
            }
        }
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

fn now(millis: u64) -> Now {
    Now {
        time: Time(Duration::from_millis(millis)),
        unix_millis: BEGIN * 1000 + millis,
    }
}

#[test]
fn a_caller_is_told_what_is_new_and_nothing_twice() {
    let mut party = Listener::new();
    party.connect("");
    assert_eq!(party.told(), [""; 0]);
    party.held(PAUSED);
    party.held(PAUSED);
    assert_eq!(party.told(), [PAUSED]);
    // Another connection says the same.
    party.pass(5000);
    party.connect(PAUSED);
    assert_eq!(party.told(), [""; 0]);
    party.pass(5000);
    party.connect("");
    assert_eq!(party.told(), [""]);
    party.pass(5000);
    party.connect(PAUSED);
    party.pass(5000);
    party.held("");
    assert_eq!(party.told(), [PAUSED, ""]);
    // Of an operator who does not know what he wants the last word is told.
    party.pass(5000);
    party.held(PAUSED);
    party.held("");
    party.held("paused by bob: a move");
    assert_eq!(party.told(), [PAUSED, ""]);
    party.pass(1000);
    assert_eq!(party.told(), ["paused by bob: a move"]);
    party.held(PAUSED);
    party.held("paused by bob: a move");
    party.pass(1000);
    assert_eq!(party.told(), [""; 0]);
}

/// A coordinator that says something else all the time fills neither the log nor the caller's memory, and its words act on
/// nothing.
#[test]
fn case_53_what_holds_a_job_is_foreign_text_and_cannot_flood() {
    let mut party = Listener::new();
    party.connect(&format!("\u{1b}[2J\n{}", "x".repeat(100_000)));
    let [first] = <[String; 1]>::try_from(party.told()).unwrap();
    assert!(first.starts_with("\\u{1b}[2J\\u{a}xxx"), "{}", &first[..40]);
    assert!(first.len() < 2 * MAX_REASON, "{}", first.len());
    for number in 0..10_000 {
        party.held(&format!("paused by nobody: {number}"));
        if number % 100 == 99 {
            party.pass(9);
        }
    }
    // Within a second.
    assert_eq!(party.told(), [""; 0]);
    party.pass(5000);
    assert_eq!(party.told(), ["paused by nobody: 9999"]);
}

/// A party that is suspended knows what it was told last, and tells its next process why no round begins.
#[test]
fn a_party_that_was_suspended_is_told_again() {
    let records = Arc::new(MemoryRecords::default());
    let resume = |mark| {
        let (job, settings, identity) = parts(4);
        let party =
            PartyMachine::resume(settings, identity, records.clone(), mark, now(0), [5; 32]);
        let mut party = Listener::of(job, party);
        party.carry_out();
        party
    };
    let mut party = resume(0);
    party.connect(PAUSED);
    assert_eq!(party.told(), [PAUSED]);
    party.hand(Input::Suspend);
    // The connection lives on.
    let mut party = resume(party.party.mark());
    assert_eq!(party.told(), [PAUSED]);
    // Another reason comes too soon to be told: the next process is.
    party.held("paused by bob: a move");
    assert_eq!(party.told(), [""; 0]);
    party.hand(Input::Suspend);
    let mut party = resume(party.party.mark());
    assert_eq!(party.told(), ["paused by bob: a move"]);
    party.held("");
    assert_eq!(party.told(), [""]);
    party.hand(Input::Suspend);
    let mut party = resume(party.party.mark());
    assert_eq!(party.told(), [""; 0]);
}
