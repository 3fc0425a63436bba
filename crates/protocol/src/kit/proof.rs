//! How a server proves to parties, with which it has no connection, that it has said something: it signs it with the key
//! in its certificate, and sends the certificate along.

use blindsum_crypto::sign::SIGNATURE_LEN;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use super::wire::{Opaque, PREFIX, list};
use crate::{FaultKind, KnownServers, ServerIdentity, ServerRole};

/// Certificates that a proof has at most: the server's, and those between it and the CA.
const MOST_CERTIFICATES: usize = 4;
/// Bytes of a certificate at most. Those of a CA like ours have less than 1 KiB.
const LARGEST: usize = 16 << 10;

/// Certificates of a server and its signature. Nothing of both where nothing has to be proved.
#[derive(Clone, Default, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Proof {
    #[tls_codec(with = "list")]
    chain: Vec<Opaque>,
    signature: Opaque,
}

impl Proof {
    pub const MOST_BYTES: usize =
        PREFIX + MOST_CERTIFICATES * (PREFIX + LARGEST) + PREFIX + SIGNATURE_LEN;

    /// That this server says `message`, for the purpose `label`.
    pub fn by(server: &ServerIdentity, label: &str, message: &[u8]) -> Self {
        Self {
            chain: server.chain.iter().map(|der| der.clone().into()).collect(),
            signature: server.key.sign(label, message).into(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chain.is_empty() && self.signature.as_slice().is_empty()
    }

    /// Checks that the server of this host has said `message`, for the purpose `label`.
    ///
    /// # Errors
    /// [`FaultKind::Unproved`]: no such certificate, or a bad signature.
    pub fn check(
        &self,
        known: &KnownServers,
        (role, host): (ServerRole, &str),
        label: &str,
        message: &[u8],
    ) -> Result<(), FaultKind> {
        let chain: Vec<&[u8]> = self.chain.iter().map(Opaque::as_slice).collect();
        let key = known.key_of((role, host), &chain)?;
        let verified = key.verify(label, message, self.signature.as_slice());
        verified.map_err(|_| FaultKind::Unproved {
            role,
            reason: "its signature is not right".into(),
        })
    }
}
