//! A job whose parties have no process between messages.

use super::*;

/// Seconds after which the certificate of the last party ends: no deadline has passed by then.
const SOON: u64 = 20;

/// A party between two processes of it.
pub(super) struct Host {
    pub(super) name: Arc<str>,
    pub(super) identity: Identity,
    pub(super) certificate: Arc<[u8]>,
    /// What its last process left, and the one before that.
    pub(super) states: Vec<Vec<u8>>,
    pub(super) mark: u64,
    /// Its connection, and the number that its next one gets at the coordinator.
    pub(super) link: Option<LinkId>,
    pub(super) results: BTreeMap<u64, RoundResult>,
    pub(super) lost: Vec<JobError>,
    pub(super) over: bool,
}

/// What a process of a party gets.
#[derive(Clone)]
pub(super) enum Message {
    /// A new connection, in the place of the one that there was.
    Connect,
    Heard(CoordinatorFrame),
}

/// What goes wrong with the processes of parties.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Trouble {
    None,
    /// Each message is heard by a process that is killed before it is suspended, and then by another one.
    KilledAlways,
    /// The process that hears this message is killed, and the message and the connection are lost.
    LosesOne(usize),
    /// Before this message a party comes back with the state before its last one.
    GoesBack(usize),
}

pub(super) struct World {
    pub(super) job: Arc<Job>,
    pub(super) server: CoordinatorMachine,
    pub(super) anchor: Arc<TrustAnchor>,
    /// Another CA, which has signed nothing here.
    pub(super) strange: Arc<TrustAnchor>,
    pub(super) hosts: Vec<Host>,
    pub(super) sessions: BTreeMap<LinkId, (usize, Session)>,
    /// What is on its way to parties.
    pub(super) down: VecDeque<(usize, Option<LinkId>, Message)>,
    pub(super) now: Now,
    pub(super) processes: u64,
    pub(super) delivered: usize,
    /// At which message the first party heard last that a round begins.
    pub(super) begun: Option<usize>,
    /// From which message on the clock of the first party is ahead, so that the certificate of the last one has ended.
    pub(super) ahead_from: usize,
    /// From which message on the first party has another CA.
    pub(super) estranged_from: usize,
    pub(super) links: u64,
    /// What each party has answered, by round, stage and offset.
    pub(super) answers: BTreeMap<(usize, u64, u32, u64), Bytes>,
}

impl World {
    pub(super) fn new(spec: JobSpec, algorithm: Algorithm) -> Self {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let validity = Validity {
            not_before: BEGIN - 86_400,
            not_after: BEGIN + 86_400,
        };
        let mut ca =
            |name| CertificateAuthority::create(name, algorithm, validity, &mut rng).unwrap();
        let anchor_of = |ca: &CertificateAuthority| {
            Arc::new(TrustAnchor::from_pem(ca.certificate(), None).unwrap())
        };
        let (strange, ca) = (ca("strange"), ca("test"));
        let (strange, anchor) = (anchor_of(&strange), anchor_of(&ca));
        let job = Arc::new(spec.validate().unwrap());
        let mut host = |party: u32| {
            let name = format!("party-{party}");
            let mut validity = validity;
            if party + 1 == job.spec().parties {
                validity.not_after = BEGIN + SOON;
            }
            let issued = ca
                .issue(&name, &Kind::Party, algorithm, validity, &mut rng)
                .unwrap();
            let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
            Host {
                identity: Identity {
                    name: name.clone(),
                    key: Arc::new(IdentityKey::from_pem(&issued.key).unwrap()),
                    anchor: anchor.clone(),
                    ca: [0; 32],
                },
                name: name.into(),
                certificate: Arc::from(der.as_ref()),
                states: Vec::new(),
                mark: 0,
                link: None,
                results: BTreeMap::new(),
                lost: Vec::new(),
                over: false,
            }
        };
        let hosts: Vec<Host> = (0..job.spec().parties).map(&mut host).collect();
        let now = Now {
            time: Time::default(),
            unix_millis: BEGIN * 1000,
        };
        let parts = Parts {
            job: job.clone(),
            initial: None,
            store: Arc::new(MemoryStore::new(3)),
            anchor: anchor.clone(),
            own: None,
            results: None,
            shelves: Arc::new(MemoryShelves),
            settings: Settings {
                patience: Duration::from_secs(3600),
                reconnect_grace: Duration::from_secs(5),
                chunk_timeout: Duration::from_secs(30),
                failed_rounds: 3,
                choice: blindsum_job::coordinator::Choice::First,
                change: 1,
            },
            hosted: false,
        };
        let server = CoordinatorMachine::open(parts, now, [1; 32]).unwrap();
        let down = (0..hosts.len()).map(|party| (party, None, Message::Connect));
        Self {
            down: down.collect(),
            job,
            server,
            anchor,
            strange,
            hosts,
            sessions: BTreeMap::new(),
            now,
            processes: 0,
            delivered: 0,
            begun: None,
            ahead_from: usize::MAX,
            estranged_from: usize::MAX,
            links: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Runs the job to its end.
    pub(super) fn run(&mut self, trouble: Trouble) {
        self.run_until(trouble, |world| world.hosts.iter().all(|host| host.over));
    }

    /// Runs the job until this is so.
    pub(super) fn run_until(&mut self, trouble: Trouble, is_over: impl Fn(&Self) -> bool) {
        self.serve();
        while !is_over(self) {
            assert!(self.delivered < MOST, "the job does not come to its end");
            self.pass(Duration::from_millis(1));
            let Some((party, link, message)) = self.down.pop_front() else {
                let until = self.server.wake().unwrap();
                self.pass(until - self.now.time);
                self.server.tick(self.now);
                self.serve();
                continue;
            };
            // Of a connection that has ended.
            if self.hosts[party].over || link.is_some() && link != self.hosts[party].link {
                continue;
            }
            if link.is_none() {
                self.hosts[party].link = None;
            }
            self.delivered += 1;
            self.deliver(party, message, trouble);
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.time = self.now.time + time;
        self.now.unix_millis += time.as_millis() as u64;
    }

    pub(super) fn deliver(&mut self, party: usize, message: Message, trouble: Trouble) {
        let at = self.delivered;
        if let (0, Message::Heard(frame)) = (party, &message)
            && matches!(frame.frame, Some(Down::RoundStart(_)))
        {
            self.begun = Some(at);
        }
        match trouble {
            Trouble::KilledAlways => drop(self.process(party, message.clone(), false)),
            Trouble::LosesOne(lost) if lost == at => {
                drop(self.process(party, message, false));
                return self.reconnect(party);
            }
            Trouble::GoesBack(back) if back == at && self.hosts[party].states.len() > 1 => {
                // What was said since is on its way: the connection is another one, as after a kill.
                self.hosts[party].states.pop();
                return self.reconnect(party);
            }
            _ => {}
        }
        for frame in self.process(party, message, true) {
            self.hear(party, frame);
        }
    }

    pub(super) fn reconnect(&mut self, party: usize) {
        if let Some(link) = self.hosts[party].link.take() {
            self.lost(link);
        }
        self.down.push_back((party, None, Message::Connect));
    }

    pub(super) fn lost(&mut self, link: LinkId) {
        if self.sessions.remove(&link).is_some() {
            let (reason, returns) = ("lost".into(), true);
            let lost = coordinator::Input::Lost {
                link,
                reason,
                returns,
            };
            self.server.handle(self.now, lost);
            self.serve();
        }
    }

    /// One process of a party, from its state to its next state. What it says leaves once that is kept.
    pub(super) fn process(
        &mut self,
        party: usize,
        message: Message,
        is_kept: bool,
    ) -> Vec<PartyFrame> {
        self.processes += 1;
        let host = &mut self.hosts[party];
        let key = host.identity.key.clone();
        let records = host
            .states
            .last()
            .map(|state| MemoryRecords::unseal(&key, state).unwrap());
        let records = Arc::new(records.unwrap_or_default());
        let settings = party::Settings {
            job: self.job.spec().job.clone(),
            policy: policy(),
            mask_memory: 0,
            ledger: None,
            location: String::new(),
            job_memory: Arc::default(),
            initial: None,
        };
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&self.processes.to_le_bytes());
        // Each process has a clock of its own.
        let own = Now {
            time: Time(Duration::from_secs(self.processes % 7)),
            unix_millis: match party == 0 && self.delivered >= self.ahead_from {
                true => self.now.unix_millis + (SOON + 1) * 1000,
                false => self.now.unix_millis,
            },
        };
        let mut identity = host.identity.clone();
        if party == 0 && self.delivered >= self.estranged_from {
            identity.anchor = self.strange.clone();
        }
        let machine =
            PartyMachine::resume(settings, identity, records.clone(), host.mark, own, entropy);
        let mut process = Process {
            job: self.job.clone(),
            party,
            machine,
            now: own,
            link: PartyLink(match message {
                Message::Connect => 1,
                Message::Heard(_) => 0,
            }),
            said: Vec::new(),
            results: BTreeMap::new(),
            lost: Vec::new(),
            over: false,
        };
        process.work();
        process.give(party::Input::WantRound);
        match message {
            Message::Connect => process.give(party::Input::Linked(process.link)),
            Message::Heard(frame) => process.give(party::Input::Frame(process.link, frame)),
        }
        process.give(party::Input::Suspend);
        if !is_kept {
            return Vec::new();
        }
        let mut rng = ChaCha20Rng::from_seed(entropy);
        host.states.push(records.seal(&key, &mut rng).unwrap());
        assert!(process.over || process.machine.mark() > host.mark);
        host.mark = process.machine.mark();
        host.results.append(&mut process.results);
        host.lost.append(&mut process.lost);
        host.over = process.over;
        process.said
    }

    /// A frame of a party reaches the coordinator.
    pub(super) fn hear(&mut self, party: usize, frame: PartyFrame) {
        if self.hosts[party].link.is_none() {
            self.links += 1;
            let link = LinkId(self.links);
            let host = &mut self.hosts[party];
            host.link = Some(link);
            let known = self.anchor.verify_party(&host.certificate, BEGIN).unwrap();
            let peer = Peer {
                name: host.name.clone(),
                address: "a test".into(),
                certificate: host.certificate.clone(),
                key: known.key,
                traffic: Arc::new(Count::default()),
                role: None,
            };
            self.sessions
                .insert(link, (party, Session::new(link, peer)));
        }
        if let Some(Frame::Chunk(chunk)) = &frame.frame {
            let place = (party, chunk.round, chunk.stage, chunk.offset);
            let before = self.answers.entry(place).or_insert(chunk.data.clone());
            assert_eq!(*before, chunk.data, "two answers of a party: {place:?}");
        }
        self.at_server(self.hosts[party].link.unwrap(), frame);
        self.serve();
    }

    fn at_server(&mut self, link: LinkId, frame: PartyFrame) {
        let gate = self.server.gate();
        let Some((_, session)) = self.sessions.get_mut(&link) else {
            return;
        };
        if let Some(input) = session.hear(&gate, frame).unwrap() {
            self.server.handle(self.now, input);
        }
    }

    /// The party is let in; what it said meanwhile is heard.
    fn admit(&mut self, link: LinkId) {
        let (_, session) = self.sessions.get_mut(&link).unwrap();
        for frame in session.admit() {
            self.at_server(link, frame);
        }
    }

    pub(super) fn serve(&mut self) {
        while let Some(effect) = self.server.poll_working(self.now) {
            match effect {
                Effect::Send(link, say) => {
                    for frame in of_coordinator(say).unwrap() {
                        self.send(link, frame);
                    }
                }
                Effect::Refuse(link, last) => {
                    self.send(link, last.into());
                    self.end(link);
                }
                Effect::Close(link, last) | Effect::Cut(link, last) => {
                    self.send(link, last.into());
                    self.end(link);
                    self.lost(link);
                }
                Effect::Letter { to, .. } => panic!("a letter to {to}"),
                Effect::Lease(_)
                | Effect::Called { .. }
                | Effect::CallEnded { .. }
                | Effect::Ordered { .. } => {}
                Effect::Over(result) => result.unwrap(),
                Effect::Admit(link) => self.admit(link),
            }
        }
    }

    pub(super) fn send(&mut self, link: LinkId, frame: CoordinatorFrame) {
        if let Some((party, _)) = self.sessions.get(&link) {
            self.down
                .push_back((*party, Some(link), Message::Heard(frame)));
        }
    }

    /// The party makes another connection when it has heard the last word on this one.
    pub(super) fn end(&mut self, link: LinkId) {
        if let Some((party, _)) = self.sessions.get(&link) {
            self.down.push_back((*party, None, Message::Connect));
        }
    }

    /// Every sum is that of what its survivors gave; gives how many there were.
    pub(super) fn check_sums(&self) -> usize {
        let mut rounds = BTreeMap::new();
        for host in &self.hosts {
            for (round, result) in &host.results {
                let survivors = (0..self.hosts.len()).filter(|party| {
                    let name = &*self.hosts[*party].name;
                    result.survivors.iter().any(|survivor| survivor == name)
                });
                let mut sums = vec![0u128; 3];
                for party in survivors {
                    let values = integers(party, *round);
                    sums.iter_mut()
                        .zip(values)
                        .for_each(|(sum, value)| *sum += u128::from(value));
                }
                assert_eq!(*result.sums.as_ref().unwrap(), sums);
                *rounds.entry(*round).or_insert(0) += 1;
            }
        }
        rounds.len()
    }
}
