//! What a file says that three servers with keys of the round are given and say to each other, and the servers that do so.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_protocol::{Receipt, Round};

use crate::support::Hex;
use crate::three_servers::{Letters, Servers};

/// The part of a file that is about the servers.
pub struct Recorded<'a> {
    pub round: &'a Arc<Round>,
    /// By server and by rank.
    pub uploads: [&'a BTreeMap<u32, Hex>; 3],
    pub told: &'a Hex,
    /// What each server draws.
    pub draws: [&'a [u8]; 3],
    /// As far as the model has them.
    pub letters: &'a [Vec<Letters>],
}

impl Recorded<'_> {
    /// The servers, having heard as many rounds of letters.
    pub fn servers_in(&self, heard: usize) -> Servers {
        let mut servers = Servers::start(self.round);
        for place in 0..3 {
            for (rank, message) in self.uploads[place] {
                let taken = servers.take(place, *rank, &message.0);
                assert_eq!(taken, Ok(Receipt::Taken), "{rank} at server {place}");
            }
        }
        servers.tell(self.told, self.draws);
        for number in 0..heard {
            for place in 0..3 {
                servers.letters(place);
                for from in [(place + 1) % 3, (place + 2) % 3] {
                    let letter = self.letter(number, from, place);
                    servers.receive_letter(place, from, letter).unwrap();
                }
            }
        }
        servers
    }

    /// What the model lets a server say to another one.
    pub fn letter(&self, number: usize, from: usize, to: usize) -> &[u8] {
        let letters = &self.letters[number][from];
        match to == (from + 1) % 3 {
            true => &letters.next.0,
            false => &letters.before.0,
        }
    }

    /// The servers talk until two of them have come to their words. Letters are those of the model, as far as it has some.
    pub fn talk(&self, servers: &mut Servers) -> BTreeMap<usize, Hex> {
        let (mut words, mut number) = (BTreeMap::new(), 0);
        loop {
            let said: Vec<_> = (0..3).map(|place| servers.letters(place)).collect();
            if said.iter().all(Vec::is_empty) {
                let modelled = self.letters.len();
                assert!(
                    number >= modelled,
                    "{number} rounds of letters, not {modelled}"
                );
                return words;
            }
            for (from, letters) in said.iter().enumerate() {
                for (to, letter) in letters {
                    let to = usize::from(to.number());
                    if number < self.letters.len() {
                        let what = format!("letter {number} of server {from} to {to}");
                        assert_eq!(&**letter, self.letter(number, from, to), "{what}");
                    }
                    if let Some(word) = servers.receive_letter(to, from, letter).unwrap() {
                        words.insert(to, Hex(word.to_vec()));
                    }
                }
            }
            number += 1;
        }
    }

    /// A server refuses a letter of another one in the place of the right one, and says nothing more.
    pub fn refuse_letter(
        &self,
        number: usize,
        (from, to): (usize, usize),
        why: &str,
        wrong: &[u8],
    ) {
        let mut servers = self.servers_in(number);
        servers.letters(to);
        let third = 3 - to - from;
        let right = self.letter(number, third, to);
        servers.receive_letter(to, third, right).unwrap();
        let heard = servers.receive_letter(to, from, wrong);
        assert!(heard.is_err(), "letter of server {from}: {why}");
        assert!(servers.letters(to).is_empty(), "{why}");
    }
}
