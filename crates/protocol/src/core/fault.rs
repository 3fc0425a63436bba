//! What can go wrong in a round, and who caused it.

use std::fmt;

use crate::{Evidence, PartyId, Seat, ServerRole};

/// Why a round, or one party's part in it, ended: what happened and who caused it.
///
/// At a client a fault ends its part in the round. At a server a fault of one party costs that party its place.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{kind}", blamed(culprit))]
pub struct Fault {
    /// Who caused it.
    pub culprit: Culprit,
    /// The kind of fault.
    pub kind: FaultKind,
    /// The bytes that show it, if it came from outside.
    pub evidence: Option<Evidence>,
    found: Option<Box<Found>>,
}

/// What was found out before. Behind a pointer: faults are results of most functions.
#[derive(Clone, Debug)]
struct Found(Vec<Fault>);

/// Who is to blame, before what happened; nothing where that is nobody.
fn blamed(culprit: &Culprit) -> String {
    match culprit {
        Culprit::Nobody => String::new(),
        culprit => format!("{culprit}: "),
    }
}

/// Two faults are the same where the same happened and the same caused it, whatever shows that.
impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        self.culprit == other.culprit && self.kind == other.kind
    }
}

impl Eq for Fault {}

/// Who caused a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The coordinator, or somebody who can change what it sends.
    Server,
    /// One party.
    Party(PartyId),
    /// A server that is not the coordinator.
    Role(ServerRole),
    /// The coordinator or one party: each accuses the other, and nobody can tell which of them is right.
    ServerOr(PartyId),
    /// One of two parties: each accuses the other, and nobody can tell which of them is right.
    OneOf(PartyId, PartyId),
    /// The program that drives the machine: it made a wrong call or gave an unusable input.
    Caller,
    /// Nobody in particular: too many parties were lost.
    Nobody,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::Server => write!(f, "server"),
            Culprit::Party(party) => write!(f, "{party}"),
            Culprit::Role(role) => write!(f, "{role}"),
            Culprit::ServerOr(party) => write!(f, "server or {party}"),
            Culprit::OneOf(one, other) => write!(f, "{one} or {other}"),
            Culprit::Caller => write!(f, "caller"),
            Culprit::Nobody => write!(f, "round"),
        }
    }
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes that are not a message of this stage.
    #[error("malformed message: {field}: {rule}")]
    Malformed {
        /// The field that is wrong.
        field: &'static str,
        /// The rule it breaks.
        rule: String,
    },
    /// The other side speaks another version of the wire format.
    #[error("unsupported message version {got}: this program supports version {supported}")]
    Version {
        /// The version in the message.
        got: u8,
        /// The version of this program.
        supported: u8,
    },
    /// The message belongs to another round, job, roster or model.
    #[error("the message belongs to another round: its context differs")]
    OtherRound,
    /// The message belongs to another stage than the one under way.
    #[error("message of stage {got} while stage {expected} is under way")]
    OtherStage {
        /// The stage in the message.
        got: u8,
        /// The stage under way.
        expected: u8,
    },
    /// A second message for a stage that differs from the first.
    #[error("a second, different message for stage {stage}")]
    Conflicting {
        /// The stage that was answered already.
        stage: u8,
    },
    /// The sender is not in the roster, or lost its place earlier in the round.
    #[error("this sender has no part in this stage")]
    NotAMember,
    /// The machine met a fault before and answers nothing more.
    #[error("this side of the round has ended: after a fault it accepts no more messages")]
    Ended,
    /// A public key that must not be used.
    #[error("unusable key of {owner}: {reason}")]
    BadKey {
        /// Whose key it is said to be.
        owner: PartyId,
        /// What is wrong with it.
        reason: String,
    },
    /// A signature that does not verify.
    #[error("bad signature of {signer}")]
    BadSignature {
        /// Whose signature it is said to be.
        signer: PartyId,
    },
    /// A server has not proved to parties that it said something.
    #[error("the message of {role} is not authenticated: {reason}")]
    Unproved {
        /// Which server.
        role: ServerRole,
        /// What is wrong with the proof.
        reason: String,
    },
    /// A list of parties that no honest server sends.
    #[error("bad survivor list: {0}")]
    BadSurvivorList(SurvivorListError),
    /// Not enough parties are left to go on safely.
    #[error(
        "too few parties are left: only {have} of the {need} answers that the round needs came"
    )]
    TooFewSurvivors {
        /// How many answers there are, so far or on a list. More parties may be left that have not answered yet.
        have: usize,
        /// How many are needed.
        need: usize,
    },
    /// Too few vectors can be summed.
    #[error("only {have} valid vectors are left, and a sum needs {need}")]
    TooFewHonest {
        /// Vectors that could be summed.
        have: usize,
        /// How many are needed.
        need: usize,
    },
    /// The party with whose vector the others are compared has not given it to all servers.
    #[error("the vector of {root}, the root, has not come to all servers")]
    RootMissing {
        /// The name of that party.
        root: String,
    },
    /// A set of survivors that the protocol allows, but the party's own rules do not.
    #[error("refused by this party: {reason}")]
    Refused {
        /// The rule.
        reason: String,
    },
    /// A result that a server does not open, as its survivors are too near to those of an earlier result of the same model.
    #[error("the result is not opened: {reason}")]
    NotOpened {
        /// The round of that result; 0 if another reason keeps the server from opening one.
        round: u64,
        /// What the server's memory says.
        reason: String,
    },
    /// Not enough parties signed the same survivor set.
    #[error(
        "inconsistent sets of survivors: {have} parties signed the set that this party received, {need} are needed"
    )]
    Inconsistent {
        /// How many signatures over this party's view verify.
        have: usize,
        /// How many are needed.
        need: usize,
    },
    /// A sealed share that does not open.
    #[error(
        "sealed share from {from} does not open: it was changed in transit, or sealed for another party or round"
    )]
    Sealed {
        /// Who is said to have sealed it.
        from: PartyId,
    },
    /// Shares that reconstruct no value or the wrong one.
    #[error("the shares of a secret of {owner} contradict each other")]
    BadShares {
        /// Whose secret was shared.
        owner: PartyId,
    },
    /// A share that does not fit the other holders' shares.
    #[error("wrong share of a secret of {owner}")]
    WrongShare {
        /// Whose secret was shared.
        owner: PartyId,
    },
    /// A sum of shares that lies on no polynomial with the sums of the others.
    #[error(
        "the sum of shares of {holder} does not match the others: it, or a party that dealt it shares, is malicious"
    )]
    WrongColumn {
        /// Whose sum it is.
        holder: PartyId,
    },
    /// More sums of shares are wrong than the others can correct.
    #[error("of {got} sums of shares more are wrong than can be corrected, {threshold} are needed")]
    Undecodable {
        /// How many there are.
        got: usize,
        /// How many right ones are needed.
        threshold: usize,
    },
    /// A vector that is not what the job allows.
    #[error("its vector is not valid: the test {test} fails")]
    Invalid {
        /// The test: see [`Test::name`](blindsum_sharing::validity::Test::name).
        test: &'static str,
    },
    /// Shares that the party has committed to, and that lie on no polynomial with those that it dealt others.
    #[error("the share vector that it dealt {victim} does not match those of the others")]
    WrongShares {
        /// Who was dealt it.
        victim: PartyId,
    },
    /// More parties accuse the party than may lie.
    #[error("{accusers} parties accuse it, which are more than may be corrupt")]
    Accused {
        /// How many: those who cannot use what it dealt them, or answered otherwise than the others.
        accusers: usize,
    },
    /// The party does not show what it dealt those who accuse it.
    #[error("it does not reveal the share vectors that it dealt its accusers")]
    Unshown,
    /// An answer that is not that of the column that the party was dealt.
    #[error("its answer about {prover} does not match the share vector that it received")]
    WrongAnswer {
        /// About whose vector it is.
        prover: PartyId,
    },
    /// The party says of more parties than may lie that it cannot use what they dealt.
    #[error("it accuses {provers} parties, which are more than may be corrupt")]
    FalseAccuser {
        /// How many.
        provers: usize,
    },
    /// A sum of columns that is not that of the columns that the party was dealt, all of which were proved.
    #[error("its sum of shares does not match those of the others")]
    WrongAggregate,
    /// A decrypted sum that is not the sum of the survivors' vectors.
    #[error("wrong sum: a ciphertext of a survivor was left out, counted twice or changed")]
    WrongSum,
    /// The key service opens no such sum.
    #[error("the key service refuses: {0}")]
    Decryption(String),
    /// A sum under encryption that is not of one vector of each party.
    #[error(
        "the sum is not of one vector of each party: {}",
        said_of(missing, repeated)
    )]
    RollCall {
        /// Whose vector is missing from it.
        missing: Vec<PartyId>,
        /// Whose vector is in it more than once.
        repeated: Vec<PartyId>,
    },
    /// Two parties sent the same ciphertexts, which nobody makes twice. All say so.
    #[error("{one} and {other} sent the same ciphertexts: one of them has copied the other's")]
    Identical {
        /// The one.
        one: PartyId,
        /// The other.
        other: PartyId,
    },
    /// Some parties say that two sent the same ciphertexts, and others do not: somebody lies.
    #[error(
        "{} reported that {one} and {other} sent the same ciphertexts, and not all others did",
        names(by)
    )]
    Contested {
        /// Who says so.
        by: Vec<PartyId>,
        /// The one that they name.
        one: PartyId,
        /// The other.
        other: PartyId,
    },
    /// Parties added up the same ciphertexts and came to other sums.
    #[error(
        "{} computed another sum of the same ciphertexts than party 0",
        names(differs)
    )]
    SumsDiffer {
        /// Those whose sum differs from that of party 0.
        differs: Vec<PartyId>,
    },
    /// The party lacks the key of the job.
    #[error("this party does not hold the key of the job for this round")]
    NoKey,
    /// This party holds another key of the job than the other parties.
    #[error("this party holds another key of the job than the others")]
    OtherKey,
    /// A round in which something may have been encrypted already.
    #[error(
        "round {round} may have been used for encryption already: the next free round is {next}"
    )]
    RoundUsed {
        /// The round; or, if the vault's contents are too old, the next free round according to them.
        round: u64,
        /// The first round that is free for certain.
        next: u64,
    },
    /// The vault, in which a party keeps what it needs between rounds, cannot be read or written.
    #[error("the record of the key of the job: {0}")]
    Vault(String),
    /// A number that the coordinator has chosen for the round breaks a rule.
    #[error("{name}: {rule}")]
    Number {
        /// Which one.
        name: &'static str,
        /// The rule, with the values that break it.
        rule: String,
    },
    /// The job has no parameters for a roster of this size.
    #[error("no parameters for this roster: {0}")]
    Parameters(String),
    /// The caller's input was refused.
    #[error("input: {0}")]
    Input(String),
    /// The next answer needs the party's input and none was given.
    #[error("input: this answer needs the party's vector")]
    InputMissing,
    /// A snapshot that does not belong to this round and party, or was damaged.
    #[error("snapshot: {0}")]
    Snapshot(String),
}

/// Parties in a sentence.
fn names(parties: &[PartyId]) -> String {
    let names: Vec<String> = parties.iter().map(PartyId::to_string).collect();
    names.join(", ")
}

/// Whose vector is missing from a sum, and whose is in it more than once.
fn said_of(missing: &[PartyId], repeated: &[PartyId]) -> String {
    let part = |what: &str, parties: &[PartyId]| {
        let said = format!("{what} {}", names(parties));
        (!parties.is_empty()).then_some(said)
    };
    let parts = [
        part("it lacks the vector of", missing),
        part("it has twice the vector of", repeated),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// Why a list of survivors is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurvivorListError {
    /// The bitmap does not belong to this roster.
    #[error("names parties outside the roster")]
    OutsideRoster,
    /// The party that receives the list is not on it.
    #[error("lists this party itself as dropped out")]
    SelfDropped,
    /// A party that dropped out before is listed as alive.
    #[error("{0} is listed as alive but had dropped out before")]
    Revived(PartyId),
}

impl Fault {
    /// A fault without evidence.
    pub fn new(culprit: Culprit, kind: FaultKind) -> Self {
        Self {
            culprit,
            kind,
            evidence: None,
            found: None,
        }
    }

    /// A fault of the server.
    pub fn server(kind: FaultKind) -> Self {
        Self::new(Culprit::Server, kind)
    }

    /// A fault of one party.
    pub fn party(party: PartyId, kind: FaultKind) -> Self {
        Self::new(Culprit::Party(party), kind)
    }

    /// A fault of the party or server in this seat.
    pub fn of(seat: Seat, kind: FaultKind) -> Self {
        match seat {
            Seat::Party(party) => Self::party(party, kind),
            Seat::Server(role) => Self::new(Culprit::Role(role), kind),
        }
    }

    /// A fault of the server or of a party.
    pub fn server_or(party: PartyId, kind: FaultKind) -> Self {
        Self::new(Culprit::ServerOr(party), kind)
    }

    /// A fault of the program that drives the machine.
    pub fn caller(kind: FaultKind) -> Self {
        Self::new(Culprit::Caller, kind)
    }

    /// A fault with no identified culprit.
    pub fn nobody(kind: FaultKind) -> Self {
        Self::new(Culprit::Nobody, kind)
    }

    /// The same fault, shown by these bytes where nothing else shows it.
    pub(crate) fn shown_by(mut self, bytes: &[u8]) -> Self {
        self.evidence.get_or_insert_with(|| Evidence::of(bytes));
        self
    }

    /// The same fault, which ends a round in which these were found out.
    pub(crate) fn after(mut self, found: impl IntoIterator<Item = Fault>) -> Self {
        let mut all: Vec<Fault> = found.into_iter().collect();
        if !all.is_empty() {
            all.extend(self.found.take().into_iter().flat_map(|found| found.0));
            self.found = Some(Box::new(Found(all)));
        }
        self
    }

    /// Other faults found in the round before it ended with this one.
    pub fn found(&self) -> &[Fault] {
        self.found.as_ref().map_or(&[], |found| &found.0)
    }

    /// Whether somebody else than this program and its caller caused it.
    fn is_foreign(&self) -> bool {
        !matches!(self.culprit, Culprit::Caller | Culprit::Nobody)
    }

    /// The same fault, shown by the message that it was found in where somebody else caused it.
    pub(crate) fn found_in(self, message: &[u8]) -> Self {
        match self.is_foreign() {
            true => self.shown_by(message),
            false => self,
        }
    }
}

impl FaultKind {
    /// Whether only misbehaviour leads to this fault. Another key may come from another party; silence may be a loss.
    pub fn proves_a_lie(&self) -> bool {
        // guard: another-key-proves-no-lie, the-lost-are-no-liars
        !matches!(self, Self::OtherKey | Self::Unshown)
    }

    /// A short description of the misbehaviour where a party was found to be dishonest; `None` for other faults.
    pub fn lie(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { test } => Some(test),
            Self::WrongShares { .. } | Self::Accused { .. } => Some("wrong-share"),
            Self::Unshown => Some("silent-discloser"),
            Self::WrongAnswer { .. } => Some("lying-verifier"),
            Self::FalseAccuser { .. } => Some("mass-accuser"),
            Self::WrongAggregate => Some("lying-aggregator"),
            _ => None,
        }
    }

    /// A malformed field.
    pub(crate) fn malformed(field: &'static str, rule: impl Into<String>) -> Self {
        FaultKind::Malformed {
            field,
            rule: rule.into(),
        }
    }

    /// An input of another length than the job's.
    pub(crate) fn lanes(words: usize, lanes: usize) -> Self {
        let rule = format!("words = {words} must be {lanes}, by the job's dim");
        FaultKind::Input(rule)
    }
}
