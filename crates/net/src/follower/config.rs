//! How a server begins that computes with a coordinator.

use std::path::PathBuf;
use std::sync::Arc;

use blindsum_protocol::{Job, JobSpec, ServerIndex, ServerRole};

use crate::address::check_address;
use crate::limits::Limits;
use crate::paths::check_path;
use crate::results::ResultFiles;
use crate::servers::Servers;
use crate::tls::{Credentials, Renewed, ServerSide};
use crate::{NetError, Room, Task};

/// How a server begins that computes with a coordinator.
pub struct FollowerConfig {
    /// The agreed specification: the server takes part in no other job, whatever the coordinator announces.
    pub job: JobSpec,
    /// The public URLs of the three servers, in order, the coordinator first.
    pub servers: Vec<String>,
    /// Which of them this one is: 1 or 2.
    pub place: u8,
    /// The address to listen on, such as `0.0.0.0:9443`; port 0 takes a free one.
    pub listen: String,
    /// The server's certificate and key, and the CA of the job. The certificate is for the host of its own URL.
    pub credentials: Credentials,
    /// A folder in which it remembers the latest round that it was in.
    pub state_dir: PathBuf,
    /// A folder for the results that it learns, a file for each round; `None` stores none.
    pub results: Option<PathBuf>,
    /// Limits for parties and the other servers.
    pub limits: Limits,
}

/// The same, checked.
pub(super) struct Checked {
    pub job: Arc<Job>,
    pub servers: Arc<Servers>,
    pub place: ServerIndex,
    pub role: ServerRole,
    pub side: Arc<Renewed<ServerSide>>,
}

impl FollowerConfig {
    /// Checks everything short of the folder and the address; the first thing that is wrong.
    pub(super) fn check(&self) -> Result<Checked, NetError> {
        check_address("listen", &self.listen)?;
        check_path("state_dir", &self.state_dir)?;
        let limits = self.limits.check();
        limits.map_err(|(field, rule)| NetError::config(format!("limits.{field}"), rule))?;
        let job = Arc::new(self.job.clone().validate()?);
        let servers = Arc::new(Servers::new(&self.servers)?);
        let place = ServerIndex::try_from(self.place).ok();
        let place = place.filter(|place| usize::from(place.number()) < servers.count());
        let role = place.and_then(|place| servers.role(place));
        let (Some(place), Some(role)) = (place, role) else {
            let last = servers.count() - 1;
            let rule = format!("place = {} must be from 1 to {last}", self.place);
            return Err(NetError::config("place", rule));
        };
        if !job.servers().any(|needed| needed == role) {
            let rule = format!("job {:?} needs no {role}", job.spec().job);
            return Err(NetError::config("job", rule));
        }
        if role == ServerRole::Decryptor
            && job.spec().decryptor().as_ref() != Some(&servers.address(place).host)
        {
            let host = job.spec().decryptor().unwrap_or_default();
            let rule = format!("the second must be at {host:?}, the decryptor of the job");
            return Err(NetError::config("servers", rule));
        }
        self.limits.check_memory(&job)?;
        Room::now().check(&job, Task::Coordinator)?;
        if self.results.is_some() {
            ResultFiles::check(self.results.as_deref(), &job)?;
        }
        let side = Arc::new(Renewed::new(self.credentials.clone(), ServerSide::new)?);
        servers.check_own(place, &side.current().hosts)?;
        Ok(Checked {
            job,
            servers,
            place,
            role,
            side,
        })
    }
}
