//! Clipping bounds from earlier rounds, on what everybody knows.
//!
//! FLASHE §5.2 proposes analytical clipping for integer quantisation (ACIQ): a bound that follows from the spread of the
//! means that earlier rounds opened. The bounds here follow from how far the coordinates of the parties went instead
//! ([`Reach`]): a mean does not show what parties have in it, and a bound that follows from it cuts off more and more of
//! them. The bounds are part of what the parties of a round must agree on, to the last bit: they are the job's, halved some
//! times.

use crate::clip::NARROWEST_HALVINGS;
use crate::reach::Reach;
use crate::{EncodeError, Encoding};

/// Statistics of each tensor's updates over the rounds so far.
///
/// The bound of a tensor is C / 2^h, where C is the bound in the job and h at most 20. A round with the bound c tells
/// above which of c / 32, c / 4, c / 2 and c some coordinate of some party was. Then
///
/// ```text
/// c' = C              where something was above c and was cut off
/// c' = min(C, 2 c)    where something was above c / 2
/// c' = c / 2          where nothing was above c / 4 in w rounds in a row
/// c' = c / 16         where nothing was above c / 32 in them
/// c' = c              otherwise
/// ```
///
/// w is 1 at first. It doubles whenever something is cut off by a bound below C, up to 64, and halves after 1024 rounds in
/// which nothing was.
///
/// **The law**: the next bound is twice the largest coordinate at least, or C. So updates that become up to twice as large
/// from round to round are not cut off, and after a larger jump one round is. What comes and goes, such as a party that is
/// in every third round, is cut off a few times, and then w is large enough. No bound follows from values that were cut
/// off.
///
/// A liar can say that its coordinates go far: then the bound is C. Or it can take off what others say: then they may be
/// cut off, which it could have done to the sum as well.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHistory {
    tensors: Vec<Tensor>,
}

/// One tensor of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tensor {
    /// The job's bound C.
    clip: f64,
    /// How many times it is halved.
    halvings: u8,
    /// Log2 of the rounds that a bound waits before it falls.
    patience: u8,
    /// Rounds with this bound, since it could fall the last time, ...
    waited: u8,
    /// ... and how far coordinates went in them.
    farthest: Reach,
    /// Rounds since the patience changed.
    calm: u32,
}

/// Log2 of the most rounds that a bound waits before it falls.
const MAX_PATIENCE: u8 = 6;

/// After so many rounds in which nothing was cut off the patience falls.
const CALM: u32 = 1024;

/// First byte of a history.
const VERSION: u8 = 3;

/// Bytes of a tensor.
const TENSOR_BYTES: usize = 8;

impl UpdateHistory {
    /// The history before the first round of a job with this encoding.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] for an encoding without range words.
    pub fn new(encoding: &Encoding) -> Result<Self, EncodeError> {
        if encoding.reach_words() == 0 {
            let rule = "bounds from earlier rounds need vectors with the words of clipping = aciq";
            return Err(EncodeError::spec("clipping", rule));
        }
        let first = |(_, clip)| Tensor {
            clip,
            halvings: 0,
            patience: 0,
            waited: 0,
            farthest: Reach::TINY,
            calm: 0,
        };
        let tensors = encoding.tensors().map(first).collect();
        Ok(Self { tensors })
    }

    /// Adds a finished round, in which coordinates went so far: [`Encoding::reached`] of its sum, by the encoding of the
    /// round.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] for another number of tensors. The history is unchanged then.
    pub fn observe(&mut self, reached: &[Reach]) -> Result<(), EncodeError> {
        let (got, tensors) = (reached.len(), self.tensors.len());
        if got != tensors {
            let rule = format!("reached = {got} = tensors = {tensors}");
            return Err(EncodeError::spec("reached", rule));
        }
        let pairs = self.tensors.iter_mut().zip(reached);
        pairs.for_each(|(tensor, reach)| tensor.observe(*reach));
        Ok(())
    }

    /// The clipping bound of every tensor in the next round, for [`Encoding::with_clips`]; a single bound if the job
    /// lists no tensors.
    pub fn clips(&self) -> Vec<f64> {
        self.tensors.iter().map(Tensor::bound).collect()
    }

    /// Bytes of [`UpdateHistory::to_bytes`].
    pub fn encoded_len(&self) -> usize {
        5 + TENSOR_BYTES * self.tensors.len()
    }

    /// The encoded history: a version byte (3), the number of tensors (4 bytes, big-endian), and of each how many times
    /// its bound is halved, the logarithm of the rounds that it waits before it falls, how many of them there were, how many
    /// of the marks coordinates were above in them (a byte each), and the rounds since the number of rounds to
    /// wait changed (4 bytes, big-endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        bytes.push(VERSION);
        bytes.extend((self.tensors.len() as u32).to_be_bytes());
        for tensor in &self.tensors {
            let far = tensor.farthest.to_u8();
            bytes.extend([tensor.halvings, tensor.patience, tensor.waited, far]);
            bytes.extend(tensor.calm.to_be_bytes());
        }
        bytes
    }

    /// Reads the history of a job with this encoding.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] as for [`UpdateHistory::new`]; [`EncodeError::State`] for bytes that are no history of
    /// such a job.
    pub fn from_bytes(encoding: &Encoding, bytes: &[u8]) -> Result<Self, EncodeError> {
        let mut history = Self::new(encoding)?;
        let (got, expected) = (bytes.len(), history.encoded_len());
        let refused = |rule: String| EncodeError::State {
            of: "update history",
            rule,
        };
        if got != expected {
            return Err(refused(format!("{got} bytes must be {expected}")));
        }
        let empty = history.to_bytes();
        let (head, tensors) = bytes.split_at(5);
        if !empty.starts_with(head) {
            return Err(refused("it is of another version or job".into()));
        }
        let (saved, _) = tensors.as_chunks();
        for (tensor, saved) in history.tensors.iter_mut().zip(saved) {
            *tensor = tensor.read(*saved).ok_or_else(|| {
                refused("it has a state of a tensor that no rounds lead to".into())
            })?;
        }
        Ok(history)
    }
}

impl Tensor {
    /// The bound of the next round.
    fn bound(&self) -> f64 {
        self.clip * f64::powi(0.5, self.halvings.into())
    }

    /// Adds a round.
    fn observe(&mut self, reach: Reach) {
        let is_below = self.halvings > 0;
        if reach == Reach::CUT && is_below {
            (self.halvings, self.waited, self.farthest) = (0, 0, Reach::TINY);
            self.patience = MAX_PATIENCE.min(self.patience + 1);
            self.calm = 0;
            return;
        }
        self.calm += 1;
        if self.calm == CALM {
            (self.patience, self.calm) = (self.patience.saturating_sub(1), 0);
            self.waited = 0;
            self.farthest = Reach::TINY;
        }
        if reach >= Reach::NEAR {
            self.halvings = self.halvings.saturating_sub(1);
            (self.waited, self.farthest) = (0, Reach::TINY);
            return;
        }
        (self.waited, self.farthest) = (self.waited + 1, self.farthest.max(reach));
        if self.waited < 1 << self.patience {
            return;
        }
        let further = match self.farthest {
            Reach::TINY => 4,
            Reach::SMALL => 1,
            _ => 0,
        };
        self.halvings = NARROWEST_HALVINGS.min(self.halvings + further);
        (self.waited, self.farthest) = (0, Reach::TINY);
    }

    /// The same with what was saved; nothing for what cannot be.
    fn read(&self, saved: [u8; TENSOR_BYTES]) -> Option<Self> {
        let [halvings, patience, waited, farthest, calm @ ..] = saved;
        let read = Self {
            clip: self.clip,
            halvings,
            patience,
            waited,
            farthest: Reach::from_u8(farthest)?,
            calm: u32::from_be_bytes(calm),
        };
        let can_be = halvings <= NARROWEST_HALVINGS
            && patience <= MAX_PATIENCE
            && waited < 1 << patience
            && read.farthest < Reach::NEAR
            && (waited > 0 || read.farthest == Reach::TINY)
            && read.calm < CALM;
        can_be.then_some(read)
    }
}
