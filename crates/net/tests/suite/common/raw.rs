//! A party written from `docs/wire.md` and the protocol machines alone, frame by frame: it stops,
//! stays silent or misbehaves exactly where a test wants it to.

use std::collections::HashMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::kdf;
use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::IdentityKey;
use blindsum_encode::Encoder;
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode};
use blindsum_net::{CHUNK, Credentials};
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Input, Job, JobSpec, KnownServers, MemoryVault,
    PartyId, Round, nonce_commitment,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

pub use super::dial::{channel, runtime};
use super::encoded::Encoded;
use super::{PATIENCE, now};

pub struct Raw {
    runtime: Runtime,
    frames: Option<mpsc::Sender<PartyFrame>>,
    inbound: Streaming<CoordinatorFrame>,
    credentials: Credentials,
    certificates: HashMap<Vec<u8>, Vec<u8>>,
    rng: ChaCha20Rng,
    pub job: Option<Arc<Job>>,
    pub client: Option<Client>,
    vault: Arc<MemoryVault>,
    pub round: u64,
    nonce: [u8; 32],
    /// What it sends when it is asked for the model, in place of it, the first piece only; nothing where there is none.
    pub sealed: Option<Vec<u8>>,
}

pub fn certificate(credentials: &Credentials) -> Vec<u8> {
    CertificateDer::from_pem_slice(credentials.certificate.as_bytes())
        .unwrap()
        .to_vec()
}

pub fn hello(job: &str, name: &str) -> pb::Hello {
    pb::Hello {
        first_version: *pb::WIRE_VERSIONS.start(),
        last_version: *pb::WIRE_VERSIONS.end(),
        program: "raw".into(),
        job: job.into(),
        name: name.into(),
        ..pb::Hello::default()
    }
}

impl Raw {
    /// Connects and says `first`.
    pub fn open(url: &str, credentials: Credentials, first: impl Into<PartyFrame>) -> Self {
        let runtime = runtime();
        let channel = channel(&runtime, url, &credentials).unwrap();
        let (frames, stream) = mpsc::channel(64);
        frames.try_send(first.into()).unwrap();
        let connect = async {
            let mut client = CoordinatorClient::new(channel);
            client
                .connect(ReceiverStream::new(stream))
                .await
                .unwrap()
                .into_inner()
        };
        let inbound = runtime.block_on(connect);
        let seed = certificate(&credentials)
            .iter()
            .map(|b| u64::from(*b))
            .sum();
        Self {
            runtime,
            frames: Some(frames),
            inbound,
            credentials,
            certificates: HashMap::new(),
            rng: ChaCha20Rng::seed_from_u64(seed),
            job: None,
            client: None,
            vault: Arc::default(),
            round: 0,
            nonce: [0; 32],
            sealed: None,
        }
    }

    /// Connects to the job `test` under `name` and reads the Welcome.
    pub fn join(url: &str, credentials: Credentials, name: &str) -> Self {
        let mut raw = Self::open(url, credentials, hello("test", name));
        let Some(Frame::Welcome(welcome)) = raw.next() else {
            panic!("no Welcome");
        };
        let spec: blindsum_protocol::JobSpec = serde_json::from_str(&welcome.job_spec).unwrap();
        let job = Arc::new(spec.validate().unwrap());
        assert_eq!(welcome.job_hash, job.hash());
        raw.job = Some(job);
        raw
    }

    /// Takes the job for this one.
    pub fn learn(&mut self, spec: JobSpec) {
        self.job = Some(Arc::new(spec.validate().unwrap()));
    }

    pub fn send(&self, frame: impl Into<PartyFrame>) {
        let frames = self.frames.as_ref().unwrap();
        self.runtime
            .block_on(async { frames.send(frame.into()).await.unwrap() });
    }

    /// The next frame; none where the stream has ended.
    pub fn next(&mut self) -> Option<Frame> {
        let next = async {
            tokio::time::timeout(PATIENCE, self.inbound.message())
                .await
                .expect("no frame came")
        };
        match self.runtime.block_on(next) {
            Ok(Some(frame)) => {
                let frame = frame.frame.expect("an empty frame");
                if let (Frame::ModelWanted(wanted), Some(sealed)) = (&frame, &self.sealed) {
                    self.send(pb::ModelChunk {
                        version: wanted.version,
                        offset: 0,
                        total: sealed.len() as u64,
                        data: sealed.chunks(CHUNK).next().unwrap().to_vec().into(),
                    });
                }
                Some(frame)
            }
            Ok(None) | Err(_) => None,
        }
    }

    /// Says small things without end, beside everything else, for as long as the stream is there.
    pub fn chatter(&self) {
        let frames = self.frames.clone().unwrap();
        self.runtime.spawn(async move {
            let small = pb::ModelRequest { version: 7 };
            while frames.send(small.into()).await.is_ok() {}
        });
    }

    /// Sends the longest answer to the first stage, a piece each so often, beside everything else, for as long as the
    /// stream is there.
    pub fn drip(&self, every: std::time::Duration) {
        let (frames, round) = (self.frames.clone().unwrap(), self.round);
        let total = self.job.as_ref().unwrap().plan().answer(0).unwrap().largest;
        self.runtime.spawn(async move {
            for offset in (0..total).step_by(CHUNK) {
                let data = vec![0; CHUNK.min((total - offset) as usize)].into();
                let chunk = pb::Chunk {
                    round,
                    stage: 0,
                    offset,
                    total,
                    data,
                };
                if frames.send(chunk.into()).await.is_err() {
                    return;
                }
                tokio::time::sleep(every).await;
            }
        });
    }

    /// Skips to the frame that `wanted` picks.
    pub fn until<T>(&mut self, mut wanted: impl FnMut(Frame) -> Option<T>) -> T {
        loop {
            let frame = self.next().expect("the stream ended");
            if let Some(found) = wanted(frame) {
                return found;
            }
        }
    }

    /// Skips to a refusal, after which the stream must end.
    pub fn refusal(&mut self) -> (RefusalCode, String) {
        let refused = self.until(|frame| match frame {
            Frame::Refused(refused) => Some(refused),
            _ => None,
        });
        assert!(self.next().is_none(), "frames after a refusal");
        (refused.code(), refused.reason)
    }

    /// Answers the next offer and begins the round; a key set-up before it is played to its end.
    pub fn begin(&mut self) -> pb::RoundStart {
        loop {
            self.ready();
            let start = self.started();
            if start.kind() == pb::RoundKind::Sum {
                return start;
            }
            self.play_while(&start, 0.0, |_| true);
        }
    }

    /// Answers the next offer.
    pub fn ready(&mut self) {
        let offer = self.until(|frame| match frame {
            Frame::RoundOffer(offer) => Some(offer),
            _ => None,
        });
        self.rng.fill_bytes(&mut self.nonce);
        let (round, job) = (offer.round, self.job.clone().unwrap());
        let key_id = job.held_key(&*self.vault, round).unwrap();
        let anchor = TrustAnchor::from_pem(&self.credentials.ca, None).unwrap();
        let own = anchor.verify_party(&certificate(&self.credentials), now());
        let commitment = nonce_commitment(&job, round, &own.unwrap().name, &self.nonce);
        let commits = job.commits_nonces();
        let said = |bytes: &[u8], it_is: bool| if it_is { bytes.to_vec() } else { Vec::new() };
        self.send(pb::Ready {
            round,
            nonce: said(&self.nonce, !commits),
            commitment: said(&commitment, commits),
            key_id: key_id.map_or(Vec::new(), |key| key.to_vec()),
            lacks_model: false,
            tag: None,
            about: Vec::new(),
        });
    }

    /// Reads the beginning of a round, for which it opens its nonce where that is asked for.
    pub fn started(&mut self) -> pb::RoundStart {
        loop {
            match self.next().expect("the stream ended") {
                Frame::RosterFixed(fixed) => self.open_for(&fixed),
                Frame::RoundStart(start) => {
                    self.learn_start(&start);
                    return start;
                }
                _ => {}
            }
        }
    }

    /// Opens its nonce once the roster is fixed, where the parties of the job commit to theirs.
    pub fn open_nonce(&mut self) {
        if self.job.as_ref().is_some_and(|job| job.commits_nonces()) {
            let fixed = self.until(|frame| match frame {
                Frame::RosterFixed(fixed) => Some(fixed),
                _ => None,
            });
            self.open_for(&fixed);
        }
    }

    fn open_for(&mut self, fixed: &pb::RosterFixed) {
        self.know(&fixed.certificates);
        self.send(pb::NonceOpening {
            round: fixed.round,
            nonce: self.nonce.to_vec(),
        });
    }

    /// Keeps what the beginning of a round brings.
    pub fn learn_start(&mut self, start: &pb::RoundStart) {
        self.know(&start.certificates);
        self.round = start.round;
    }

    fn know(&mut self, certificates: &[bytes::Bytes]) {
        for certificate in certificates {
            let fingerprint = kdf::hash("blindsum certificate", &[certificate]);
            self.certificates
                .insert(fingerprint.to_vec(), certificate.to_vec());
        }
    }

    fn start_machine(&mut self, start: &pb::RoundStart, value: f32) -> Vec<u8> {
        let anchor = TrustAnchor::from_pem(&self.credentials.ca, None).unwrap();
        let members = start.roster.iter().map(|participant| {
            let certificate = self.certificates[participant.fingerprint.as_ref()].clone();
            Member {
                name: anchor.verify_party(&certificate, now()).unwrap().name,
                nonce: participant.nonce.as_ref().try_into().unwrap(),
                certificate,
            }
        });
        let roster = Roster(members.collect()).certify(&anchor, now()).unwrap();
        let own = certificate(&self.credentials);
        let me = roster
            .members()
            .iter()
            .position(|m| m.certificate == own)
            .unwrap();
        let hash: [u8; 32] = start.model.clone().unwrap().hash.try_into().unwrap();
        let job = self.job.clone().unwrap();
        let (of, roster) = (job.clone(), Arc::new(roster));
        let round = match start.kind() {
            pb::RoundKind::Sum => {
                let numbers = start.numbers.as_ref().unwrap().into();
                Round::announced(of, start.round, roster, &hash, numbers).unwrap()
            }
            pb::RoundKind::KeySetup => Round::key_setup(of, start.round, roster).unwrap(),
        };
        let needs_input = round.plan().input_stage() == Some(0);
        let setup = ClientSetup {
            round: Arc::new(round),
            me: PartyId(me as u32),
            identity: Arc::new(IdentityKey::from_pem(&self.credentials.key).unwrap()),
            vault: self.vault.clone(),
            servers: KnownServers::default(),
            memory: Arc::default(),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
        };
        let input = self.input(value);
        let input = needs_input.then_some(&input as &dyn Input);
        let (client, answer) = Client::start(setup, input, &mut self.rng).unwrap();
        self.client = Some(client);
        answer.message().unwrap().to_vec()
    }

    /// The words of a vector of one value; the first two of them where rounds are sparse.
    fn input(&mut self, value: f32) -> Encoded {
        let job = self.job.clone().unwrap();
        let values = vec![value; job.spec().dim as usize];
        let seed = MaskSeed::from(Secret::generate(&mut self.rng));
        let encoder = Encoder::new(job.encoding(), &values[..], 1, seed).unwrap();
        let mut words = job.zeros();
        let lanes = words.len();
        encoder.encode_tile(0, words.tile_mut(0..lanes)).unwrap();
        Encoded {
            coordinates: job.density().map(|_| [0, 1]),
            words,
        }
    }

    /// Plays a round honestly and stops before it answers stage `stop`, whose answer it gives back;
    /// none where the round was over before.
    pub fn play(&mut self, start: &pb::RoundStart, value: f32, stop: u8) -> Option<Vec<u8>> {
        self.play_while(start, value, |stage| stage != stop)
    }

    /// Plays a round honestly to its end and calls `before` each answer.
    pub fn play_slowly(&mut self, start: &pb::RoundStart, value: f32, mut before: impl FnMut(u8)) {
        self.play_while(start, value, |stage| {
            before(stage);
            true
        });
    }

    fn play_while(
        &mut self,
        start: &pb::RoundStart,
        value: f32,
        mut goes_on: impl FnMut(u8) -> bool,
    ) -> Option<Vec<u8>> {
        let mut answer = self.start_machine(start, value);
        for stage in 0.. {
            if !goes_on(stage) {
                return Some(answer);
            }
            if !answer.is_empty() {
                self.send_message(stage, &answer);
            }
            let message = self.message()?;
            answer = self.answer(&message, value)?;
        }
        None
    }

    /// The machine's answer to a message, empty where there is nothing to say; none where that is the result.
    pub fn answer(&mut self, message: &[u8], value: f32) -> Option<Vec<u8>> {
        let input = self.input(value);
        let input = Some(&input as &dyn Input);
        let client = self.client.as_mut().unwrap();
        match client.answer(message, input, &mut self.rng).unwrap() {
            Answer::Send(answer) => Some(answer.to_vec()),
            Answer::Wait => Some(Vec::new()),
            Answer::Done(_) | Answer::KeyHeld(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Connects again in the middle of the round, with the same machine, which has answered so many
    /// messages.
    pub fn again(self, url: &str, name: &str, answered: u32) -> Self {
        let hello = pb::Hello {
            round: self.round,
            answered,
            ..hello("test", name)
        };
        self.resume(url, hello)
    }

    /// The same with these words.
    pub fn resume(self, url: &str, hello: pb::Hello) -> Self {
        let new = Self::open(url, self.credentials.clone(), hello);
        Self {
            job: self.job,
            client: self.client,
            vault: self.vault,
            round: self.round,
            nonce: self.nonce,
            sealed: self.sealed,
            ..new
        }
    }

    /// A whole message of the coordinator; none where the round is aborted.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        self.until(|frame| match frame {
            Frame::Chunk(chunk) => {
                assert_eq!(chunk.offset, message.len() as u64);
                message.extend_from_slice(&chunk.data);
                (message.len() as u64 == chunk.total).then(|| Some(std::mem::take(&mut message)))
            }
            Frame::RoundAborted(_) => Some(None),
            _ => None,
        })
    }

    /// Whether this is the last stage, and its vector was sent before: then it is told the result.
    pub fn speaks_last_in(&self, stage: u8) -> bool {
        let job = self.job.as_ref().unwrap();
        usize::from(stage) + 1 == job.plan().answers().count()
            && stage > job.plan().input_stage().unwrap()
    }

    /// Skips to the coordinator's last word on the round.
    pub fn done(&mut self) -> pb::RoundDone {
        self.until(|frame| match frame {
            Frame::RoundDone(done) => Some(done),
            _ => None,
        })
    }

    pub fn send_message(&self, stage: u8, message: &[u8]) {
        for (i, data) in message.chunks(CHUNK).enumerate() {
            self.send(pb::Chunk {
                round: self.round,
                stage: stage.into(),
                offset: (i * CHUNK) as u64,
                total: message.len() as u64,
                data: data.to_vec().into(),
            });
        }
    }

    /// Leaves without a word.
    pub fn leave(&mut self) {
        self.frames = None;
    }

    /// Skips to the end of the round: whether only this party lost it, and why.
    pub fn aborted(&mut self) -> (bool, String) {
        self.until(|frame| match frame {
            Frame::RoundAborted(aborted) => Some((aborted.only_you, aborted.reason)),
            _ => None,
        })
    }
}
