//! Vectors of real numbers in the precision of a job: its means and its models.

use crate::kind::Kind;
use crate::{EncodeError, Encoding};

/// The precision in which everybody in a job has means and models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// IEEE 754 single precision, 24 bits.
    Single,
    /// IEEE 754 double precision, 53 bits.
    Double,
}

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Single => size_of::<f32>(),
            Self::Double => size_of::<f64>(),
        }
    }
}

impl Encoding {
    /// The precision of means and models: single where a value has at most 24 bits, which is what a single holds. Double
    /// for wider values, for fixed point and for integers.
    pub fn precision(&self) -> Precision {
        match self.kind() {
            Kind::Quantised { bits, .. } if bits <= f32::MANTISSA_DIGITS => Precision::Single,
            Kind::Noised { sizes, .. } if sizes.spec().bits <= f32::MANTISSA_DIGITS => {
                Precision::Single
            }
            _ => Precision::Double,
        }
    }
}

/// A vector of real numbers in the precision of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Reals {
    /// Single precision.
    Single(Vec<f32>),
    /// Double precision.
    Double(Vec<f64>),
}

impl From<Vec<f32>> for Reals {
    fn from(values: Vec<f32>) -> Self {
        Self::Single(values)
    }
}

impl From<Vec<f64>> for Reals {
    fn from(values: Vec<f64>) -> Self {
        Self::Double(values)
    }
}

/// Numbers are compared as doubles, which every single is too.
impl<D: AsRef<[f64]>> PartialEq<D> for Reals {
    fn eq(&self, other: &D) -> bool {
        self.iter().eq(other.as_ref().iter().copied())
    }
}

impl Reals {
    /// So many zeros.
    pub fn zeros(precision: Precision, len: usize) -> Self {
        match precision {
            Precision::Single => Self::Single(vec![0.0; len]),
            Precision::Double => Self::Double(vec![0.0; len]),
        }
    }

    /// Reads little-endian IEEE 754 numbers; `None` if the length is no multiple of their size.
    pub fn from_bytes(precision: Precision, bytes: &[u8]) -> Option<Self> {
        if !bytes.len().is_multiple_of(precision.bytes()) {
            return None;
        }
        Some(match precision {
            Precision::Single => {
                let (values, _) = bytes.as_chunks::<4>();
                Self::Single(values.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            Precision::Double => {
                let (values, _) = bytes.as_chunks::<8>();
                Self::Double(values.iter().map(|b| f64::from_le_bytes(*b)).collect())
            }
        })
    }

    /// The numbers as little-endian IEEE 754 numbers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() * self.precision().bytes());
        match self {
            Self::Single(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Self::Double(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
        }
        bytes
    }

    /// The precision.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Single(_) => Precision::Single,
            Self::Double(_) => Precision::Double,
        }
    }

    /// The number of coordinates.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One number after the other, each as a double.
    pub fn iter(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Self::Single(values) => Box::new(values.iter().map(|&value| value.into())),
            Self::Double(values) => Box::new(values.iter().copied()),
        }
    }

    /// The numbers, each as a double.
    pub fn to_doubles(&self) -> Vec<f64> {
        self.iter().collect()
    }

    /// The same numbers in this precision, each rounded to nearest. A double beyond the range of singles becomes infinite.
    pub fn in_precision(self, precision: Precision) -> Self {
        match (self, precision) {
            (Self::Double(values), Precision::Single) => {
                Self::Single(values.iter().map(|&value| value as f32).collect())
            }
            (Self::Single(values), Precision::Double) => {
                Self::Double(values.iter().map(|&value| value.into()).collect())
            }
            (same, _) => same,
        }
    }

    /// Checks that all coordinates are finite.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] names the first that is NaN or infinite.
    pub fn check_finite(&self) -> Result<(), EncodeError> {
        let bad = match self {
            Self::Single(values) => values.iter().position(|value| !value.is_finite()),
            Self::Double(values) => values.iter().position(|value| !value.is_finite()),
        };
        bad.map_or(Ok(()), |index| Err(EncodeError::NotFinite { index }))
    }
}
