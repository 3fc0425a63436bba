//! A small cohort in one process, for the tests of this crate: machines driven by hand, stage by stage,
//! so that a test can change any message on its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_math::words::{TileMut, Words};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use crate::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, Fault, FaultKind, Input, Job, JobSpec,
    MemoryVault, Message, Outcome, PartyId, PartySet, Round, RoundSum, Server, SparseInput,
};

/// Words that are given as they are.
pub struct Given<'a>(pub &'a Words);

impl Input for Given<'_> {
    fn lanes(&self) -> usize {
        self.0.len()
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        match tile {
            TileMut::W32(lanes) => {
                (first_lane..)
                    .zip(lanes)
                    .for_each(|(at, lane)| *lane = self.0.get(at) as u32);
            }
            TileMut::W64(lanes) => {
                (first_lane..)
                    .zip(lanes)
                    .for_each(|(at, lane)| *lane = self.0.get(at));
            }
        }
        Ok(())
    }
}

/// Everything but the machines.
pub struct Cohort {
    pub round: Arc<Round>,
    pub identities: Vec<Arc<IdentityKey>>,
    /// Words of all coordinates; where rounds are sparse, 0 at those that are not sent.
    pub inputs: Vec<Words>,
    /// What parties send, where rounds are sparse.
    pub coordinates: Vec<Vec<u32>>,
    pub vaults: Vec<Arc<MemoryVault>>,
}

impl Cohort {
    pub fn new(spec: JobSpec, seed: u64) -> Self {
        let job = Arc::new(spec.validate().unwrap());
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let validity = Validity {
            not_before: 1_000,
            not_after: 2_000,
        };
        let ca =
            CertificateAuthority::create("test", Algorithm::Ed25519, validity, &mut rng).unwrap();
        let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
        let (mut members, mut identities, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..job.spec().parties {
            let (member, identity) = enrol(&ca, &format!("party-{i:05}"), validity, &mut rng);
            members.push(member);
            identities.push(Arc::new(identity));
            inputs.push(random_words(&job, &mut rng));
        }
        let mut coordinates = Vec::new();
        if job.spec().is_sparse() {
            let choose = |words: &mut Words| sparsify(&job, words, &mut rng);
            coordinates = inputs.iter_mut().map(choose).collect();
        }
        let roster = Arc::new(Roster(members).certify(&anchor, 1_500).unwrap());
        let round = Arc::new(Round::new(job, seed, roster, &[9; 32]).unwrap());
        Self {
            round,
            vaults: identities.iter().map(|_| Arc::default()).collect(),
            identities,
            inputs,
            coordinates,
        }
    }

    /// What a party adds.
    pub fn input(&self, party: PartyId) -> Box<dyn Input + '_> {
        let words = &self.inputs[party.rank()];
        let Some(coordinates) = self.coordinates.get(party.rank()) else {
            return Box::new(Given(words));
        };
        Box::new(SparseInput::new(coordinates, At { words, coordinates }))
    }

    pub fn setup(&self, me: PartyId) -> ClientSetup {
        ClientSetup {
            round: self.round.clone(),
            me,
            identity: self.identities[me.rank()].clone(),
            vault: self.vaults[me.rank()].clone(),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
        }
    }

    /// The same parties, with what they keep, in another round.
    pub fn begin(&self, round: Round) -> Self {
        Self {
            round: Arc::new(round),
            identities: self.identities.clone(),
            inputs: self.inputs.clone(),
            coordinates: self.coordinates.clone(),
            vaults: self.vaults.clone(),
        }
    }

    /// The plaintext sum of some parties.
    pub fn sum_of(&self, parties: impl IntoIterator<Item = PartyId>) -> Words {
        let mut sum = self.round.job().zeros();
        parties
            .into_iter()
            .for_each(|party| sum.add(&self.inputs[party.rank()]).unwrap());
        sum
    }

    /// What these survivors learn: where rounds are sparse, coordinates that fewer than `least` of them sent stay
    /// closed.
    pub fn opened(&self, survivors: &PartySet, least: u32) -> RoundSum {
        let (sum, survivors) = (self.sum_of(survivors.iter()), survivors.clone());
        if self.coordinates.is_empty() {
            return RoundSum {
                sum,
                survivors,
                contributors: None,
            };
        }
        let mut counts = vec![0; sum.len()];
        for party in survivors.iter() {
            let sent = &self.coordinates[party.rank()];
            sent.iter().for_each(|&d| counts[d as usize] += 1);
        }
        let pairs = sum.iter().zip(&counts);
        let opened: Vec<u64> = pairs
            .map(|(word, &count)| if count < least { 0 } else { word })
            .collect();
        RoundSum {
            sum: Words::from_values(sum.width(), &opened).unwrap(),
            survivors,
            contributors: Some(counts),
        }
    }
}

fn enrol(
    ca: &CertificateAuthority,
    name: &str,
    validity: Validity,
    rng: &mut ChaCha20Rng,
) -> (Member, IdentityKey) {
    let credential = ca
        .issue(name, &Kind::Party, Algorithm::Ed25519, validity, rng)
        .unwrap();
    let identity = IdentityKey::from_pem(&credential.key).unwrap();
    let mut nonce = [0; 32];
    rng.fill_bytes(&mut nonce);
    let certificate = CertificateDer::from_pem_slice(credential.certificate.as_bytes()).unwrap();
    let certificate = certificate.to_vec();
    (
        Member {
            name: name.into(),
            certificate,
            nonce,
        },
        identity,
    )
}

/// Words that parties may send, so that sums do not wrap. Those of fixed point are negative too: only its sums,
/// taken as unsigned, are beyond the width.
fn random_words(job: &Job, rng: &mut ChaCha20Rng) -> Words {
    let mut words = job.zeros();
    let (largest, mask) = (job.encoding().largest_sum(), u128::from(job.width().mask()));
    let bound = (largest.min(mask) / u128::from(job.spec().parties)) as u64;
    let least = if largest > mask { bound / 2 } else { 0 };
    match words.tile_mut(0..words.len()) {
        TileMut::W32(lanes) => lanes
            .iter_mut()
            .for_each(|l| *l = (rng.next_u64() % bound) as u32),
        TileMut::W64(lanes) => lanes
            .iter_mut()
            .for_each(|l| *l = (rng.next_u64() % bound).wrapping_sub(least)),
    }
    words
}

/// Leaves the words at some coordinates only, as many as a party may send or fewer; gives them.
fn sparsify(job: &Job, words: &mut Words, rng: &mut ChaCha20Rng) -> Vec<u32> {
    let schedule = job.density().unwrap();
    let tensors = job.encoding().tensors();
    let most: usize = tensors.map(|(run, _)| schedule.kept(0, run.len())).sum();
    let mut left = 1 + rng.next_u64() % most as u64;
    let (mut values, mut coordinates) = (vec![0; words.len()], Vec::new());
    for (d, value) in values.iter_mut().enumerate() {
        if rng.next_u64() % ((words.len() - d) as u64) < left {
            (*value, left) = (words.get(d), left - 1);
            coordinates.push(d as u32);
        }
    }
    *words = Words::from_values(job.width(), &values).unwrap();
    coordinates
}

/// The words at some coordinates.
struct At<'a> {
    words: &'a Words,
    coordinates: &'a [u32],
}

impl Input for At<'_> {
    fn lanes(&self) -> usize {
        self.coordinates.len()
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let coordinates = &self.coordinates[first_lane..first_lane + tile.len()];
        let values: Vec<u64> = coordinates
            .iter()
            .map(|&d| self.words.get(d as usize))
            .collect();
        let words = Words::from_values(self.words.width(), &values).unwrap();
        Given(&words).read(0, tile)
    }
}

/// A cohort with its machines.
pub struct Rig {
    pub cohort: Cohort,
    pub clients: BTreeMap<PartyId, Client>,
    pub server: Option<Server>,
    /// What clients are about to receive.
    pub down: BTreeMap<PartyId, Message>,
    /// What the server is about to receive.
    pub up: BTreeMap<PartyId, Message>,
    /// Answers to the stage under way that are passed on when it ends.
    kept: BTreeMap<PartyId, Message>,
    pub outcome: Option<Outcome>,
    pub rng: ChaCha20Rng,
}

impl Rig {
    /// Everybody's first message is on its way, after a key set-up where the protocol has one.
    pub fn new(spec: JobSpec, seed: u64) -> Self {
        let cohort = Cohort::new(spec, seed);
        let rng = ChaCha20Rng::seed_from_u64(seed + 1);
        if !cohort.round.job().hides_sum() {
            return Self::of(cohort, rng);
        }
        let (job, roster) = (cohort.round.job(), cohort.round.roster());
        let setup = Round::key_setup(job.clone(), seed - 1, roster.clone()).unwrap();
        let mut setup = Self::of(cohort.begin(setup), rng);
        setup.finish().unwrap();
        Self::of(cohort, setup.rng)
    }

    /// Everybody's first message of the job's first key set-up is on its way.
    pub fn first_key_setup(spec: JobSpec, seed: u64) -> Self {
        let cohort = Cohort::new(spec, seed);
        let (job, roster) = (cohort.round.job(), cohort.round.roster());
        let round = Round::key_setup(job.clone(), 1, roster.clone()).unwrap();
        Self::of(cohort.begin(round), ChaCha20Rng::seed_from_u64(seed + 1))
    }

    /// The same parties begin another round; the generator goes over to it.
    pub fn again(&self, number: u64) -> Self {
        let (job, roster) = (self.cohort.round.job(), self.cohort.round.roster());
        let round = Round::new(job.clone(), number, roster.clone(), &[9; 32]).unwrap();
        Self::of(self.cohort.begin(round), self.rng.clone())
    }

    /// The same parties make and deliver a key of the job.
    pub fn key_setup(&self, number: u64) -> Self {
        let (job, roster) = (self.cohort.round.job(), self.cohort.round.roster());
        let round = Round::key_setup(job.clone(), number, roster.clone()).unwrap();
        Self::of(self.cohort.begin(round), self.rng.clone())
    }

    fn of(cohort: Cohort, rng: ChaCha20Rng) -> Self {
        let everyone: Vec<u32> = cohort.round.everyone().map(|party| party.0).collect();
        Self::of_parties(cohort, rng, &everyone)
    }

    /// Some parties' first message is on its way; the others stay away.
    pub fn of_parties(cohort: Cohort, mut rng: ChaCha20Rng, present: &[u32]) -> Self {
        let (mut clients, mut up) = (BTreeMap::new(), BTreeMap::new());
        for party in parties(present.iter().copied()) {
            let input = cohort.input(party);
            let started = Client::start(cohort.setup(party), Some(&*input), &mut rng);
            let (client, message) = started.unwrap();
            clients.insert(party, client);
            up.insert(party, message);
        }
        let server = Some(Server::start(cohort.round.clone()).unwrap());
        Self {
            cohort,
            clients,
            server,
            down: BTreeMap::new(),
            up,
            kept: BTreeMap::new(),
            outcome: None,
            rng,
        }
    }

    /// A cohort where everything has happened up to the answers of stage `stage`, which are on their
    /// way.
    pub fn at(spec: JobSpec, stage: u8) -> Self {
        let mut rig = Self::new(spec, 7);
        for _ in 0..stage {
            rig.serve().unwrap();
            rig.answer_all().unwrap();
        }
        rig
    }

    /// Parties vanish: what they were about to say is lost and they say nothing more.
    pub fn drop_out(&mut self, parties: impl IntoIterator<Item = PartyId>) {
        for party in parties {
            self.clients.remove(&party);
            self.up.remove(&party);
            self.down.remove(&party);
        }
    }

    /// The server receives one message, which is kept if it is passed on.
    pub fn receive(&mut self, party: PartyId, message: &Message) -> Result<(), Fault> {
        let server = self.server.as_mut().unwrap();
        server.receive(party, message)?;
        if server.relays() {
            self.kept.insert(party, message.clone());
        }
        Ok(())
    }

    /// The server takes what is on its way and ends the stage.
    pub fn serve(&mut self) -> Result<(), Fault> {
        for (party, message) in std::mem::take(&mut self.up) {
            let _ = self.receive(party, &message);
        }
        let server = self.server.take().unwrap();
        let kept = std::mem::take(&mut self.kept);
        let messages = match server.close(&mut self.rng)? {
            Closed::Next { server, messages } => {
                self.server = Some(server);
                messages
            }
            Closed::Done { outcome, messages } => {
                self.outcome = Some(outcome);
                messages
            }
        };
        let answer_of = |party| kept.get(&party).map(|message: &Message| &**message);
        let assembled = messages
            .into_iter()
            .map(|(party, outgoing)| (party, outgoing.assemble(answer_of).unwrap()));
        self.down = assembled.collect();
        Ok(())
    }

    /// One client answers what is on its way to it.
    pub fn answer(&mut self, party: PartyId) -> Result<Answer, Fault> {
        let message = self.down[&party].clone();
        self.answer_to(party, &message)
    }

    /// One client answers any message.
    pub fn answer_to(&mut self, party: PartyId, message: &[u8]) -> Result<Answer, Fault> {
        let input = self.cohort.input(party);
        let client = self.clients.get_mut(&party).unwrap();
        let answer = client.answer(message, Some(&*input), &mut self.rng)?;
        if let Answer::Send(message) = &answer {
            self.up.insert(party, message.clone());
        }
        Ok(answer)
    }

    /// Every client that has something to answer does.
    pub fn answer_all(&mut self) -> Result<(), Fault> {
        let parties: Vec<PartyId> = self.down.keys().copied().collect();
        for party in parties {
            if self.clients.contains_key(&party) {
                self.answer(party)?;
            }
        }
        Ok(())
    }

    /// Goes on to the end of the round.
    pub fn finish(&mut self) -> Result<Outcome, Fault> {
        while self.outcome.is_none() {
            self.serve()?;
            self.answer_all()?;
        }
        Ok(self.outcome.take().unwrap())
    }
}

/// Parties by rank.
pub fn parties(ranks: impl IntoIterator<Item = u32>) -> impl Iterator<Item = PartyId> {
    ranks.into_iter().map(PartyId)
}

/// Bytes of the frame before a body (docs/wire.md).
const HEADER: usize = 34;

/// The message with another body.
pub fn with_body(message: &Message, body: &[u8]) -> Message {
    [&message[..HEADER], body].concat().into()
}

/// The message without its frame.
pub fn body(message: &Message) -> &[u8] {
    &message[HEADER..]
}

/// The client that failed says nothing more: the round is burnt for it.
pub fn assert_ended(rig: &mut Rig, party: PartyId) {
    let message = rig.down[&party].clone();
    assert_eq!(
        rig.answer_to(party, &message).unwrap_err().kind,
        FaultKind::Ended
    );
}

/// Under which tests seal snapshots.
pub fn storage_key() -> blindsum_crypto::seal::StorageKey {
    blindsum_crypto::secret::Secret::from([3; 32]).into()
}

/// Seals and restores a client, as a process that was killed would go on. False where nothing goes on from there:
/// the client is the one it was.
pub fn restart(rig: &mut Rig, party: PartyId) -> bool {
    let key = storage_key();
    let sealed = rig.clients[&party].seal(&key, &mut rig.rng).unwrap();
    let Some(sealed) = sealed else {
        return false;
    };
    let setup: ClientSetup = rig.cohort.setup(party);
    let restored = Client::unseal(setup, &key, &sealed).unwrap();
    rig.clients.insert(party, restored);
    true
}
