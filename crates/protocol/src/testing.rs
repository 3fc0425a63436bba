//! A small cohort in one process, for the tests of this crate: machines driven by hand, stage by stage,
//! so that a test can change any message on its way.

use blindsum_math::words::Words;
use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

// The path is said because other test programs have this file under another name.
#[path = "testing/cohort.rs"]
mod cohort;

pub use cohort::*;

use crate::{
    Answer, Client, ClientSetup, Closed, Excuse, Fault, FaultKind, Follower, FollowerSetup,
    JobSpec, Message, Outcome, Outgoing, PartyId, Round, Seat, Server, ServerIndex, ServerRole,
};

/// Changes a letter from one server to another, or loses it.
pub type OnLetter = Box<dyn FnMut(ServerIndex, ServerIndex, Message) -> Option<Message> + Send>;

/// A cohort with its machines.
pub struct Rig {
    pub cohort: Cohort,
    pub clients: BTreeMap<PartyId, Client>,
    pub server: Option<Server>,
    pub followers: BTreeMap<ServerRole, Follower>,
    /// What clients are about to receive.
    pub down: BTreeMap<PartyId, Message>,
    /// Whom the server went on without in the latest stage, though they had answered.
    pub excused: Vec<Excuse>,
    /// What the server is about to receive.
    pub up: BTreeMap<PartyId, Message>,
    /// What it is about to receive of other servers.
    pub up_of_servers: BTreeMap<ServerRole, Message>,
    /// What parties are about to give other servers of their answers.
    pub parts: BTreeMap<(PartyId, ServerRole), Message>,
    /// Letters on their way between servers.
    said: Vec<(ServerIndex, ServerIndex, Message)>,
    /// Why other servers had no further part in the round.
    pub server_faults: Vec<(ServerIndex, Fault)>,
    /// What ended the part of a server that the coordinator spoke to.
    pub role_faults: Vec<(ServerRole, Fault)>,
    /// What becomes of letters on their way between servers; lost where it says so.
    pub on_letter: OnLetter,
    /// What becomes of notices of uploads on their way between servers; as above.
    pub on_notice: OnLetter,
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

    /// The same with other inputs than honest parties have, in a job whose parties share no key.
    pub fn lying(spec: JobSpec, seed: u64, change: impl FnOnce(&mut Vec<Words>)) -> Self {
        let mut cohort = Cohort::new(spec, seed);
        change(&mut cohort.inputs);
        Self::of(cohort, ChaCha20Rng::seed_from_u64(seed + 1))
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
        let mut parts = BTreeMap::new();
        for party in parties(present.iter().copied()) {
            let input = cohort.input(party);
            let started = Client::start(cohort.setup(party), Some(&*input), &mut rng);
            let (client, answer) = started.unwrap();
            assert_planned(&cohort.round, party, &client, &answer);
            let of_party = client.parts().iter().cloned();
            parts.extend(of_party.map(|(role, part)| ((party, role), part)));
            clients.insert(party, client);
            if let Answer::Send(message) = answer {
                up.insert(party, message);
            }
        }
        let server = Some(Server::start(cohort.round.clone()).unwrap());
        let round = &cohort.round;
        let follower = |role| {
            let setup = FollowerSetup {
                round: round.clone(),
                role,
                memory: cohort.memory.clone(),
                identity: cohort.key_service.clone(),
                now: 0,
            };
            (role, Follower::start(setup).unwrap())
        };
        Self {
            followers: round.servers().map(follower).collect(),
            cohort,
            clients,
            server,
            down: BTreeMap::new(),
            excused: Vec::new(),
            up,
            up_of_servers: BTreeMap::new(),
            parts,
            said: Vec::new(),
            server_faults: Vec::new(),
            role_faults: Vec::new(),
            on_letter: Box::new(|_, _, letter| Some(letter)),
            on_notice: Box::new(|_, _, notice| Some(notice)),
            kept: BTreeMap::new(),
            outcome: None,
            rng,
        }
    }

    /// A cohort where everything has happened up to the answers of stage `stage`, which are on their
    /// way.
    pub fn at(spec: JobSpec, stage: u8) -> Self {
        let mut rig = Self::new(spec, 7);
        let is_before = |server: &Server| server.waiting().stage < stage;
        while rig.server.as_ref().is_some_and(is_before) {
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
            self.parts.retain(|(from, _), _| *from != party);
            self.down.remove(&party);
        }
    }

    /// What a party gives other servers where it begins the round once more.
    pub fn parts_again(&mut self, party: PartyId) -> BTreeMap<ServerRole, Message> {
        let (input, setup) = (self.cohort.input(party), self.cohort.setup(party));
        let (client, _) = Client::start(setup, Some(&*input), &mut self.rng).unwrap();
        client.parts().iter().cloned().collect()
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
        for ((party, role), part) in std::mem::take(&mut self.parts) {
            let follower = self.followers.get_mut(&role).unwrap();
            let _ = follower.take_upload(party, &part);
            self.tell_of_uploads()?;
        }
        for (party, message) in std::mem::take(&mut self.up) {
            let _ = self.receive(party, &message);
            self.tell_of_uploads()?;
        }
        let mut server = self.server.take().unwrap();
        for (role, message) in std::mem::take(&mut self.up_of_servers) {
            let _ = server.receive(role, &message);
        }
        let (answered, waiting) = (server.answered(), server.waiting());
        let step = self.cohort.round.plan().answer(waiting.stage).unwrap();
        assert!(waiting.required >= step.enough, "{step:?} of {waiting:?}");
        let kept = std::mem::take(&mut self.kept);
        self.excused.clear();
        let (told, messages) = match server.close(&mut self.rng)? {
            Closed::Next {
                server,
                messages,
                excused,
            } => {
                let told = server.waiting().stage - 1;
                (self.server, self.excused) = (Some(server), excused);
                (told, messages)
            }
            Closed::Done { outcome, messages } => {
                self.outcome = Some(outcome);
                let stages = self.cohort.round.plan().answers().count();
                (stages as u8 - 1, messages)
            }
        };
        self.check_replies(told, &answered, &messages);
        let answer_of = |party| kept.get(&party).map(|message: &Message| &**message);
        self.down.clear();
        for (to, outgoing) in messages {
            let message = outgoing.assemble(answer_of).unwrap();
            match to {
                Seat::Party(party) => drop(self.down.insert(party, message)),
                Seat::Server(role) => self.tell(role, &message),
            }
        }
        self.talk()
    }

    /// Servers that compute together tell each other of the uploads that they took.
    fn tell_of_uploads(&mut self) -> Result<(), Fault> {
        let mut notices = Vec::new();
        let mut say = |from, told: Vec<(ServerIndex, Message)>| {
            notices.extend(told.into_iter().map(|(to, notice)| (from, to, notice)));
        };
        if let Some(server) = &mut self.server {
            say(ServerIndex::ALL[0], server.notices());
        }
        for (role, follower) in &mut self.followers {
            if let Some(place) = role.place() {
                say(place, follower.notices());
            }
        }
        for (from, to, notice) in notices {
            if let Some(notice) = (self.on_notice)(from, to, notice) {
                self.letter(from, to, &notice)?;
            }
        }
        Ok(())
    }

    /// Servers that compute together talk until they have nothing more to say.
    fn talk(&mut self) -> Result<(), Fault> {
        let coordinator = ServerIndex::ALL[0];
        loop {
            let mut letters = std::mem::take(&mut self.said);
            let mut say = |from, said: Vec<(ServerIndex, Message)>| {
                letters.extend(said.into_iter().map(|(to, letter)| (from, to, letter)));
            };
            if let Some(server) = &mut self.server {
                say(coordinator, server.letters());
            }
            for (role, follower) in &mut self.followers {
                if let Some(place) = role.place() {
                    say(place, follower.letters());
                }
            }
            if letters.is_empty() {
                return Ok(());
            }
            for (from, to, letter) in letters {
                let most = self.cohort.round.plan().largest_letter();
                assert!(
                    letter.len() as u64 <= most,
                    "{} bytes, not {most}",
                    letter.len()
                );
                if let Some(letter) = (self.on_letter)(from, to, letter) {
                    self.letter(from, to, &letter)?;
                }
            }
        }
    }

    /// One server hears another one. Whoever finds something wrong has no further part in the round.
    fn letter(&mut self, from: ServerIndex, to: ServerIndex, letter: &[u8]) -> Result<(), Fault> {
        let Some(role) = ServerRole::at(to) else {
            return self.server.as_mut().unwrap().receive_letter(from, letter);
        };
        match self
            .followers
            .get_mut(&role)
            .unwrap()
            .receive_letter(from, letter)
        {
            Ok(answer) => drop(answer.map(|answer| self.up_of_servers.insert(role, answer))),
            Err(fault) => self.server_faults.push((to, fault)),
        }
        Ok(())
    }

    /// What the server says at the end of a stage is in the plan, and so is whom it says nothing.
    fn check_replies(&self, told: u8, answered: &[PartyId], messages: &[(Seat, Outgoing)]) {
        let plan = self.cohort.round.plan();
        for (to, outgoing) in messages {
            let length = Some(outgoing.len());
            assert!(
                plan.allows_reply(*to, told, length),
                "to {to}: {length:?} bytes, {told}"
            );
        }
        for party in answered {
            let addressed = messages.iter().any(|(to, _)| *to == (*party).into());
            let excused = self.excused.iter().any(|excuse| excuse.party == *party);
            let silence = plan.allows_reply(*party, told, None);
            assert!(
                addressed || excused || silence,
                "nothing for {party} after stage {told}"
            );
        }
    }

    /// Another server hears something, and answers.
    fn tell(&mut self, role: ServerRole, message: &[u8]) {
        let Some(follower) = self.followers.get_mut(&role) else {
            return;
        };
        let answer = match follower.answer(message, &mut self.rng) {
            Ok(answer) => answer,
            Err(fault) => return self.role_faults.push((role, fault)),
        };
        let (stage, length) = (follower.heard(), answer.as_ref().map(|answer| answer.len()));
        let (plan, letters) = (self.cohort.round.plan(), follower.letters());
        assert!(
            !letters.is_empty() || plan.allows_answer(role, stage, length),
            "{role}: {length:?} bytes, {stage}"
        );
        let from = role.place();
        let letters = letters.into_iter();
        self.said
            .extend(letters.filter_map(|(to, letter)| Some((from?, to, letter))));
        answer.map(|answer| self.up_of_servers.insert(role, answer));
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
        assert_planned(&self.cohort.round, party, client, &answer);
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

    /// Every client but this one that has something to answer does.
    pub fn answer_all_but(&mut self, party: PartyId) {
        self.down.remove(&party);
        self.answer_all().unwrap();
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

/// What a client says, or does not say, is in the plan.
fn assert_planned(round: &Round, party: PartyId, client: &Client, answer: &Answer) {
    let (stage, length) = match answer {
        Answer::Send(message) => (client.stage().unwrap(), Some(message.len())),
        Answer::Wait => (client.heard(), None),
        Answer::Old | Answer::Done(_) | Answer::KeyHeld(_) => return,
    };
    let allowed = round.plan().allows_answer(party, stage, length);
    assert!(allowed, "{party}: {length:?} bytes in stage {stage}");
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
