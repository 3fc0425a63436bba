//! A party that has a protocol's machine and says frames by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_encode::{Encoder, Encoding, MetricLevels, NoiseSeed, Seeds, Values};
use blindsum_job::coordinator::{LinkId, Peer, Traffic};
use blindsum_job::machine::Now;
use blindsum_job::pb;
use blindsum_job::{Model, fingerprint, result_name};
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Job, KnownServers, MemoryVault, Message, PartyId,
    Round, Tag, nonce_commitment,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// A party.
pub struct Party {
    pub name: Arc<str>,
    /// Its latest connection.
    pub link: LinkId,
    /// Its process: 16 bytes.
    pub process: Vec<u8>,
    /// The token that it was told to come again with.
    pub token: Vec<u8>,
    /// What it adds.
    pub values: Vec<f32>,
    /// What it reports of each metric in a round.
    pub metric: fn(u64) -> Option<f64>,
    /// What it was told of the latest round.
    pub mean: Vec<f32>,
    pub model: Model,
    /// The round that it is in, with its machine.
    pub round: Option<(Arc<Round>, Option<Client>)>,
    /// How many messages it has answered there.
    pub answered: u32,
    result: Vec<u8>,
    nonce: [u8; 32],
    identity: Arc<IdentityKey>,
    certificate: Arc<[u8]>,
    /// Certificates that it was sent.
    known: BTreeMap<[u8; 32], Vec<u8>>,
    vault: Arc<MemoryVault>,
    rng: ChaCha20Rng,
}

/// Nothing is counted.
struct Quiet;

impl Traffic for Quiet {
    fn read(&self) -> u64 {
        0
    }

    fn written(&self) -> u64 {
        0
    }
}

impl Party {
    pub fn new(
        ca: &CertificateAuthority,
        name: &str,
        validity: Validity,
        job: &Job,
        rng: &mut ChaCha20Rng,
    ) -> Self {
        let credential = ca.issue(name, &Kind::Party, Algorithm::Ed25519, validity, rng);
        let credential = credential.unwrap();
        let certificate = CertificateDer::from_pem_slice(credential.certificate.as_bytes());
        let (mut seed, mut process) = ([0; 32], vec![0; 16]);
        rng.fill_bytes(&mut seed);
        rng.fill_bytes(&mut process);
        Self {
            name: name.into(),
            link: LinkId(0),
            process,
            token: Vec::new(),
            values: (0..job.spec().dim).map(|_| small(rng)).collect(),
            metric: |_| None,
            mean: Vec::new(),
            model: Model::initial(job),
            round: None,
            answered: 0,
            result: Vec::new(),
            nonce: [0; 32],
            identity: Arc::new(IdentityKey::from_pem(&credential.key).unwrap()),
            certificate: Arc::from(certificate.unwrap().as_ref()),
            known: BTreeMap::new(),
            vault: Arc::default(),
            rng: ChaCha20Rng::from_seed(seed),
        }
    }

    pub fn peer(&self) -> Peer {
        Peer {
            name: self.name.clone(),
            role: None,
            address: format!("in memory, {}", self.name),
            certificate: self.certificate.clone(),
            key: self.identity.verifying_key().clone(),
            traffic: Arc::new(Quiet),
        }
    }

    /// Its first frame over a connection, the latest of all.
    pub fn hello(&self, connection: u64) -> pb::Hello {
        pb::Hello {
            first_version: *pb::WIRE_VERSIONS.start(),
            last_version: *pb::WIRE_VERSIONS.end(),
            program: "by hand".into(),
            job: "job".into(),
            name: self.name.to_string(),
            round: self.round.as_ref().map_or(0, |(round, _)| round.number()),
            answered: self.answered,
            process: self.process.clone(),
            connection,
            token: self.token.clone(),
            last_round: 0,
            location: String::new(),
            gives_model: false,
            knows_held: false,
        }
    }

    pub fn ready(&mut self, job: &Job, round: u64) -> pb::Ready {
        self.rng.fill_bytes(&mut self.nonce);
        let commitment = nonce_commitment(job, round, &self.name, &self.nonce).to_vec();
        let said = match job.commits_nonces() {
            true => pb::Ready {
                commitment,
                ..pb::Ready::default()
            },
            false => pb::Ready {
                nonce: self.nonce.to_vec(),
                ..pb::Ready::default()
            },
        };
        pb::Ready { round, ..said }
    }

    /// The roster is fixed: its nonce.
    pub fn open(&mut self, fixed: &pb::RosterFixed) -> pb::NonceOpening {
        self.learn(&fixed.certificates);
        pb::NonceOpening {
            round: fixed.round,
            nonce: self.nonce.to_vec(),
        }
    }

    /// Certificates come once to a connection.
    pub fn learn(&mut self, certificates: &[bytes::Bytes]) {
        for certificate in certificates {
            let name = fingerprint(certificate);
            self.known.insert(name, certificate.to_vec());
        }
    }

    /// A round begins: the first message, unless it is in that round already.
    pub fn begin(
        &mut self,
        job: &Arc<Job>,
        anchor: &TrustAnchor,
        start: &pb::RoundStart,
        now: Now,
    ) -> Option<Message> {
        self.learn(&start.certificates);
        if self
            .round
            .as_ref()
            .is_some_and(|(round, _)| round.number() == start.round)
        {
            return None;
        }
        let now = now.unix_millis / 1000;
        let member = |participant: &pb::Participant| {
            let certificate = self.known[&participant.fingerprint[..]].clone();
            Member {
                name: anchor.verify_party(&certificate, now).unwrap().name,
                certificate,
                nonce: participant.nonce[..].try_into().unwrap(),
            }
        };
        let roster = Roster(start.roster.iter().map(member).collect());
        let roster = Arc::new(roster.certify(anchor, now).unwrap());
        let model = start.model.as_ref().unwrap();
        assert!(self.model.is(model));
        let me = PartyId(roster.rank_of(&self.name).unwrap());
        let numbers = start.numbers.as_ref().unwrap().into();
        let hash = self.model.hash();
        let round = Round::announced(job.clone(), start.round, roster, hash, numbers).unwrap();
        let round = round.with_tag(Tag::read(start.tag, &start.about).unwrap());
        let round = Arc::new(round);
        let setup = ClientSetup {
            round: round.clone(),
            me,
            identity: self.identity.clone(),
            vault: self.vault.clone(),
            servers: KnownServers::default(),
            memory: Arc::default(),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
        };
        let encoding = round.encoding().clone();
        let seeds = self.seeds(&encoding);
        let words = Encoder::new(&encoding, Values::F32(&self.values), 1, seeds).unwrap();
        let words = words.with_metrics(&levels(&round, self.metric));
        let first = round.plan().input_stage() == Some(0);
        let input = first.then_some(&words as &dyn blindsum_protocol::Input);
        let (client, answer) = Client::start(setup, input, &mut self.rng).unwrap();
        (self.round, self.answered) = (Some((round, Some(client))), 0);
        answer.message()
    }

    /// A message of the coordinator: the answer, where there is one.
    pub fn answer(&mut self, number: u64, message: &Message) -> Option<Message> {
        let (round, _) = self.round.as_ref().filter(|(r, _)| r.number() == number)?;
        let encoding = round.encoding().clone();
        let seeds = self.seeds(&encoding);
        let (round, client) = self.round.as_mut()?;
        let words = Encoder::new(&encoding, Values::F32(&self.values), 1, seeds).unwrap();
        let words = words.with_metrics(&levels(round, self.metric));
        let client = client.as_mut()?;
        let answer = client.answer(message, Some(&words), &mut self.rng).unwrap();
        self.answered += 1;
        match answer {
            Answer::Send(message) => Some(message),
            Answer::Done(sum) => {
                self.mean = vec![0.0; self.values.len()];
                let survivors = sum.survivors.len();
                let mean = &mut self.mean[..];
                encoding.decode_mean(&sum.sum, survivors, mean).unwrap();
                let reached = encoding.reached(&sum.sum, |_| true).unwrap();
                let mean = self.mean.clone().into();
                self.model = self
                    .model
                    .after(&mean, &reached, round.job().spec())
                    .unwrap();
                self.result = result_name(round, message).to_vec();
                None
            }
            other => panic!("{other:?} in a round by hand"),
        }
    }

    /// The round is over: what it says of that.
    pub fn confirm(&mut self, done: &pb::RoundDone) -> pb::RoundConfirmed {
        self.round = None;
        assert!(done.result == self.result && self.model.is(done.model.as_ref().unwrap()));
        pb::RoundConfirmed {
            round: done.round,
            model: Some(self.model.name()),
            result: self.result.clone(),
        }
    }

    fn seeds(&mut self, encoding: &Encoding) -> Seeds {
        let rounding = MaskSeed::from(Secret::generate(&mut self.rng));
        match encoding.noise() {
            None => rounding.into(),
            Some(_) => {
                let noise = NoiseSeed::from(Secret::generate(&mut self.rng));
                Seeds::with_noise(rounding, noise)
            }
        }
    }
}

/// What a party reports of every metric of the job.
fn levels(round: &Round, metric: fn(u64) -> Option<f64>) -> MetricLevels {
    let values = round.job().spec().metrics.iter();
    let values: Vec<_> = values.map(|_| metric(round.number())).collect();
    round.encoding().metric_levels(&values).unwrap()
}

/// A number between -0.5 and 0.5.
fn small(rng: &mut ChaCha20Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1 << 24) as f32 - 0.5
}
