//! P7: what parties have left of their updates in sparse rounds. A round with a result counts a part of a party's
//! update as sent; the rest goes with the next update, and is neither lost nor sent twice.
//!
//! When a round begins for a party, its records say what is left: that must be what was left after the latest round that
//! counts its vector, bit for bit. And over all rounds that count, what was sent and what is left add up to what was
//! given, in integers.

use blindsum_encode::Sparsifier;
use blindsum_protocol::Job;

use super::super::book::{Book, Kept, Latest};
use super::super::leftovers::Account;

/// Leftovers are counted in this part of a one.
const UNIT: f64 = (1_u64 << 40) as f64;

impl Book {
    /// P7: what a party has left when a round begins for it.
    pub fn has_left(&mut self, job: &Job, (party, round): (usize, u64), left: Sparsifier) -> Kept {
        if self.is_liar(party) {
            self.leftovers.now.insert(party, left);
            return Ok(());
        }
        let residual = left.residual().to_vec();
        let settled = match self.latest_of(party, round) {
            Latest::Round(latest) => self.is_left_after(job, party, latest, &residual),
            Latest::None => Some(residual.iter().all(|value| *value == 0.0)),
            Latest::Unknown => None,
        };
        let kept = match settled {
            Some(kept) => kept,
            None => {
                // At least it is one that the party had.
                self.leftovers.accounts.remove(&party);
                self.had(job, party, &residual)
            }
        };
        let shown = residual.clone();
        self.leftovers.now.insert(party, left);
        match kept && self.adds_up_to(job, party, &residual) {
            true => Ok(()),
            false => Err(format!(
                "P7: party {party} goes into round {round} with {shown:?} left, which is not what the rounds that \
                 count its vectors have left"
            )),
        }
    }

    /// Whether this is left after a round that counts the party's vector; what it was given and sent there goes to its
    /// account.
    fn is_left_after(
        &mut self,
        job: &Job,
        party: usize,
        round: u64,
        residual: &[f64],
    ) -> Option<bool> {
        let account = self.leftovers.accounts.get(&party);
        if account.is_some_and(|account| account.latest == Some(round)) {
            let now = self.leftovers.now.get(&party)?;
            return Some(now.residual() == residual);
        }
        let owed = self.owed_after(job, party, round, residual);
        let (Some(owed), account) = (owed, self.leftovers.accounts.get_mut(&party)) else {
            return Some(false);
        };
        if let Some(account) = account {
            let pairs = account.owed.iter_mut().zip(owed);
            pairs.for_each(|(owed, more)| *owed += more);
            account.rounds += 1;
            account.latest = Some(round);
        }
        Some(true)
    }

    /// What a round that has left this gave a party, without what it sent there.
    fn owed_after(
        &self,
        job: &Job,
        party: usize,
        round: u64,
        residual: &[f64],
    ) -> Option<Vec<i128>> {
        let shares = self.given.shares.get(&(party, round))?;
        let endings = self.leftovers.endings(job, party, round);
        let choices = shares.iter().filter_map(|share| share.choice.as_ref());
        let mut ways = choices.flat_map(|choice| endings.iter().map(move |end| (choice, end)));
        let is_left = |left: Sparsifier| left.residual() == residual;
        let (choice, opened) =
            ways.find(|(choice, opened)| choice.left(job, opened).is_some_and(is_left))?;
        let pairs = choice.given.iter().zip(choice.arrived(opened));
        Some(
            pairs
                .map(|(given, sent)| units(*given) - units(sent))
                .collect(),
        )
    }

    /// Whether a party has had this left over before: nothing, or what any of its rounds has left.
    fn had(&self, job: &Job, party: usize, residual: &[f64]) -> bool {
        let shares = self.given.shares.iter().filter(|((of, _), _)| *of == party);
        let mut left = shares.flat_map(|((_, round), shares)| {
            let choices = shares.iter().filter_map(|share| share.choice.as_ref());
            choices.flat_map(|choice| {
                let mut endings = self.leftovers.endings(job, party, *round);
                endings.push(Box::new(|_| true));
                let left = endings.iter().filter_map(|opened| choice.left(job, opened));
                left.collect::<Vec<_>>()
            })
        });
        residual.iter().all(|value| *value == 0.0) || left.any(|left| left.residual() == residual)
    }

    /// Whether what was given is what was sent and this. A party without an account gets one.
    fn adds_up_to(&mut self, job: &Job, party: usize, residual: &[f64]) -> bool {
        let left = residual.iter().map(|value| units(*value));
        let Some(account) = self.leftovers.accounts.get(&party) else {
            let account = Account {
                owed: left.collect(),
                rounds: 0,
                latest: None,
            };
            self.leftovers.accounts.insert(party, account);
            return true;
        };
        let off = account.rounds * grain(job);
        let mut pairs = account.owed.iter().zip(left);
        pairs.all(|(owed, left)| (owed - left).abs() <= off)
    }
}

fn units(value: f64) -> i128 {
    (value * UNIT).round() as i128
}

/// What a round may round off: nothing where all bounds are short binary numbers that stay what they are.
fn grain(job: &Job) -> i128 {
    let mut tensors = job.encoding().tensors();
    let short = |clip: f64| clip <= 16.0 && (clip * 1024.0).fract() == 0.0;
    let by_norm = job.encoding().norm_bound().is_some();
    let exact = !by_norm && job.new_history().is_none() && tensors.all(|(_, clip)| short(clip));
    let largest = job.encoding().tensors().map(|(_, clip)| clip);
    match exact {
        true => 0,
        false => units(largest.fold(0.0, f64::max) * 1e-5),
    }
}
