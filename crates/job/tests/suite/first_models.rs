//! Jobs that take their first model from a party: who is asked, what is refused, what the store has.

use std::time::Duration;

use blindsum_encode::Reals;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, RefusalCode};
use blindsum_job::report::JobState;
use blindsum_job::store::Store;
use blindsum_job::{Model, chunks, hex};
use blindsum_protocol::{InitialModel, JobSpec, ProtocolName};

use crate::scene::{Heard, Scene};

/// One round of three parties with four coordinates.
fn spec() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 3,
        min_parties: 3,
        dim: 4,
        initial: InitialModel::FirstParty,
        input_deadline: 100.0,
        ..JobSpec::default()
    }
}

/// All three connect; those named can give a model.
fn connected(able: &[usize]) -> Scene {
    let mut scene = Scene::new(spec(), 1);
    for party in 0..3 {
        match able.contains(&party) {
            true => scene.connect_as(party, |hello| hello.gives_model = true),
            false => scene.connect(party),
        };
    }
    scene
}

/// Whether a party was asked since it was last looked at.
fn is_asked(scene: &mut Scene, party: usize) -> bool {
    let wanted = Frame::ModelWanted(pb::ModelWanted { version: 0 });
    scene.frames_to(party).contains(&wanted)
}

fn give(scene: &mut Scene, party: usize, values: &[f32]) {
    let bytes = Reals::Single(values.to_vec()).to_bytes();
    let total = bytes.len() as u64;
    for (offset, data) in chunks::pieces(bytes.into()) {
        let version = 0;
        let chunk = pb::ModelChunk {
            version,
            offset,
            total,
            data,
        };
        scene.frame(party, chunk);
    }
}

/// How the connection of a party ended.
fn cut(scene: &mut Scene, party: usize) -> pb::Refused {
    let heard = scene.heard_by(party).into_iter();
    let mut cut = heard.filter_map(|heard| match heard {
        Heard::Cut(last) => Some(last),
        _ => None,
    });
    cut.next().unwrap()
}

/// What the job waits for.
fn warning(scene: &mut Scene) -> String {
    scene.pass(Duration::from_millis(60));
    scene.server.status().warning.clone()
}

/// The job goes on from this model to its end.
fn goes_on(scene: &mut Scene, values: &[f32], from: &str) {
    let first = Model::first(&scene.job, values.to_vec()).unwrap();
    let status = scene.server.status();
    assert_eq!(status.model_hash, hex(first.hash()));
    assert_eq!(status.model_from, from);
    for party in &mut scene.parties {
        party.model = first.clone();
    }
    scene.play();
    let status = scene.server.status();
    assert_eq!((status.state, status.model_version), (JobState::Done, 1));
    assert_eq!(status.model_from, from);
    assert_eq!(status.model_hash, hex(scene.parties[0].model.hash()));
    let kept = scene.store.model("job", 0).unwrap().unwrap();
    assert_eq!(kept, first);
}

#[test]
fn the_first_party_by_name_gives_the_first_model() {
    let mut scene = connected(&[1, 2]);
    assert!(!is_asked(&mut scene, 0) && is_asked(&mut scene, 1) && !is_asked(&mut scene, 2));
    assert!(warning(&mut scene).contains("the first model, which party-1 sends"));
    give(&mut scene, 1, &[1.0, 2.0, -0.5, 0.0]);
    goes_on(&mut scene, &[1.0, 2.0, -0.5, 0.0], "party-1");
    let events = scene.store.events("job");
    assert!(
        events.iter().any(|event| event.kind == "first model"
            && event.detail.starts_with("party-1 gave version 0"))
    );
}

#[test]
fn without_somebody_who_can_give_one_the_job_says_what_it_waits_for() {
    let mut scene = connected(&[]);
    let says = warning(&mut scene);
    assert!(
        says.contains("no connected party can give the first model"),
        "{says}"
    );
    // The last one comes again, and can give one now.
    scene.connect_as(2, |hello| {
        hello.gives_model = true;
        hello.connection += 1;
    });
    assert!(is_asked(&mut scene, 2));
    give(&mut scene, 2, &[0.5; 4]);
    goes_on(&mut scene, &[0.5; 4], "party-2");
}

#[test]
fn nobody_waits_for_ever() {
    let mut scene = connected(&[]);
    while scene.state() == JobState::Running {
        scene.wait();
    }
    let status = scene.server.status();
    assert_eq!(status.state, JobState::Failed);
    assert!(
        status
            .reason
            .contains("no connected party can give the first model"),
        "{}",
        status.reason
    );
}

#[test]
fn what_is_no_model_is_refused_by_name_and_the_next_party_is_asked() {
    for (values, reason) in [
        (
            &[0.0, f32::NAN, 0.0, 0.0][..],
            "coordinate 1 is not a finite number",
        ),
        (&[0.0; 3], "its model has 12 bytes, one of dim = 4 has 16"),
        (
            &[0.0; 100_000],
            "its model has 400000 bytes, one of dim = 4 has 16",
        ),
    ] {
        let mut scene = connected(&[0, 1]);
        assert!(is_asked(&mut scene, 0));
        give(&mut scene, 0, values);
        let last = cut(&mut scene, 0);
        assert_eq!(last.code(), RefusalCode::RefusalBadFrame);
        assert!(last.reason.contains(reason), "{}", last.reason);
        // It comes again, and is not asked again.
        scene.connect_as(0, |hello| hello.gives_model = true);
        assert!(!is_asked(&mut scene, 0) && is_asked(&mut scene, 1));
        give(&mut scene, 1, &[0.25; 4]);
        goes_on(&mut scene, &[0.25; 4], "party-1");
        let events = scene.store.events("job");
        let told = format!("party-0: {reason}");
        assert!(events.iter().any(|event| event.detail.contains(&told)));
    }
}

#[test]
fn a_party_that_vanishes_stalls_or_declines_is_passed_over() {
    let mut scene = connected(&[0, 1, 2]);
    assert!(is_asked(&mut scene, 0));
    let link = scene.parties[0].link;
    scene.give(blindsum_job::coordinator::Input::Lost {
        link,
        reason: "gone".into(),
        returns: true,
    });
    // The round needs all three.
    scene.connect_as(0, |hello| hello.gives_model = true);
    assert!(!is_asked(&mut scene, 0) && is_asked(&mut scene, 1));
    // It says nothing at all.
    scene.pass(Duration::from_secs(100));
    assert!(is_asked(&mut scene, 2));
    scene.frame(2, pb::ModelRefused { version: 0 });
    // Both before it have failed once; the first by name is asked again.
    assert!(is_asked(&mut scene, 0) && !is_asked(&mut scene, 1));
    // What the second one sends now comes too late, and is no offence.
    give(&mut scene, 1, &[9.0; 4]);
    assert!(scene.frames_to(1).is_empty());
    give(&mut scene, 0, &[0.125; 4]);
    goes_on(&mut scene, &[0.125; 4], "party-0");
}

#[test]
fn who_sends_one_unasked_is_refused() {
    let mut scene = connected(&[1]);
    give(&mut scene, 2, &[1.0; 4]);
    let last = cut(&mut scene, 2);
    assert!(last.reason.contains("was not asked for"), "{}", last.reason);
}

#[test]
fn a_coordinator_that_is_killed_asks_again_or_goes_on_from_what_it_has() {
    let mut scene = connected(&[1]);
    let kept = scene.store.to_bytes("job").unwrap().unwrap();
    let read = |scene: &Scene, bytes: &[u8]| {
        blindsum_job::store::MemoryStore::from_bytes(&scene.job, bytes, 3).unwrap()
    };
    let store = read(&scene, &kept);
    scene.restart(store, 2);
    assert_eq!(scene.server.status().model_from, "");
    scene.connect(0);
    scene.connect(2);
    scene.connect_as(1, |hello| hello.gives_model = true);
    assert!(is_asked(&mut scene, 1));
    give(&mut scene, 1, &[1.5; 4]);
    let kept = scene.store.to_bytes("job").unwrap().unwrap();
    let store = read(&scene, &kept);
    scene.restart(store, 3);
    assert_eq!(scene.server.status().model_from, "party-1");
    scene.connect_all();
    goes_on(&mut scene, &[1.5; 4], "party-1");
}

/// Two pieces and a bit.
const LARGE: u64 = (2 * chunks::CHUNK as u64 + 40) / 4;

/// The same job with a model of three pieces, and so many seconds for an update.
fn large(input_deadline: f64) -> JobSpec {
    JobSpec {
        dim: LARGE,
        input_deadline,
        ..spec()
    }
}

fn able(spec: JobSpec) -> Scene {
    let mut scene = Scene::new(spec, 1);
    for party in 0..3 {
        scene.connect_as(party, |hello| hello.gives_model = true);
    }
    assert!(is_asked(&mut scene, 0));
    scene
}

/// The pieces of a model of so many coordinates.
fn pieces(dim: u64) -> Vec<pb::ModelChunk> {
    let bytes = Reals::Single(vec![0.5; dim as usize]).to_bytes();
    let total = bytes.len() as u64;
    let piece = |(offset, data)| pb::ModelChunk {
        version: 0,
        offset,
        total,
        data,
    };
    chunks::pieces(bytes.into()).map(piece).collect()
}

/// Abuse case 74: a giver that says nothing has a part of the job's patience, however long its update may take.
#[test]
fn case_74_one_that_stalls_ends_no_job() {
    let mut scene = able(large(36_000.0));
    scene.pass(Duration::from_secs(899));
    assert!(!is_asked(&mut scene, 1));
    scene.pass(Duration::from_secs(1));
    assert!(is_asked(&mut scene, 1));
    scene.pass(Duration::from_secs(900));
    assert!(is_asked(&mut scene, 2));
    // All patience is over before the last one is through.
    scene.pass(Duration::from_secs(899));
    for piece in pieces(LARGE) {
        scene.frame(2, piece);
    }
    assert_eq!(scene.server.status().model_from, "party-2");
}

/// Abuse case 74: each piece has a time of its own, and the whole as well.
#[test]
fn case_74_one_that_drips_is_passed_over() {
    let mut scene = able(large(50.0));
    let all = pieces(LARGE);
    assert_eq!(all.len(), 3);
    scene.frame(0, all[0].clone());
    scene.pass(Duration::from_secs(29));
    assert!(!is_asked(&mut scene, 1));
    scene.pass(Duration::from_secs(1));
    assert!(is_asked(&mut scene, 1));
    // The rest of the one before is no piece of this one, and no offence.
    scene.frame(0, all[1].clone());
    for piece in &all[..2] {
        scene.frame(1, piece.clone());
        scene.pass(Duration::from_secs(25));
    }
    assert!(is_asked(&mut scene, 2));
    scene.frame(1, all[2].clone());
    assert!(scene.frames_to(1).is_empty());
    for piece in all {
        scene.frame(2, piece);
    }
    assert_eq!(scene.server.status().model_from, "party-2");
}

/// Abuse case 74: whoever is asked again over another connection begins anew.
#[test]
fn case_74_the_rest_of_an_earlier_answer_is_not_the_next_one() {
    let mut scene = connected_large(&[0]);
    let all = pieces(LARGE);
    scene.frame(0, all[0].clone());
    scene.pass(Duration::from_secs(30));
    // Nobody is asked twice over one connection.
    scene.pass(Duration::from_secs(200));
    assert!(!is_asked(&mut scene, 0));
    scene.connect_as(0, |hello| {
        hello.gives_model = true;
        hello.connection += 1;
    });
    assert!(is_asked(&mut scene, 0));
    scene.frame(0, all[1].clone());
    for piece in all {
        scene.frame(0, piece);
    }
    assert_eq!(scene.server.status().model_from, "party-0");
}

fn connected_large(able: &[usize]) -> Scene {
    let mut scene = Scene::new(large(100.0), 1);
    for party in 0..3 {
        match able.contains(&party) {
            true => scene.connect_as(party, |hello| hello.gives_model = true),
            false => scene.connect(party),
        };
    }
    assert!(is_asked(&mut scene, able[0]));
    scene
}

/// Abuse case 74: a party that declines is not asked again, and one that was not asked has nothing to decline.
#[test]
fn case_74_who_declines_is_not_asked_again() {
    let mut scene = connected(&[0]);
    assert!(is_asked(&mut scene, 0));
    scene.frame(0, pb::ModelRefused { version: 0 });
    scene.connect_as(0, |hello| {
        hello.gives_model = true;
        hello.connection += 1;
    });
    assert!(!is_asked(&mut scene, 0));
    scene.frame(1, pb::ModelRefused { version: 0 });
    let last = cut(&mut scene, 1);
    assert!(last.reason.contains("was not asked for"), "{}", last.reason);
}

/// Abuse case 74: the offer names who gave the model, so that a party that did not can say so.
#[test]
fn case_74_an_offer_names_the_giver() {
    let mut scene = connected(&[1]);
    give(&mut scene, 1, &[0.5; 4]);
    let offers: Vec<_> = scene
        .frames_to(2)
        .into_iter()
        .filter_map(|frame| match frame {
            Frame::RoundOffer(offer) => Some(offer.model_from),
            _ => None,
        })
        .collect();
    assert_eq!(offers, ["party-1"]);
}
