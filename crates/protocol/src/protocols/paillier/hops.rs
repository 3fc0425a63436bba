//! A party where sums go from one to the next: ring and all-reduce.

use std::sync::Arc;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::cipher::{Drawn, Parked, Sum};
use super::circle::Circle;
use super::way::Way;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::result::AwaitResult;
use crate::kit::vector::biased_words;
use crate::{Fault, FaultKind, PartyId, PartySet, ServerRole};

/// What a hop is sealed as, and the sum that goes to the key service.
fn purpose(step: usize, is_last: bool) -> String {
    match is_last {
        true => SUM.into(),
        false => format!("hop {step}"),
    }
}

/// What a sum is sealed as that goes to the key service.
pub(super) const SUM: &str = "sum";

/// A ring begins: the first party's hop, and the others wait for theirs.
pub(super) fn begin_ring(
    circle: Arc<Circle>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let me = circle.setup.me;
    let hops = Hops {
        ahead: Ahead::of(&circle.setup),
        circle,
        way: Way::Ring,
        step: me.rank(),
        words: Words::Later,
    };
    match me.rank() {
        0 => hops.say(None, input, rng),
        _ => Ok(ClientStep::Wait {
            next: Box::new(hops),
        }),
    }
}

/// An all-reduce begins: every party sends its own part.
pub(super) fn begin_all_reduce(
    circle: Arc<Circle>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let hops = Hops {
        ahead: Ahead::of(&circle.setup),
        circle,
        way: Way::AllReduce,
        step: 0,
        words: Words::Later,
    };
    hops.say(None, input, rng)
}

/// A party that waits for the hop before its own.
struct Hops {
    circle: Arc<Circle>,
    way: Way,
    /// The step in which it speaks next.
    step: usize,
    words: Words,
    ahead: Ahead,
}

/// What is drawn ahead for the next step.
struct Ahead {
    drawn: Option<Drawn>,
    /// Where it goes if nothing is sent with it.
    parked: Arc<Parked>,
}

impl Ahead {
    fn of(setup: &ClientSetup) -> Self {
        let parked = setup.memory.kept();
        Self {
            drawn: None,
            parked,
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(drawn) = self.drawn.take() {
            self.parked.park(drawn);
        }
    }
}

/// The party's vector.
enum Words {
    /// It comes with the next message.
    Later,
    Here(Zeroizing<Vec<u64>>),
}

impl Hops {
    /// Adds its own vector to what came, and passes it on.
    fn say(
        mut self,
        before: Option<Sum>,
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let circle = self.circle.clone();
        let (setup, cipher) = (&circle.setup, &circle.cipher);
        let (job, parties) = (setup.round.job(), setup.round.parties());
        let words = match std::mem::replace(&mut self.words, Words::Later) {
            Words::Here(words) => words,
            Words::Later => {
                let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
                biased_words(job, input).map_err(Fault::caller)?
            }
        };
        let range = self.way.words(job.lanes(), self.step, setup.me, parties);
        let own = words.get(range).unwrap_or_default();
        let own = match self.ahead.drawn.take() {
            Some(drawn) => cipher.encrypt_with(setup.me, own, drawn),
            None => cipher.encrypt(setup.me, own, rng),
        };
        let own = own.map_err(Fault::caller)?;
        let sum = match before {
            None => own,
            Some(before) => {
                let added = cipher.layout.add(cipher.key(), &[before, own]);
                added.map_err(Fault::caller)?
            }
        };
        let is_last = self.step + 1 == self.way.steps(parties);
        let purpose = purpose(self.step, is_last);
        let plain = cipher.layout.write(&sum);
        let sealed = match is_last {
            true => circle.line.seal(ServerRole::Decryptor, &purpose, &plain),
            false => circle.line.seal(circle.neighbours().0, &purpose, &plain),
        };
        let body = sealed.map_err(Fault::caller)?;
        let next: Box<dyn ClientStage> = match self.way == Way::Ring || is_last {
            true => {
                let everyone = PartySet::of(parties, setup.round.everyone());
                Box::new(AwaitResult::new(setup.clone(), everyone))
            }
            false => {
                self.step += 1;
                self.words = Words::Here(words);
                Box::new(self)
            }
        };
        Ok(ClientStep::Send { body, next })
    }
}

/// The parties whose vectors are in what one of them sends in a step.
fn contributors(parties: usize, from: PartyId, step: usize) -> PartySet {
    let behind = |back: usize| PartyId(((from.rank() + parties - back) % parties) as u32);
    PartySet::of(parties, (0..=step).map(behind))
}

impl ClientStage for Hops {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let (circle, step) = (&self.circle, self.step.saturating_sub(1));
        let setup: &ClientSetup = &circle.setup;
        let (_, before) = circle.neighbours();
        let opened = circle.line.open(before, &purpose(step, false), body)?;
        let (lanes, parties) = (setup.round.job().lanes(), setup.round.parties());
        let words = self.way.words(lanes, step, before, parties).len();
        let blame = |kind| Fault::party(before, kind);
        let cipher = &circle.cipher;
        let sum = cipher.layout.read(cipher.key(), words, &opened);
        let sum = sum.map_err(blame)?;
        let expected = contributors(parties, before, step);
        if sum.of != expected {
            let rule = format!("{:?}, but it must be of {expected:?}", sum.of);
            return Err(blame(FaultKind::malformed("contributors", rule)));
        }
        self.say(Some(sum), input, rng)
    }

    fn prepare(&mut self, memory_bytes: usize, rng: &mut dyn CryptoRng) -> usize {
        let (setup, cipher) = (&self.circle.setup, &self.circle.cipher);
        let (lanes, parties) = (setup.round.job().lanes(), setup.round.parties());
        let words = self.way.words(lanes, self.step, setup.me, parties).len();
        let bytes = cipher.noise_len(words);
        if bytes > memory_bytes || self.ahead.drawn.is_some() {
            return 0;
        }
        self.ahead.drawn = Some(cipher.draw(words, &self.ahead.parked, rng));
        bytes
    }
}
