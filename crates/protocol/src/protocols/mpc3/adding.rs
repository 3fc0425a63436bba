//! The sum while uploads come. Servers tell each other of every upload that they take. An explicit component is added, and
//! forgotten, once all three have told of the same upload: no server takes that back, so its vector is in the sum for
//! certain. Such a notice may be lost; what was not added before the servers agree is added then.

use blindsum_math::words::{Width, Words};
use blindsum_sharing::replicated::ComponentSum;

use super::agree::Headers;
use super::blame::blame;
use super::upload::{Checked, Held};
use crate::core::round::stages::Letters;
use crate::{Fault, FaultKind, PartyId, Round, ServerIndex};

/// Both components of the sum so far, and what servers tell of uploads.
pub(super) struct Adding {
    me: ServerIndex,
    width: Width,
    lanes: usize,
    notices: Letters,
    /// What the next server and the one before have told of.
    noted: [Headers; 2],
    /// This server's own component, then the next one; none before the first vector.
    sums: [Option<ComponentSum>; 2],
}

impl Adding {
    pub fn new(round: &Round, me: ServerIndex) -> Self {
        Self {
            me,
            width: round.job().width(),
            lanes: round.job().lanes(),
            notices: Letters::new(),
            noted: Default::default(),
            sums: [None, None],
        }
    }

    /// Tells both others of an upload.
    pub fn tell(&mut self, party: PartyId, header: &[u8; 32]) {
        let notice = [party.0.to_be_bytes().as_slice(), header].concat();
        let others = [self.me.next(), self.me.previous()];
        self.notices.extend(others.map(|to| (to, notice.clone())));
    }

    /// What they are to be told, since this was asked last.
    pub fn notices(&mut self) -> Letters {
        std::mem::take(&mut self.notices)
    }

    /// What the next server and the one before have told of.
    pub fn noted(&self) -> [&Headers; 2] {
        self.noted.each_ref()
    }

    /// Hears of an upload at another server; gives the party whose it is.
    ///
    /// # Errors
    /// A notice that no honest server sends.
    pub fn note(
        &mut self,
        round: &Round,
        from: ServerIndex,
        notice: &[u8],
    ) -> Result<PartyId, Fault> {
        let refused = |rule| Err(blame(from, "notice", rule));
        let [next, previous] = &mut self.noted;
        let noted = match from == self.me.next() {
            true => next,
            false if from == self.me.previous() => previous,
            false => return refused("it is this server's own"),
        };
        let (rank, header) = notice.split_at(notice.len().min(size_of::<u32>()));
        let (Ok(rank), Ok(header)) = (rank.try_into(), <[u8; 32]>::try_from(header)) else {
            return refused("must be 36 bytes long");
        };
        let party = PartyId(u32::from_be_bytes(rank));
        if party.rank() >= round.parties() {
            return refused("its party is not in the round");
        }
        // guard: a-notice-is-of-one-upload
        match *noted.entry(party).or_insert(header) == header {
            true => Ok(party),
            false => refused("it sent a notice of another upload of this party before"),
        }
    }

    /// Adds the explicit component of an upload, if both others have told of the same one.
    pub fn add(&mut self, party: PartyId, upload: &mut Checked) -> Result<(), FaultKind> {
        let is_there = |noted: &Headers| noted.get(&party) == Some(&upload.header);
        // guard: a-vector-is-added-once-all-three-have-it
        if !self.noted.iter().all(is_there) {
            return Ok(());
        }
        let (width, lanes) = (self.width, self.lanes);
        for (held, sum) in upload.held.iter_mut().zip(&mut self.sums) {
            let sum = sum.get_or_insert_with(|| ComponentSum::new(width, lanes));
            if let Held::Explicit(packed) = held {
                add_explicit(sum, packed)?;
                *held = Held::Added;
            }
        }
        Ok(())
    }

    /// Both components of the sum of the survivors' vectors.
    pub fn finish(self, survivors: &[&Checked]) -> Result<[Words; 2], FaultKind> {
        let (width, lanes) = (self.width, self.lanes);
        let finish = |sum: Option<ComponentSum>, place: usize| {
            let mut sum = sum.unwrap_or_else(|| ComponentSum::new(width, lanes));
            let held = || survivors.iter().filter_map(|upload| upload.held.get(place));
            sum.add_seeds(held().filter_map(|held| match held {
                Held::Seed(seed) => Some(seed),
                Held::Explicit(_) | Held::Added => None,
            }));
            for held in held() {
                if let Held::Explicit(packed) = held {
                    add_explicit(&mut sum, packed)?;
                }
            }
            Ok::<_, FaultKind>(sum.into_words())
        };
        let [own, next] = self.sums;
        let (own, next) = rayon::join(|| finish(own, 0), || finish(next, 1));
        Ok([own?, next?])
    }
}

fn add_explicit(sum: &mut ComponentSum, packed: &[u8]) -> Result<(), FaultKind> {
    let added = sum.add_explicit(packed);
    added.map_err(|e| FaultKind::malformed("upload", e.to_string()))
}
