//! The credentials with which a coordinator connects to its workers.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError};

use tonic::transport::Channel;
use url::Url;

/// The credentials of a coordinator for its workers: their token, and the authorities that signed
/// their certificates. An extension of the configuration of a session; it also keeps the connections.
#[derive(Default)]
pub struct ClusterAccess {
    token: Option<String>,
    authorities: Option<Vec<u8>>,
    open: Mutex<HashMap<Url, Channel>>,
}

impl ClusterAccess {
    /// Workers without token and without TLS.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the token that all workers require.
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the authorities that signed the certificates of the workers, as PEM. URLs of workers may
    /// then begin with `https://`.
    pub fn with_authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(super) fn authorities(&self) -> Option<&[u8]> {
        self.authorities.as_deref()
    }

    /// Returns the connection to a worker, if there is one.
    pub(super) fn channel(&self, worker: &Url) -> Option<Channel> {
        self.channels().get(worker).cloned()
    }

    /// Keeps a connection to a worker.
    pub(super) fn keep(&self, worker: &Url, channel: &Channel) {
        self.channels().insert(worker.clone(), channel.clone());
    }

    /// Forgets the connection to a worker, so that the next query connects again.
    pub(super) fn forget(&self, worker: &Url) {
        self.channels().remove(worker);
    }

    fn channels(&self) -> std::sync::MutexGuard<'_, HashMap<Url, Channel>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for ClusterAccess {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").finish_non_exhaustive()
    }
}
