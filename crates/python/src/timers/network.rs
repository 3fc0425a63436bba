//! What the network costs by itself.

use std::sync::Mutex;

use blindsum_net::bench::{Crowd as Parties, Transfer, transfers};
use blindsum_net::party::PartyConfig;
use blindsum_net::{Credentials, NetError};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::gil::released;
use crate::network::{Pem, credentials};
use crate::party::read_policy;
use crate::process::Homed;
use crate::wait::locked;

/// Seconds that a party and its coordinator wait for each other.
const PATIENCE: f64 = 3600.0;

/// Moves as many bytes as a round has over TLS alone, so many times; `parties` are their credentials. Gives the seconds
/// of each time.
#[pyfunction]
pub fn tls_transfers(
    py: Python<'_>,
    coordinator: Pem,
    parties: Vec<Pem>,
    up: usize,
    down: usize,
    times: usize,
) -> PyResult<Vec<f64>> {
    let measured = released(py, || {
        let parties: Result<Vec<_>, _> = parties.into_iter().map(credentials).collect();
        transfers(
            &credentials(coordinator)?,
            &parties?,
            Transfer { up, down },
            times,
        )
    });
    measured.or_raise(py)
}

/// Parties of one job in this process, each over a connection of its own.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Crowd(Homed<Mutex<Option<Parties>>>);

#[pymethods]
impl Crowd {
    /// Connects all of them: certificates and keys, and the certificate of the CA, as PEM text.
    #[new]
    fn new(
        py: Python<'_>,
        url: &str,
        job: &str,
        pems: Vec<(String, String)>,
        ca: &str,
        policy: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let policy = read_policy(policy)?;
        let config = |(certificate, key)| {
            let credentials = Credentials::new(certificate, key, ca);
            let mut config = PartyConfig::new(url, job, credentials);
            config.policy = policy.clone();
            // So many parties of one process are slow to answer, and nobody else is there to notice.
            (config.keepalive, config.chunk_timeout) = (PATIENCE, PATIENCE);
            config
        };
        let configs = pems.into_iter().map(config).collect();
        let parties = released(py, || Parties::join(configs)).or_raise(py)?;
        Ok(Self(Homed::new("crowd", Mutex::new(Some(parties)))))
    }

    /// All of them give this update to one round, and wait for its result.
    fn round(&self, py: Python<'_>, update: Vec<f32>) -> PyResult<()> {
        let crowd = self.0.at_home(py)?;
        let played = released(py, || match locked(crowd).as_mut() {
            Some(parties) => parties.round(&update),
            None => Err(NetError::Left),
        });
        played.or_raise(py)
    }

    /// Ends their connections. Nothing happens the second time.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let crowd = self.0.at_home(py)?;
        released(py, || drop(locked(crowd).take()));
        Ok(())
    }
}
