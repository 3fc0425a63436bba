//! A party's state folder is put back to what it was at some earlier moment, whole or in part, and the party
//! started from it with another update, against a coordinator that says again whatever it said. Abuse case 48:
//! nothing is encrypted, masked or sealed twice under one key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::common::fake::{Fake, Line, name};
use crate::common::play::{Play, Reply, Told, abort, offer, reply};
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::{self, RoundKind};
use blindsum_net::{Model, NetError};
use blindsum_protocol::{Adversary, Flashe, JobSpec, ModelUpdate, ProtocolName, Quantised};

/// The files of a state folder.
type Copy = BTreeMap<PathBuf, Vec<u8>>;

fn copy_of(folder: &Path) -> Copy {
    let mut files = Copy::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let relative = path.strip_prefix(folder).unwrap().to_owned();
                    files.insert(relative, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    files
}

fn put_back(copy: &Copy) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in copy {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

/// Every earlier copy, and every mixture of the newest one with one file of an earlier one, and the other way round.
fn rollbacks(copies: &[Copy]) -> BTreeSet<Copy> {
    let mut all: BTreeSet<Copy> = copies.iter().cloned().collect();
    let last = copies.last().unwrap();
    let files: BTreeSet<&PathBuf> = copies.iter().flat_map(BTreeMap::keys).collect();
    for earlier in copies {
        for file in &files {
            for (most, one) in [(last, earlier), (earlier, last)] {
                let mut mixed = most.clone();
                match one.get(*file) {
                    Some(bytes) => mixed.insert((*file).clone(), bytes.clone()),
                    None => mixed.remove(*file),
                };
                all.insert(mixed);
            }
        }
    }
    all
}

/// The party's program: gives `value` in every round, until it is told that there are no more or can do nothing.
fn program(config: PartyConfig, value: f32, dim: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let Ok(mut party) = Party::join(config) else {
            return;
        };
        loop {
            match party.next_round() {
                Ok(Some(mut round)) => {
                    let _ = round.submit(vec![value; dim], 1);
                    let _ = round.result();
                }
                Ok(None) => return,
                // Once nothing more can be done this is what it says, for ever.
                Err(NetError::Left | NetError::Ended { .. }) => return,
                Err(_) => {}
            }
        }
    })
}

/// A job that is played, and what the party's folder was in the course of it.
struct World {
    fake: Fake,
    play: Play,
    copies: Vec<Copy>,
    folder: tempfile::TempDir,
    /// The next update: no two processes have the same.
    value: f32,
}

impl World {
    fn config(&self, folder: &Path) -> PartyConfig {
        PartyConfig {
            give_up_after: 0.2,
            ..config_in(folder, &self.fake.url(), &self.play.a())
        }
    }

    fn start(&mut self, folder: &Path) -> JoinHandle<()> {
        self.value += 0.5;
        let dim = self.play.job.spec().dim as usize;
        program(self.config(folder), self.value, dim)
    }

    /// A job's life: key set-ups where there are any, two rounds, and a copy whenever the party has said something.
    fn live(spec: JobSpec, seed: u64) -> Self {
        let pki = Pki::new(seed);
        let play = Play::new(&pki, Arc::new(spec.validate().unwrap()));
        let mut world = Self {
            fake: Fake::start(&pki),
            play,
            copies: vec![Copy::new()],
            folder: tempfile::tempdir().unwrap(),
            value: 0.0,
        };
        let folder = world.folder.path().to_owned();
        let party = world.start(&folder);
        let job = world.play.job.clone();
        let mut line = world.fake.welcome(&job);
        let (copies, play) = (&mut world.copies, &mut world.play);
        let mut kinds = vec![RoundKind::Sum, RoundKind::Sum];
        if job.hides_sum() {
            kinds.insert(0, RoundKind::KeySetup);
        }
        for (number, kind) in (1..).zip(kinds) {
            offer(&line, play, number);
            let Reply::Ready(ready) = reply(&mut line) else {
                panic!("not ready");
            };
            copies.push(copy_of(&folder));
            let done = play.round(&mut line, &ready, kind, || copies.push(copy_of(&folder)));
            assert!(done, "{kind:?} {number} failed");
            end(&line, play, number, kind);
        }
        assert!(play.said_twice().is_empty());
        leave(&mut line, play);
        party.join().unwrap();
        copies.push(copy_of(&folder));
        drop(line);
        world
    }

    /// The party is started from this copy. All that was said to it is said again; then every number is offered
    /// once more, with the same nonces of all others. The round that follows is a new one, or the one that had this
    /// number before.
    fn replay(&mut self, copy: &Copy, as_before: bool) {
        let folder = put_back(copy);
        let party = self.start(folder.path());
        let (job, told) = (self.play.job.clone(), self.play.told.clone());
        // It may refuse its folder before it connects.
        if let Some(mut line) = self.fake.welcome_or(&job, || party.is_finished()) {
            for round in &told {
                repeat(&mut line, &mut self.play, round);
            }
            for number in 1..=3 {
                let before = told.iter().find(|round| round.start.round == number);
                match before.filter(|_| as_before) {
                    Some(round) => begin_again(&mut line, &mut self.play, round),
                    None => play_again(&mut line, &mut self.play, number),
                }
            }
            leave(&mut line, &mut self.play);
        }
        party.join().unwrap();
        self.play.told.truncate(told.len());
    }
}

/// The round is over. A sum is given up at its end: what it led to is nothing to this test.
fn end(line: &Line<'_>, play: &Play, round: u64, kind: RoundKind) {
    match kind {
        RoundKind::Sum => line.send(abort(round)),
        RoundKind::KeySetup => {
            let model = Some(name(&Model::initial(&play.job)));
            line.send(pb::RoundDone {
                round,
                model,
                result: Vec::new(),
            });
        }
    }
}

/// Says a round again: its beginning, and then, as far as the party answers, the messages that ended its stages.
fn repeat(line: &mut Line<'_>, play: &mut Play, told: &Told) {
    if let Some(fixed) = told.fixed.clone() {
        line.send(fixed);
    }
    line.send(told.start.clone());
    let last = told.messages.len() - 1;
    while let Reply::Message(chunk) = reply(line) {
        play.hear(&chunk);
        let stage = chunk.stage as usize;
        line.send(told.messages[stage].clone());
        if stage == last {
            // The result: there is nothing to say to it.
            break;
        }
    }
    line.send(abort(told.start.round));
}

/// Offers a number that was offered before, and plays the round with new machines if the party joins in.
fn play_again(line: &mut Line<'_>, play: &mut Play, number: u64) {
    offer(line, play, number);
    let Reply::Ready(ready) = reply(line) else {
        return;
    };
    let lacks_key = play.job.hides_sum() && ready.key_id.is_empty();
    let kind = match lacks_key {
        true => RoundKind::KeySetup,
        false => RoundKind::Sum,
    };
    play.round(line, &ready, kind, || {});
    end(line, play, number, kind);
}

/// Offers the number of a round, and says the round again if the party is ready for one: with the nonce of then.
fn begin_again(line: &mut Line<'_>, play: &mut Play, told: &Told) {
    offer(line, play, told.start.round);
    if let Reply::Ready(_) = reply(line) {
        repeat(line, play, told);
    }
}

/// The job is over: the party says what it still has to say, and goes.
fn leave(line: &mut Line<'_>, play: &mut Play) {
    let model = Some(name(&Model::initial(&play.job)));
    line.send(pb::JobDone {
        model,
        ..pb::JobDone::default()
    });
    loop {
        match reply(line) {
            Reply::Message(chunk) => play.hear(&chunk),
            Reply::Gone => return,
            _ => {}
        }
    }
}

fn job(protocol: ProtocolName, adversary: Adversary) -> JobSpec {
    JobSpec {
        adversary,
        min_parties: 0,
        model_update: ModelUpdate::Nothing,
        input_deadline: 60.0,
        stage_deadline: 60.0,
        ..spec(protocol, 5)
    }
}

/// Plays the job, and then puts every earlier state back. `sealing` are the stages in which something is encrypted,
/// masked or sealed.
fn no_key_is_used_twice(spec: JobSpec, seed: u64, sealing: &[u8]) {
    let mut world = World::live(spec, seed);
    let rollbacks = rollbacks(&world.copies);
    assert!(rollbacks.len() > 5, "{} states", rollbacks.len());
    for (copy, as_before) in rollbacks
        .iter()
        .flat_map(|copy| [(copy, false), (copy, true)])
    {
        world.replay(copy, as_before);
        let twice = world.play.said_twice();
        assert!(
            twice.iter().all(|stage| !sealing.contains(stage)),
            "stages {twice:?} were said twice from a folder of {:?}",
            copy.keys()
        );
    }
}

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

#[test]
fn case_48_no_rollback_masks_twice_secagg() {
    for adversary in BOTH {
        for protocol in [ProtocolName::SecAgg, ProtocolName::SecAggPlus] {
            no_key_is_used_twice(job(protocol, adversary), 1, &[0, 1, 2]);
        }
    }
}

#[test]
fn case_48_no_rollback_seals_twice_fssa_and_pss() {
    for adversary in BOTH {
        for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
            no_key_is_used_twice(job(protocol, adversary), 2, &[0, 1]);
        }
    }
}

#[test]
fn case_48_no_rollback_sends_two_vectors_plain() {
    no_key_is_used_twice(job(ProtocolName::Plain, Adversary::Active), 3, &[0]);
}

/// Key set-ups have three stages, of which the leader seals in the second; `a` leads.
#[test]
fn case_48_no_rollback_encrypts_twice_flashe() {
    for adversary in BOTH {
        let spec = job(ProtocolName::Flashe, adversary);
        no_key_is_used_twice(spec, 4, &[0, 1]);
    }
}

#[test]
fn case_48_no_rollback_encrypts_twice_sparse_flashe() {
    let spec = JobSpec {
        encoding: Quantised {
            max_weight: 1,
            ..Default::default()
        }
        .into(),
        protocol: Flashe {
            density: 0.4,
            ..Default::default()
        }
        .into(),
        ..job(ProtocolName::Flashe, Adversary::Active)
    };
    no_key_is_used_twice(spec, 5, &[0, 1]);
}
