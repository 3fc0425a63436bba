//! Messages of `mpc3` that nobody may accept.

use blindsum_protocol::{FaultKind, Receipt};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::three_servers::{Servers, ThreeServers, rounds};

/// Messages of one round, changed a little.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    uploads: Vec<Upload>,
    letters: Vec<Letter>,
    notices: Vec<Notice>,
    words: Vec<Word>,
    results: Vec<Told>,
}

/// What a server refuses from a party; where it is `taken`, the server has the right upload.
#[derive(Deserialize)]
struct Upload {
    server: usize,
    party: u32,
    taken: bool,
    why: String,
    message: Hex,
}

/// What a server refuses from another one, in the place of a letter of this round of letters.
#[derive(Deserialize)]
struct Letter {
    server: usize,
    sender: usize,
    letter: usize,
    why: String,
    message: Hex,
}

/// What a server refuses from another one that has `told` of an upload: another notice, or the first letter.
#[derive(Deserialize)]
struct Notice {
    server: usize,
    sender: usize,
    told: Hex,
    letter: bool,
    why: String,
    message: Hex,
}

/// What the coordinator refuses from another server.
#[derive(Deserialize)]
struct Word {
    server: usize,
    why: String,
    message: Hex,
}

/// What a party refuses of the coordinator.
#[derive(Deserialize)]
struct Told {
    party: u32,
    why: String,
    message: Hex,
}

/// Checks all of them in a file; gives how many they are.
pub fn check(file: &str) -> usize {
    let all = rounds(file);
    let check = |refused: &Refused| {
        let round = &all[refused.round];
        refused.uploads.iter().for_each(|it| upload(round, it));
        refused.letters.iter().for_each(|it| letter(round, it));
        refused.notices.iter().for_each(|it| notice(round, it));
        refused.words.iter().for_each(|it| word(round, it));
        refused.results.iter().for_each(|it| result(round, it));
        let of_servers = refused.letters.len() + refused.notices.len() + refused.words.len();
        refused.uploads.len() + of_servers + refused.results.len()
    };
    load::<Refused>(file, "refused").iter().map(check).sum()
}

/// It costs nobody anything: the right upload is taken still.
fn upload(three: &ThreeServers, wrong: &Upload) {
    let (place, rank) = (wrong.server, wrong.party);
    let what = format!("upload of {rank} to server {place}: {}", wrong.why);
    let mut servers = Servers::start(&three.round);
    let right = &three.uploads(place)[&rank].0;
    if wrong.taken {
        assert_eq!(servers.take(place, rank, right), Ok(Receipt::Taken));
    }
    let refused = servers.take(place, rank, &wrong.message.0);
    assert!(refused.is_err(), "{what}");
    let expected = match wrong.taken {
        true => Receipt::Repeated,
        false => Receipt::Taken,
    };
    assert_eq!(servers.take(place, rank, right), Ok(expected), "{what}");
}

/// The server says nothing any more.
fn letter(three: &ThreeServers, wrong: &Letter) {
    let (place, from, number) = (wrong.server, wrong.sender, wrong.letter);
    let what = format!("letter {number} of server {from} to {place}: {}", wrong.why);
    let mut servers = three.servers_in(number);
    servers.letters(place);
    let third = 3 - place - from;
    let right = three.letter(number, third, place);
    servers.receive_letter(place, third, right).unwrap();
    let refused = servers.receive_letter(place, from, &wrong.message.0);
    assert!(refused.is_err(), "{what}");
    assert!(servers.letters(place).is_empty(), "{what}");
    if place > 0 {
        let right = three.letter(number, from, place);
        let ended = servers.receive_letter(place, from, right).unwrap_err();
        assert_eq!(ended.kind, FaultKind::Ended, "{what}");
    }
}

/// It ends the server's part in the round, or at the coordinator the round.
fn notice(three: &ThreeServers, wrong: &Notice) {
    let (place, from) = (wrong.server, wrong.sender);
    let what = format!("from server {from} to {place}: {}", wrong.why);
    let tell = |servers: &mut Servers| {
        assert_eq!(servers.receive_letter(place, from, &wrong.told.0), Ok(None));
    };
    let mut servers = Servers::start(&three.round);
    if wrong.letter {
        servers = three.with_uploads(tell);
        let third = 3 - place - from;
        let right = three.letter(0, third, place);
        servers.receive_letter(place, third, right).unwrap();
    } else {
        tell(&mut servers);
    }
    let refused = servers.receive_letter(place, from, &wrong.message.0);
    assert!(refused.is_err(), "{what}");
}

/// What is no message of this round and stage is refused at once; otherwise the round ends without a sum.
fn word(three: &ThreeServers, wrong: &Word) {
    let place = wrong.server;
    let mut servers = three.servers_in(3);
    if servers.take_word(place, &wrong.message.0).is_err() {
        let right = servers.take_word(place, three.word(place));
        assert_eq!(right, Ok(Receipt::Taken), "{}", wrong.why);
        return;
    }
    let other = 3 - place;
    servers.take_word(other, three.word(other)).unwrap();
    let ended = servers.end();
    assert!(ended.is_err(), "word of server {place}: {}", wrong.why);
}

/// It ends the party's round.
fn result(three: &ThreeServers, wrong: &Told) {
    let mut clients = three.upload();
    let client = clients.get_mut(&wrong.party).unwrap();
    let refused = client.answer(&wrong.message.0, None, &mut Tape::new(&[]));
    assert!(refused.is_err(), "result: {}", wrong.why);
    let right = &three.transcript.stages[1].down[&wrong.party].0;
    let ended = client.answer(right, None, &mut Tape::new(&[])).unwrap_err();
    assert_eq!(ended.kind, FaultKind::Ended, "result, after: {}", wrong.why);
}
