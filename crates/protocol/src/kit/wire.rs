//! The frame around every protocol message, and how bodies are read.
//!
//! A message is `version: u8 ‖ stage: u8 ‖ context: 32 bytes ‖ body`, in the TLS presentation language (RFC 8446 §3). A
//! vector is preceded by its length in bytes, a u32. A part whose length the round fixes, such as a set of parties or
//! packed words, has no length in front. Trailing bytes are refused.

use blindsum_crypto::kdf::Context;
use tls_codec::{DeserializeBytes, SerializeBytes, TlsByteVecU32};
use zeroize::Zeroizing;

use crate::{FaultKind, Round};

/// Version of the wire format.
pub const VERSION: u8 = 1;
/// Bytes of the frame before the body.
pub const HEADER: usize = 34;

/// A message with its frame. Cheap to clone: one copy serves all receivers.
pub type Message = bytes::Bytes;

/// Puts the frame around a body.
pub fn frame(context: &Context, stage: u8, body: &[u8]) -> Message {
    [&[VERSION, stage] as &[u8], &context.0, body]
        .concat()
        .into()
}

/// Puts the frame before a body without copying the body, if there is room for [`HEADER`] bytes more: a vector need not
/// be in memory twice.
pub fn frame_in_place(context: &Context, stage: u8, mut body: Vec<u8>) -> Message {
    put_before(context, stage, &mut body);
    body.into()
}

/// The same with a body that is wiped when the last clone of the message is dropped.
pub fn frame_secret(context: &Context, stage: u8, mut body: Vec<u8>) -> Message {
    put_before(context, stage, &mut body);
    Message::from_owner(Zeroizing::new(body))
}

fn put_before(context: &Context, stage: u8, body: &mut Vec<u8>) {
    let header = [VERSION, stage].into_iter().chain(context.0);
    body.splice(0..0, header);
}

/// Checks the frame; gives the stage and the body.
///
/// # Errors
/// The message is too short, or of another version or round.
pub fn unframe<'a>(round: &Round, message: &'a [u8]) -> Result<(u8, &'a [u8]), FaultKind> {
    let Some((header, body)) = message.split_at_checked(HEADER) else {
        let rule = format!(
            "a message has at least {HEADER} bytes, not {}",
            message.len()
        );
        return Err(FaultKind::malformed("frame", rule));
    };
    match header {
        // guard: messages-of-another-version, messages-of-another-round
        [VERSION, stage, context @ ..] if context == round.context().0 => Ok((*stage, body)),
        [VERSION, ..] => Err(FaultKind::OtherRound),
        [got, ..] => Err(FaultKind::Version {
            got: *got,
            supported: VERSION,
        }),
        [] => Err(FaultKind::malformed("frame", "empty")),
    }
}

/// Reads the body of a message, which is one value.
///
/// # Errors
/// Anything but exactly one well-formed value.
pub fn decode<T: DeserializeBytes>(field: &'static str, body: &[u8]) -> Result<T, FaultKind> {
    // guard: messages-end-where-they-end
    T::tls_deserialize_exact_bytes(body).map_err(|e| FaultKind::malformed(field, e.to_string()))
}

/// Writes a control message.
///
/// # Errors
/// A vector longer than the encoding allows. That cannot happen for messages within the job's bounds.
pub fn encode<T: SerializeBytes>(field: &'static str, value: &T) -> Result<Vec<u8>, FaultKind> {
    value
        .tls_serialize_bytes()
        .map_err(|e| FaultKind::malformed(field, e.to_string()))
}

/// Bytes of a length.
pub(crate) const PREFIX: usize = 4;
/// Bytes of a party's rank.
pub(crate) const PARTY: usize = 4;
/// Bytes of a public key at most.
pub(crate) const KEY: usize = 33;
/// A message whose length the round bounds, so that none takes more memory to read than an honest one.
pub(crate) trait Bounded: DeserializeBytes + Sized {
    /// What it is called in faults.
    const NAME: &'static str;

    /// The most bytes it has where it can list so many parties.
    fn most_bytes(parties: usize) -> usize;

    /// Reads a whole message.
    ///
    /// # Errors
    /// Anything but exactly one well-formed message.
    fn read(parties: usize, body: &[u8]) -> Result<Self, FaultKind> {
        let most = Self::most_bytes(parties);
        // guard: lists-bounded-by-the-round
        if body.len() > most {
            let rule = format!(
                "{} bytes, but an honest message has at most {most}",
                body.len()
            );
            return Err(FaultKind::malformed(Self::NAME, rule));
        }
        decode(Self::NAME, body)
    }
}

/// Checks that the parties of a list in a message ascend: no repetition, one order.
///
/// # Errors
/// [`FaultKind::Malformed`] of this message.
pub(crate) fn check_ascending(
    message: &'static str,
    parties: impl IntoIterator<Item = u32>,
) -> Result<(), FaultKind> {
    let parties = parties.into_iter();
    match parties.is_sorted_by(|one, next| one < next) {
        true => Ok(()),
        false => Err(FaultKind::malformed(
            message,
            "parties must ascend, each listed once",
        )),
    }
}

/// Bytes of a message with this body.
pub(crate) fn framed(body: usize) -> u64 {
    (HEADER + body) as u64
}

/// Bytes behind their length.
pub(crate) type Opaque = TlsByteVecU32;

/// How a list is written and read: its elements behind the number of their bytes.
pub(crate) mod list {
    use tls_codec::{DeserializeBytes, Error, SerializeBytes, Size, TlsVecU32};

    use super::{Opaque, PREFIX};

    pub fn tls_serialized_len<T: Size>(list: &[T]) -> usize {
        PREFIX + list.iter().map(Size::tls_serialized_len).sum::<usize>()
    }

    pub fn tls_serialize_bytes<T: SerializeBytes>(list: &[T]) -> Result<Vec<u8>, Error> {
        let mut elements = Vec::new();
        for element in list {
            elements.extend(element.tls_serialize_bytes()?);
        }
        Opaque::from(elements).tls_serialize_bytes()
    }

    pub fn tls_deserialize_bytes<T>(bytes: &[u8]) -> Result<(Vec<T>, &[u8]), Error>
    where
        T: SerializeBytes + DeserializeBytes + Size,
    {
        TlsVecU32::tls_deserialize_bytes(bytes).map(|(list, rest)| (list.into_vec(), rest))
    }
}
