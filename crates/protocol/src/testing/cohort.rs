//! The parties of the tests: who they are, what they add.

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
    AnySurvivors, ClientSetup, FaultKind, Input, Job, JobMemory, JobSpec, KnownServers,
    MemoryVault, PartyId, PartySet, Round, RoundSum, ServerIdentity, SparseInput,
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
    /// What parties keep of the job in memory.
    pub memories: Vec<Arc<JobMemory>>,
    /// What the servers beside the coordinator keep of the job.
    pub memory: Arc<JobMemory>,
    /// Who is the key service, where that is a server of its own.
    pub key_service: Option<Arc<ServerIdentity>>,
    pub servers: KnownServers,
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
        let host = job.spec().decryptor();
        let key_service = host.map(|host| Arc::new(server(&ca, &host, validity, &mut rng)));
        let roster = Arc::new(Roster(members).certify(&anchor, 1_500).unwrap());
        let round = Arc::new(Round::new(job, seed, roster, &[9; 32]).unwrap());
        Self {
            round,
            vaults: identities.iter().map(|_| Arc::default()).collect(),
            memories: identities.iter().map(|_| Arc::default()).collect(),
            memory: Arc::default(),
            key_service,
            servers: KnownServers::certified_by(Arc::new(anchor), 1_500),
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
            memory: self.memories[me.rank()].clone(),
            servers: self.servers.clone(),
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
            memories: self.memories.clone(),
            memory: self.memory.clone(),
            key_service: self.key_service.clone(),
            servers: self.servers.clone(),
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

/// The identity of a server of a host.
pub fn server(
    ca: &CertificateAuthority,
    host: &str,
    validity: Validity,
    rng: &mut ChaCha20Rng,
) -> ServerIdentity {
    let kind = Kind::Server {
        hosts: vec![host.into()],
    };
    let credential = ca
        .issue(host, &kind, Algorithm::Ed25519, validity, rng)
        .unwrap();
    ServerIdentity {
        chain: vec![der(&credential.certificate)],
        key: Arc::new(IdentityKey::from_pem(&credential.key).unwrap()),
    }
}

fn der(pem: &str) -> Vec<u8> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
    certificate.unwrap().to_vec()
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
    (
        Member {
            name: name.into(),
            certificate: der(&credential.certificate),
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
