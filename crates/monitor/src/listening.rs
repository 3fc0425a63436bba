//! An address that was taken, on which nobody answers yet: it is known to be free before anything else begins.

use std::net::SocketAddr;

use blindsum_net::coordinator::check_address;
use blindsum_net::{NetError, io_words};
use tokio::net::TcpListener;

/// A listener and where it is. Connections wait until somebody answers.
pub(crate) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    /// Listens at the `HOST:PORT` that this setting names; with port 0 the system chooses a free one.
    ///
    /// # Errors
    /// [`NetError::Config`] if it is no address, [`NetError::Listen`] if it cannot be listened on.
    pub async fn at(setting: &str, address: &str) -> Result<Self, NetError> {
        check_address(setting, address)?;
        let failed = |error: std::io::Error| NetError::Listen {
            address: address.into(),
            reason: format!(
                "{} ({setting}: choose a free port of this machine)",
                io_words(&error)
            ),
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn into_listener(self) -> TcpListener {
        self.listener
    }
}
