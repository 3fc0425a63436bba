//! What a side shows and trusts, read again when its files change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use tokio::sync::watch;
use tracing::{error, info};

use super::Credentials;
use super::files::{Seen, Source};
use crate::NetError;
use crate::system::WallClock;

/// Time between two looks at the files, where no new connection asks for one.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// One side's `T`, made of its credentials, and the CA that it trusts. Where the credentials come from files, they
/// are read again when a file has changed; a change that cannot be used is logged, and what was there before stays.
pub(crate) struct Renewed<T> {
    state: Mutex<State>,
    made: watch::Sender<Arc<T>>,
    anchor: Arc<TrustAnchor>,
    make: Make<T>,
    clock: WallClock,
}

type Make<T> = fn(&Credentials, &TrustAnchor) -> Result<T, NetError>;

struct State {
    credentials: Credentials,
    /// What the files looked like when they were read last, with or without success.
    seen: Seen,
}

impl<T> Renewed<T> {
    /// # Errors
    /// Credentials that cannot be used.
    pub fn new(credentials: Credentials, make: Make<T>) -> Result<Self, NetError> {
        let anchor = Arc::new(credentials.anchor()?);
        let made = Arc::new(make(&credentials, &anchor)?);
        let seen = credentials.source.as_ref().map(|source| source.seen);
        let clock = credentials.clock().clone();
        let state = Mutex::new(State {
            credentials,
            seen: seen.unwrap_or_default(),
        });
        Ok(Self {
            state,
            made: watch::Sender::new(made),
            anchor,
            make,
            clock,
        })
    }

    /// The CA and its revocation list: the same anchor always, which goes by the newest files.
    pub fn anchor(&self) -> &Arc<TrustAnchor> {
        &self.anchor
    }

    /// By which certificates are in their time.
    pub fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// For a connection that begins now.
    pub fn current(&self) -> Arc<T> {
        self.look(false);
        self.made.borrow().clone()
    }

    /// Tells when the files were read again.
    pub fn renewals(&self) -> watch::Receiver<Arc<T>> {
        self.made.subscribe()
    }

    /// Looks at the files now and then, for those who make no connections but go by the anchor.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look(false);
        }
    }

    /// Reads the files again, where they have changed or it is asked for. False where they cannot be used.
    fn look(&self, asked: bool) -> bool {
        let mut state = self.lock();
        let Some(source) = state.credentials.source.clone() else {
            return true;
        };
        let seen = source.files.look();
        if seen == state.seen && !asked {
            return true;
        }
        state.seen = seen;
        match self.renew(&source) {
            Ok((credentials, made)) => {
                info!("certificate, key, CA and revocation list read again");
                state.credentials = credentials;
                self.made.send_replace(Arc::new(made));
                true
            }
            Err(error) => {
                error!(%error, "a changed file cannot be used: the earlier content stays in use");
                false
            }
        }
    }

    fn renew(&self, source: &Source) -> Result<(Credentials, T), NetError> {
        let clock = self.clock.clone();
        let credentials = source.again()?.with_clock(clock);
        let anchor = credentials.anchor()?;
        let made = (self.make)(&credentials, &anchor)?;
        self.anchor.replace(anchor);
        Ok((credentials, made))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a coordinator or party read its credential files again, even if they look unchanged.
#[derive(Clone)]
pub struct Reload(Arc<dyn Look + Send + Sync>);

trait Look {
    fn look_now(&self) -> bool;
}

impl<T: Send + Sync> Look for Renewed<T> {
    fn look_now(&self) -> bool {
        self.look(true)
    }
}

impl Reload {
    pub(crate) fn of<T: Send + Sync + 'static>(renewed: Arc<Renewed<T>>) -> Self {
        Self(renewed)
    }

    /// Reads the files now. If they cannot be used that is logged, the old credentials stay, and this is false.
    pub fn reload(&self) -> bool {
        self.0.look_now()
    }
}
