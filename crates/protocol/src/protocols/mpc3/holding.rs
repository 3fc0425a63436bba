//! What a server holds of the parties' uploads, until it is known whose are summed.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_mpc::Vectors;
use blindsum_sharing::replicated::ComponentSum;
use rayon::prelude::*;

use super::TAG;
use super::adding::Adding;
use super::agree::Headers;
use super::blame::{blame, broken};
use super::shapes::{Shape, upload_shape};
use super::upload::{Checked, Held, check};
use super::weighing::{Root, Weighing};
use crate::core::round::stages::Letters;
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerIndex};

/// The uploads that a server has checked.
pub(super) struct Holding {
    me: ServerIndex,
    round: Arc<Round>,
    /// With whose vector others are compared, and how long it may be.
    root: Option<(PartyId, u64)>,
    uploads: BTreeMap<PartyId, Checked>,
    /// None where servers compute with single vectors.
    adding: Option<Adding>,
}

impl Holding {
    /// # Errors
    /// [`FaultKind::Parameters`]: the party with whose vector others are compared is not in the round.
    pub fn new(round: Arc<Round>, me: ServerIndex) -> Result<Self, Fault> {
        let weighing = Weighing::of(round.job());
        let root = match &weighing {
            Some(weighing) => weighing
                .root(&round)?
                .map(|root| (root, weighing.longest())),
            None => None,
        };
        Ok(Self {
            me,
            adding: weighing.is_none().then(|| Adding::new(&round, me)),
            round,
            root,
            uploads: BTreeMap::new(),
        })
    }

    /// Takes the upload of a party, once.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let root = self.root.filter(|(root, _)| *root == from);
        let longest = root.map(|(_, longest)| longest);
        let mut checked = check(&self.round, self.me, from, longest, body)?;
        if let Some(adding) = &mut self.adding {
            adding.add(from, &mut checked)?;
            adding.tell(from, &checked.header);
        }
        self.uploads.insert(from, checked);
        Ok(())
    }

    /// What both others are to be told of the uploads here, since this was asked last.
    pub fn notices(&mut self) -> Letters {
        let adding = self.adding.as_mut();
        adding.map_or_else(Letters::new, Adding::notices)
    }

    /// Hears of an upload at another server.
    ///
    /// # Errors
    /// A notice that no honest server sends.
    pub fn note(&mut self, from: ServerIndex, notice: &[u8]) -> Result<(), Fault> {
        let Some(adding) = &mut self.adding else {
            return Err(blame(from, "notice", "no sum is made of the uploads"));
        };
        let party = adding.note(&self.round, from, notice)?;
        let upload = self.uploads.get_mut(&party);
        let added = upload.map_or(Ok(()), |upload| adding.add(party, upload));
        added.map_err(Fault::nobody)
    }

    /// What the next server and the one before have told of their uploads.
    pub fn noted(&self) -> [Headers; 2] {
        let noted = self.adding.as_ref().map(|adding| adding.noted());
        noted.map_or_else(Default::default, |noted| noted.map(Headers::clone))
    }

    /// How many explicit components are kept.
    #[cfg(test)]
    pub fn explicit_kept(&self) -> usize {
        let held = self.uploads.values().flat_map(|upload| &upload.held);
        held.filter(|held| matches!(held, Held::Explicit(_)))
            .count()
    }

    /// Whose uploads are here, each with what servers compare of it.
    pub fn headers(&self) -> Headers {
        let headers = self.uploads.iter();
        headers
            .map(|(party, upload)| (*party, upload.header))
            .collect()
    }

    /// The sum of the survivors' vectors: this server's own component, then the next one.
    ///
    /// # Errors
    /// A survivor whose upload is not here.
    pub fn sums(mut self, survivors: &PartySet) -> Result<[Words; 2], Fault> {
        let adding = self.adding.take();
        let adding = adding.unwrap_or_else(|| Adding::new(&self.round, self.me));
        let sums = adding.finish(&self.of(survivors)?);
        sums.map_err(Fault::nobody)
    }

    /// The survivors' vectors for computing, in order and without the root; the root; and whose vectors they are. What is
    /// held of others is dropped.
    ///
    /// # Errors
    /// A survivor whose upload is not here, or no upload of the root.
    pub fn vectors(mut self, survivors: &PartySet) -> Result<Gathered, Fault> {
        let shape = upload_shape(self.round.job());
        let mut take = |party: PartyId| self.uploads.remove(&party).ok_or(party);
        let root = self.root.map(|(root, _)| root);
        let root = root.map(|root| match survivors.contains(root) {
            true => take(root),
            false => Err(root),
        });
        let root = root.transpose();
        let root = root.map_err(|root| {
            let root = self.round.roster().members().get(root.rank());
            let root = root.map_or_else(String::new, |member| member.name.clone());
            Fault::nobody(FaultKind::RootMissing { root })
        })?;
        let others = survivors
            .iter()
            .filter(|party| Some(*party) != self.root.map(|it| it.0));
        let others: Vec<PartyId> = others.collect();
        let uploads: Result<Vec<_>, _> = others.iter().map(|party| take(*party)).collect();
        let missing = |party| {
            let rule = format!("the upload of {party} is missing");
            Fault::nobody(FaultKind::malformed("uploads", rule))
        };
        let uploads = uploads.map_err(missing)?;
        let rows = uploads
            .into_par_iter()
            .map(|upload| words(upload.held, shape));
        let mut rows = rows.collect::<Result<Vec<_>, _>>().map_err(Fault::nobody)?;
        let weighing = Weighing::of(self.round.job());
        let split = |row: &mut [Vec<u64>; 2]| {
            let weighing = weighing.as_ref();
            weighing.map_or_else(Default::default, |it| it.split_metrics(row))
        };
        let mut metrics: Vec<_> = rows.iter_mut().map(split).collect();
        let shares = |rows| Vectors::new(rows).map_err(broken);
        let root = match root {
            Some(Checked { held, norm, .. }) => {
                let mut unit = words(held, shape).map_err(Fault::nobody)?;
                metrics.push(split(&mut unit));
                Some(Root {
                    unit: shares(vec![unit])?,
                    norm: norm.unwrap_or_default(),
                })
            }
            None => None,
        };
        Ok(Gathered {
            parties: others,
            vectors: Arc::new(shares(rows)?),
            metrics: shares(metrics)?,
            root,
        })
    }

    /// The keys by which this server vouches for a sum towards the survivors, in order.
    ///
    /// # Errors
    /// A survivor whose upload is not here.
    pub fn take_tag_keys(
        &mut self,
        survivors: &PartySet,
    ) -> Result<Vec<(PartyId, Secret<TAG>)>, Fault> {
        self.of(survivors)?;
        let key = |party: PartyId| Some((party, self.uploads.get_mut(&party)?.tag_key.take()?));
        Ok(survivors.iter().filter_map(key).collect())
    }

    fn of(&self, survivors: &PartySet) -> Result<Vec<&Checked>, Fault> {
        let missing = || FaultKind::malformed("survivors", "a party whose upload is not here");
        let upload = |party| self.uploads.get(&party);
        let uploads: Option<Vec<_>> = survivors.iter().map(upload).collect();
        uploads.ok_or_else(|| Fault::nobody(missing()))
    }
}

/// What is computed with.
pub(super) struct Gathered {
    /// Whose vectors they are, but for the root.
    pub parties: Vec<PartyId>,
    pub vectors: Arc<Vectors>,
    /// The words of their metrics, and behind them those of the root.
    pub metrics: Vectors,
    pub root: Option<Root>,
}

/// The words of both components of a vector.
fn words(held: [Held; 2], shape: Shape) -> Result<[Vec<u64>; 2], FaultKind> {
    let of = |held| {
        let mut component = ComponentSum::new(shape.width, shape.lanes);
        match held {
            Held::Seed(seed) => component.add_seeds([&seed]),
            Held::Explicit(packed) => component
                .add_explicit(&packed)
                .map_err(|e| FaultKind::malformed("upload", e.to_string()))?,
            Held::Added => return Err(FaultKind::malformed("upload", "is in a sum already")),
        }
        Ok::<_, FaultKind>(component.into_words().into_values())
    };
    let [own, next] = held;
    Ok([of(own)?, of(next)?])
}
