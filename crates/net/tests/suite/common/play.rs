//! A fake coordinator that plays whole rounds with one real party `a`: the others are machines in here, which say
//! what is theirs whatever happens to `a`. It can say again all that it has said to `a`.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::IdentityKey;
use blindsum_math::words::TileMut;
use blindsum_net::pb::party_frame::Frame;
use blindsum_net::pb::{self, CoordinatorFrame};
use blindsum_net::{Credentials, Model};
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, FaultKind, Input, Job, KnownServers,
    MemoryVault, Message, Outgoing, PartyId, Round, Seat, Server, nonce_commitment,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::fake::{Cast, Line, name};
use super::raw::certificate;
use super::{Pki, now};

/// What `a` says next.
#[derive(Debug)]
pub enum Reply {
    Ready(pb::Ready),
    Message(pb::Chunk),
    Opened(pb::NonceOpening),
    Refused(pb::RoundRefused),
    /// It asks for a model first.
    LacksModel,
    Gone,
}

/// The next thing that matters of what `a` says.
pub fn reply(line: &mut Line<'_>) -> Reply {
    loop {
        return match line.next() {
            Some(Frame::Ready(ready)) => Reply::Ready(ready),
            Some(Frame::Chunk(chunk)) => Reply::Message(chunk),
            Some(Frame::NonceOpening(opening)) => Reply::Opened(opening),
            Some(Frame::RoundRefused(refused)) => Reply::Refused(refused),
            Some(Frame::ModelRequest(_)) => Reply::LacksModel,
            Some(_) => continue,
            None => Reply::Gone,
        };
    }
}

/// A round as `a` was told it.
#[derive(Clone)]
pub struct Told {
    /// The roster, where it was fixed first.
    pub fixed: Option<pb::RosterFixed>,
    pub start: pb::RoundStart,
    /// The messages that ended its stages.
    pub messages: Vec<pb::Chunk>,
}

/// Everybody but `a`, and what becomes of the rounds.
pub struct Play {
    pub job: Arc<Job>,
    a: Credentials,
    others: Vec<Credentials>,
    vaults: Vec<Arc<MemoryVault>>,
    rng: ChaCha20Rng,
    /// The rounds that went on to the end of a stage, oldest first.
    pub told: Vec<Told>,
    /// What `a` said, each message once: context and stage, and the bytes.
    pub said: Vec<(Vec<u8>, Vec<u8>)>,
    /// How it ended the last round that it did not go along with.
    pub refused: Option<pb::RoundRefused>,
}

/// Bytes of the frame of a message: version, stage and context.
const FRAME: usize = 34;

impl Play {
    /// A job for `a` and others, which have what they keep here.
    pub fn new(pki: &Pki, job: Arc<Job>) -> Self {
        let others = (1..job.spec().parties).map(|rank| pki.party(&format!("b-{rank}")));
        let others: Vec<_> = others.collect();
        Self {
            a: pki.party("a"),
            vaults: others.iter().map(|_| Arc::default()).collect(),
            others,
            rng: ChaCha20Rng::seed_from_u64(job.spec().parties.into()),
            told: Vec::new(),
            said: Vec::new(),
            refused: None,
            job,
        }
    }

    /// The credentials of the party that is not played here.
    pub fn a(&self) -> Credentials {
        self.a.clone()
    }

    /// Notes a message of `a`.
    pub fn hear(&mut self, chunk: &pb::Chunk) {
        assert_eq!(chunk.total, chunk.data.len() as u64, "more than one chunk");
        let (frame, body) = chunk.data.split_at(FRAME);
        let said = (frame.to_vec(), body.to_vec());
        if !self.said.contains(&said) {
            self.said.push(said);
        }
    }

    /// Messages that `a` said twice with different bytes in one stage of one round, as stages.
    pub fn said_twice(&self) -> Vec<u8> {
        let mut times: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (frame, _) in &self.said {
            *times.entry(frame).or_default() += 1;
        }
        let twice = times.into_iter().filter(|(_, times)| *times > 1);
        twice.map(|(frame, _)| frame[1]).collect()
    }

    /// Plays a round with `a`, which is ready, as far as `a` goes along; whether that is to its end. `before` is
    /// called whenever `a` has said something.
    pub fn round(
        &mut self,
        line: &mut Line<'_>,
        ready: &pb::Ready,
        kind: pb::RoundKind,
        before: impl FnMut(),
    ) -> bool {
        self.round_without(line, ready, kind, &[], before)
    }

    /// The same, where parties of these ranks vanish with their vectors.
    pub fn round_without(
        &mut self,
        line: &mut Line<'_>,
        ready: &pb::Ready,
        kind: pb::RoundKind,
        lost: &[u32],
        mut before: impl FnMut(),
    ) -> bool {
        let model = Model::initial(&self.job);
        let others: Vec<&Credentials> = self.others.iter().collect();
        let mut start = Cast::new(&self.a, &ready.nonce, &others).start(ready.round, &model);
        start.kind = kind.into();
        if kind == pb::RoundKind::Sum {
            let numbers = self.job.round_parameters_for(start.roster.len()).unwrap();
            start.numbers = Some(numbers.into());
        }
        let fixed = (self.job.commits_nonces()).then(|| self.fixed(&start, &ready.commitment));
        if let Some(fixed) = &fixed {
            line.send(fixed.clone());
            match reply(line) {
                Reply::Opened(opening) => start.roster[0].nonce = opening.nonce.into(),
                Reply::Refused(refused) => {
                    self.refused = Some(refused);
                    return false;
                }
                _ => return false,
            }
            start.certificates.clear();
        }
        let round = self.round_of(&start, &model);
        let mut server = Server::start(round.clone()).unwrap();
        let (mut clients, mut up) = self.begin(&round);
        line.send(start.clone());
        self.told.push(Told {
            fixed,
            start,
            messages: Vec::new(),
        });
        loop {
            let waiting = server.waiting();
            if waiting.missing.contains(&PartyId(0)) {
                let chunk = match reply(line) {
                    Reply::Message(chunk) => chunk,
                    Reply::Refused(refused) => {
                        self.refused = Some(refused);
                        return false;
                    }
                    _ => return false,
                };
                before();
                self.hear(&chunk);
                up.insert(PartyId(0), chunk.data.to_vec().into());
            }
            if Some(waiting.stage) == round.plan().input_stage() {
                up.retain(|party, _| !lost.contains(&party.0));
                clients.retain(|party, _| !lost.contains(&party.0));
            }
            for (party, message) in &up {
                if server.receive(*party, message).is_err() && party.0 == 0 {
                    return false;
                }
            }
            let Ok(closed) = server.close(&mut self.rng) else {
                return false;
            };
            let (next, messages) = match closed {
                Closed::Next {
                    server, messages, ..
                } => (Some(server), messages),
                Closed::Done { messages, .. } => (None, messages),
            };
            let down = in_one_piece(&up, &messages);
            up = self.answer(&mut clients, &down);
            let to_a = down.get(&PartyId(0)).cloned().unwrap_or_default();
            let chunk = pb::Chunk {
                round: ready.round,
                stage: waiting.stage.into(),
                offset: 0,
                total: to_a.len() as u64,
                data: to_a,
            };
            line.send(chunk.clone());
            self.told.last_mut().unwrap().messages.push(chunk);
            match next {
                Some(next) => server = next,
                None => return true,
            }
        }
    }

    /// The roster of a round, fixed before it begins: `a` has committed to its nonce.
    fn fixed(&self, start: &pb::RoundStart, committed: &[u8]) -> pb::RosterFixed {
        let names = (1..).map(|rank| format!("b-{rank}"));
        let others = start.roster[1..].iter().zip(names).map(|(member, name)| {
            let nonce = member.nonce.as_ref().try_into().unwrap();
            let commitment = nonce_commitment(&self.job, start.round, &name, &nonce);
            (member, commitment.to_vec())
        });
        let all = std::iter::once((&start.roster[0], committed.to_vec())).chain(others);
        let member = |(member, commitment): (&pb::Participant, Vec<u8>)| pb::Committed {
            fingerprint: member.fingerprint.clone(),
            commitment: commitment.into(),
        };
        pb::RosterFixed {
            round: start.round,
            model: start.model.clone(),
            roster: all.map(member).collect(),
            certificates: start.certificates.clone(),
            numbers: start.numbers,
        }
    }

    fn round_of(&self, start: &pb::RoundStart, model: &Model) -> Arc<Round> {
        let anchor = TrustAnchor::from_pem(&self.a.ca, None).unwrap();
        let members = std::iter::once(&self.a)
            .chain(&self.others)
            .zip(&start.roster);
        let members = members.map(|(credentials, participant)| {
            let certificate = certificate(credentials);
            Member {
                name: anchor.verify_party(&certificate, now()).unwrap().name,
                nonce: participant.nonce.as_ref().try_into().unwrap(),
                certificate,
            }
        });
        let roster = Roster(members.collect()).certify(&anchor, now()).unwrap();
        let (job, roster) = (self.job.clone(), Arc::new(roster));
        assert_eq!(start.model, Some(name(model)));
        let round = match start.kind() {
            pb::RoundKind::KeySetup => Round::key_setup(job, start.round, roster),
            pb::RoundKind::Sum => {
                let numbers = start.numbers.as_ref().unwrap().into();
                Round::announced(job, start.round, roster, model.hash(), numbers)
            }
        };
        Arc::new(round.unwrap())
    }

    /// The machines of the others, and what they say first.
    fn begin(
        &mut self,
        round: &Arc<Round>,
    ) -> (BTreeMap<PartyId, Client>, BTreeMap<PartyId, Message>) {
        let (mut clients, mut up) = (BTreeMap::new(), BTreeMap::new());
        for (rank, (credentials, vault)) in (1..).zip(self.others.iter().zip(&self.vaults)) {
            let me = PartyId(rank);
            let setup = ClientSetup {
                round: round.clone(),
                me,
                identity: Arc::new(IdentityKey::from_pem(&credentials.key).unwrap()),
                vault: vault.clone(),
                servers: KnownServers::default(),
                memory: Arc::default(),
                prepared: Arc::default(),
                guard: Arc::new(AnySurvivors),
            };
            let input = Ones::of(&self.job);
            // Whoever has used its key in a round of this number says nothing in it.
            if let Ok((client, answer)) = Client::start(setup, Some(&input), &mut self.rng) {
                clients.insert(me, client);
                up.extend(answer.message().map(|message| (me, message)));
            }
        }
        (clients, up)
    }

    /// What the others say to this.
    fn answer(
        &mut self,
        clients: &mut BTreeMap<PartyId, Client>,
        down: &BTreeMap<PartyId, Message>,
    ) -> BTreeMap<PartyId, Message> {
        let mut up = BTreeMap::new();
        for (party, client) in clients {
            let Some(message) = down.get(party) else {
                continue;
            };
            let input = Ones::of(&self.job);
            if let Ok(Answer::Send(answer)) = client.answer(message, Some(&input), &mut self.rng) {
                up.insert(*party, answer);
            }
        }
        up
    }
}

/// What each party is told.
fn in_one_piece(
    up: &BTreeMap<PartyId, Message>,
    messages: &[(Seat, Outgoing)],
) -> BTreeMap<PartyId, Message> {
    let answer_of = |party| up.get(&party).map(|message| &**message);
    let assembled = messages.iter().map(|(seat, outgoing)| {
        let party = seat.party().unwrap();
        (party, outgoing.assemble(answer_of).unwrap())
    });
    assembled.collect()
}

/// Words that are all 1; of the first two coordinates where rounds are sparse.
struct Ones {
    lanes: usize,
    coordinates: Option<[u32; 2]>,
}

impl Ones {
    fn of(job: &Job) -> Self {
        match job.density() {
            None => Self {
                lanes: job.lanes(),
                coordinates: None,
            },
            Some(_) => Self {
                lanes: 2,
                coordinates: Some([0, 1]),
            },
        }
    }
}

impl Input for Ones {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn coordinates(&self) -> Option<&[u32]> {
        self.coordinates.as_ref().map(<[u32; 2]>::as_slice)
    }

    fn read(&self, _first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        match tile {
            TileMut::W32(lanes) => lanes.fill(1),
            TileMut::W64(lanes) => lanes.fill(1),
        }
        Ok(())
    }
}

/// Offers a round to `a`.
pub fn offer(line: &Line<'_>, play: &Play, round: u64) {
    let model = Some(name(&Model::initial(&play.job)));
    line.send(pb::RoundOffer {
        round,
        model,
        ..pb::RoundOffer::default()
    });
}

/// Ends a round for `a` without a result.
pub fn abort(round: u64) -> CoordinatorFrame {
    pb::RoundAborted {
        round,
        only_you: false,
        reason: "the coordinator wants it so".into(),
        counted: false,
        unknown: false,
    }
    .into()
}
