//! The coordinator's configuration file, in TOML. `blindsumd` reads it; `blindsum serve` has
//! arguments instead.
//!
//! ```toml
//! listen = "0.0.0.0:9443"
//! certificate = "coordinator.pem"   # paths are relative to this file
//! key = "coordinator.key"
//! key_passphrase_file = "key.pass"  # if the key is encrypted: a file whose first line is its passphrase
//! ca = "ca.pem"
//! revoked = "revoked.pem"           # optional
//! store = "blindsum.db"
//! audit = "audit.jsonl"             # optional: the audit trail, a line for each thing that happens
//! membership = "embedded"           # or "etcd://HOST:PORT", with the certificate and key that etcd is shown, and its CA:
//! membership_certificate = "to-etcd.pem"
//! membership_key = "to-etcd.key"
//! membership_ca = "etcd-ca.pem"     # the job's CA where it is left out
//! servers = ["https://a:9443", "https://b:9443", "https://c:9443"]   # only for jobs whose servers compute together
//! stop_when_done = false
//! metrics = "127.0.0.1:9090"        # optional: where metrics and health are answered by plain HTTP
//! choice = "turns"                  # of parties where more are ready than a round takes: first, turns or random
//! change = 2                        # parties that a choice changes at once, at least
//! admin = "127.0.0.1:9444"          # optional: where operators see how jobs stand and give orders
//! dashboard = "127.0.0.1:9091"      # optional: where people see how jobs stand
//! dashboard_token_file = "token"    # needed with it: a file whose first line is the token that the page asks for
//!
//! [limits]                          # optional, every field too
//! connections = 4096
//! relay_memory = 268435456          # bytes of what is passed on; a temporary file takes the rest
//! farewell = 30.0                   # seconds for survivors that have not confirmed the last result, see below
//!
//! [[jobs]]                          # the fields of a job specification
//! job = "tumour"
//! protocol = "secagg+"
//! parties = 20
//! dim = 1000000
//! rounds = 50
//! initial_model = "model.npy"       # optional: .npy of f4 or f8, or raw little-endian f32
//! results = "results"               # optional: a folder for the result of each round that the coordinator learns
//! hosted = true                     # optional: a host begins the rounds, by the admin interface
//! ```
//!
//! With `server = 1` or `2` the file is that of the second or the third server of its one job: it has `state_dir`, a folder,
//! and no `store`.
//!
//! With `stop_when_done` the coordinator ends when every job is over, and every survivor of its last round has
//! confirmed the result or `farewell` has passed.

use std::path::{Path, PathBuf};

use blindsum_protocol::JobSpec;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use self::settings::{blame, set};
use super::checked::check_room;
use super::first_model::read_model;
use super::{Choice, Config, JobConfig};
use crate::follower::FollowerConfig;
use crate::paths::{check_path, check_store, read_text};
use crate::plain::toml_words;
use crate::{CredentialFiles, Credentials, Limits, Membership, NetError, Passphrase, Room};

/// A configuration as it is written in a file, before the files that it names are read.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The address to listen on.
    pub listen: String,
    /// The coordinator's certificate, PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// A file whose first line is the passphrase of the key.
    pub key_passphrase_file: Option<PathBuf>,
    /// The CA of its parties, PEM.
    pub ca: Option<PathBuf>,
    /// The CA's revocation list, PEM.
    pub revoked: Option<PathBuf>,
    /// The SQLite file.
    pub store: Option<PathBuf>,
    /// The file of the audit trail.
    pub audit: Option<PathBuf>,
    /// The membership manager, which holds the leases of parties: `embedded`, or `etcd://HOST:PORT`.
    pub membership: Option<String>,
    /// The certificate that etcd is shown, PEM.
    pub membership_certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub membership_key: Option<PathBuf>,
    /// The CA of etcd's certificate, PEM; the job's CA if there is none.
    pub membership_ca: Option<PathBuf>,
    /// The URLs of the three servers, in order, for jobs whose servers compute together.
    pub servers: Vec<String>,
    /// Which of the three this is: 0 is the coordinator.
    pub server: u8,
    /// The folder in which the second or the third server stores the latest round that it was in.
    pub state_dir: Option<PathBuf>,
    /// Whether to stop when every job is over.
    pub stop_when_done: bool,
    /// The address at which the program that reads the file answers scrapes and health checks. A coordinator itself
    /// ignores it.
    pub metrics: Option<String>,
    /// The address of the admin interface for operators.
    pub admin: Option<String>,
    /// The address of the dashboard.
    pub dashboard: Option<String>,
    /// The file whose first line is the token that this page asks for; see [`token_file`](Self::token_file).
    pub dashboard_token_file: Option<PathBuf>,
    /// Which parties take part where more are ready than a round takes: `first`, `turns` or `random`.
    pub choice: Choice,
    /// How many parties `turns` and `random` change at once, at least.
    pub change: u32,
    /// Limits for parties.
    pub limits: Limits,
    /// The jobs: the fields of a [`JobSpec`], `initial_model`, `results` and `hosted`.
    pub jobs: Vec<Table>,
    /// Settings of the program that reads the file. A coordinator ignores them.
    pub program: Table,
    #[serde(skip)]
    folder: PathBuf,
}

impl Default for ConfigFile {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9443".into(),
            certificate: None,
            key: None,
            key_passphrase_file: None,
            ca: None,
            revoked: None,
            store: None,
            audit: None,
            membership: None,
            membership_certificate: None,
            membership_key: None,
            membership_ca: None,
            servers: Vec::new(),
            server: 0,
            state_dir: None,
            stop_when_done: false,
            metrics: None,
            admin: None,
            dashboard: None,
            dashboard_token_file: None,
            choice: Choice::First,
            change: 1,
            limits: Limits::default(),
            jobs: Vec::new(),
            program: Table::new(),
            folder: PathBuf::new(),
        }
    }
}

impl ConfigFile {
    /// Reads a file and then `settings`, which override the file. Each is `key.key=value` with the value in TOML;
    /// `jobs.0.rounds=3` sets a field of the first job.
    ///
    /// # Errors
    /// A file that cannot be read or is no configuration, or a setting that sets no field.
    pub fn read(path: Option<&Path>, settings: &[String]) -> Result<Self, NetError> {
        let (text, name) = match path {
            Some(path) => (
                read_text("configuration", path)?,
                path.display().to_string(),
            ),
            None => (String::new(), "settings".to_owned()),
        };
        let wrong = |e: toml::de::Error| NetError::config(name.as_str(), toml_words(&e, &text));
        let written: Table = text.parse().map_err(wrong)?;
        let mut table = written.clone();
        for setting in settings {
            set(&mut table, setting)?;
        }
        let mut file: Self = match table.try_into() {
            Ok(file) => file,
            Err(error) => return Err(blame(written, settings).unwrap_or_else(|| wrong(error))),
        };
        file.folder = path
            .and_then(Path::parent)
            .unwrap_or(Path::new(""))
            .to_owned();
        Ok(file)
    }

    /// Reads every file that the configuration names.
    ///
    /// # Errors
    /// The first one that is missing or wrong, with the field that names it.
    pub fn load(self) -> Result<Config, NetError> {
        self.check_paths()?;
        if self.state_dir.is_some() {
            let rule = "only server = 1 and 2 have one; a coordinator has a store";
            return Err(NetError::config("state_dir", rule));
        }
        let credentials = self.credentials()?;
        let membership = self.members()?;
        Ok(Config {
            membership,
            jobs: self.read_jobs(Room::now())?,
            listen: self.listen,
            credentials,
            store: self.store.map(|path| self.folder.join(path)),
            audit: self.audit.map(|path| self.folder.join(path)),
            servers: self.servers,
            limits: self.limits,
            stop_when_done: self.stop_when_done,
            admin: self.admin,
            choice: self.choice,
            change: self.change,
        })
    }

    /// The same for the second or the third server of a job.
    ///
    /// # Errors
    /// As [`load`](Self::load); what only a coordinator has.
    pub fn load_server(self) -> Result<FollowerConfig, NetError> {
        let refused = |field: &str, rule: &str| Err(NetError::config(field, rule));
        self.check_paths()?;
        let credentials = self.credentials()?;
        let mut jobs = self.written_jobs()?;
        if self.membership.is_some() {
            return refused("membership", "only a coordinator has one: leave it out");
        }
        if self.store.is_some() {
            return refused("store", "only a coordinator has one: leave it out");
        }
        let of_coordinators = [
            ("audit", self.audit.is_some()),
            ("admin", self.admin.is_some()),
            ("dashboard", self.dashboard.is_some()),
            ("choice", self.choice != Choice::First),
            ("change", self.change != 1),
        ];
        if let Some((field, _)) = of_coordinators.iter().find(|(_, given)| *given) {
            return refused(field, "only a coordinator has one: leave it out");
        }
        let Some(state_dir) = self.state_dir else {
            return refused("state_dir", "is missing: no round may come twice");
        };
        let (Some(job), true) = (jobs.pop(), jobs.is_empty()) else {
            return refused("jobs", "must be the one job that this server computes for");
        };
        if job.hosted {
            return refused("hosted", "only a coordinator begins rounds: leave it out");
        }
        if job.initial_model.is_some() {
            return refused("initial_model", "only a coordinator has one: leave it out");
        }
        Ok(FollowerConfig {
            job: job.spec,
            servers: self.servers,
            place: self.server,
            listen: self.listen,
            credentials,
            state_dir: self.folder.join(state_dir),
            results: job.results,
            limits: self.limits,
        })
    }

    /// The file of the dashboard's token, from the folder of the configuration on.
    pub fn token_file(&self) -> Option<PathBuf> {
        let file = self.dashboard_token_file.as_ref();
        file.map(|file| self.folder.join(file))
    }

    /// That every path that is given names something, before it is taken from the configuration's folder on.
    fn check_paths(&self) -> Result<(), NetError> {
        let given = [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("key_passphrase_file", &self.key_passphrase_file),
            ("ca", &self.ca),
            ("revoked", &self.revoked),
            ("membership_certificate", &self.membership_certificate),
            ("membership_key", &self.membership_key),
            ("membership_ca", &self.membership_ca),
            ("state_dir", &self.state_dir),
            ("audit", &self.audit),
            ("dashboard_token_file", &self.dashboard_token_file),
        ];
        for (field, path) in given {
            path.as_deref()
                .map_or(Ok(()), |path| check_path(field, path))?;
        }
        check_store(self.store.as_deref())
    }

    /// A file that a field must name.
    fn file(&self, field: &'static str, path: &Option<PathBuf>) -> Result<PathBuf, NetError> {
        match path {
            Some(path) => {
                let path = self.folder.join(path);
                let unreadable = |e| {
                    let why = crate::io_words(&e);
                    NetError::config(field, format!("{}: {why}", path.display()))
                };
                std::fs::File::open(&path).map_err(unreadable)?;
                Ok(path)
            }
            None => {
                let rule = "is missing: name a PEM file, in the configuration that `--config FILE` names or by a flag";
                Err(NetError::config(field, rule))
            }
        }
    }

    fn members(&self) -> Result<Membership, NetError> {
        let given = (&self.membership_certificate, &self.membership_key);
        let credentials = match given {
            (None, None) if self.membership_ca.is_none() => None,
            (certificate, key) => {
                let files = CredentialFiles {
                    certificate: self.file("membership_certificate", certificate)?,
                    key: self.file("membership_key", key)?,
                    ca: match &self.membership_ca {
                        Some(_) => self.file("membership_ca", &self.membership_ca)?,
                        None => self.file("ca", &self.ca)?,
                    },
                    revoked: None,
                };
                Some(files.read()?)
            }
        };
        let place = self.membership.clone();
        Ok(Membership {
            place: place.unwrap_or_else(|| Membership::default().place),
            credentials,
        })
    }

    fn credentials(&self) -> Result<Credentials, NetError> {
        let file = |field, path| self.file(field, path);
        let files = CredentialFiles {
            certificate: file("certificate", &self.certificate)?,
            key: file("key", &self.key)?,
            ca: file("ca", &self.ca)?,
            revoked: match &self.revoked {
                Some(_) => Some(file("revoked", &self.revoked)?),
                None => None,
            },
        };
        let passphrase = match &self.key_passphrase_file {
            Some(_) => Some(file("key_passphrase_file", &self.key_passphrase_file)?),
            None => None,
        };
        let passphrase = passphrase.as_deref().map(Passphrase::read).transpose()?;
        files.read_with(passphrase)
    }

    /// The jobs with their models, each of which is read once its job is known to fit.
    fn read_jobs(&self, mut room: Room) -> Result<Vec<JobConfig>, NetError> {
        let mut jobs = Vec::new();
        for (i, written) in self.written_jobs()?.into_iter().enumerate() {
            let read = written.read(&self.limits, &mut room);
            jobs.push(read.map_err(|error| of_job(i, error))?);
        }
        Ok(jobs)
    }

    /// The fields, other than limits and jobs, that have another value there.
    pub(super) fn differing(&self, other: &Self) -> Vec<String> {
        let fields = |of: &Self| {
            let of = Self {
                limits: Limits::default(),
                jobs: Vec::new(),
                // The program takes over the filter of its log by itself.
                program: without_levels(&of.program),
                ..of.clone()
            };
            let fields = serde_json::to_value(&of).unwrap_or_default();
            fields.as_object().cloned().unwrap_or_default()
        };
        let (fields, others) = (fields(self), fields(other));
        let differs = fields
            .into_iter()
            .filter(|(name, value)| others.get(name) != Some(value));
        differs.map(|(name, _)| name).collect()
    }

    pub(super) fn written_jobs(&self) -> Result<Vec<WrittenJob>, NetError> {
        let read = |(i, table): (usize, &Table)| {
            job(table.clone(), &self.folder).map_err(|error| of_job(i, error))
        };
        self.jobs.iter().enumerate().map(read).collect()
    }
}

/// The settings of the program but for the filter of its log.
fn without_levels(program: &Table) -> Table {
    let mut program = program.clone();
    program.remove("log_level");
    program
}

/// An error with the place of its job in the file.
pub(super) fn of_job(i: usize, error: NetError) -> NetError {
    match error {
        NetError::Config { field, rule } => NetError::config(format!("jobs.{i}: {field}"), rule),
        other => other,
    }
}

/// A job as the file has it, before the model that it names is read.
pub(super) struct WrittenJob {
    pub spec: JobSpec,
    initial_model: Option<PathBuf>,
    results: Option<PathBuf>,
    hosted: bool,
}

impl WrittenJob {
    pub fn read(self, limits: &Limits, room: &mut Room) -> Result<JobConfig, NetError> {
        let initial_model = match &self.initial_model {
            None => None,
            Some(path) => {
                let job = self.spec.clone().validate()?;
                *room = check_room(&job, limits, *room)?;
                Some(read_model(path, job.spec().dim)?)
            }
        };
        Ok(JobConfig {
            spec: self.spec,
            initial_model,
            results: self.results,
            hosted: self.hosted,
        })
    }
}

fn job(mut table: Table, folder: &Path) -> Result<WrittenJob, NetError> {
    let mut path = |field| match table.remove(field) {
        None => Ok(None),
        Some(Value::String(path)) => {
            check_path(field, Path::new(&path))?;
            Ok(Some(folder.join(path)))
        }
        Some(_) => Err(NetError::config(field, "must be a path")),
    };
    let (initial_model, results) = (path("initial_model")?, path("results")?);
    let hosted = match table.remove("hosted") {
        None => false,
        Some(Value::Boolean(hosted)) => hosted,
        Some(_) => return Err(NetError::config("hosted", "must be true or false")),
    };
    let written = table
        .try_into()
        .map_err(|e: toml::de::Error| NetError::config("specification", toml_words(&e, "")))?;
    let spec =
        JobSpec::read(&written).map_err(|error| NetError::config(error.field, error.rule))?;
    Ok(WrittenJob {
        spec,
        initial_model,
        results,
        hosted,
    })
}

mod settings;
#[cfg(test)]
mod tests;
