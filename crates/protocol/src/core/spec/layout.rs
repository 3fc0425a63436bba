//! The layout of a model: the tensors that the coordinates are of, in order.

use std::collections::BTreeSet;

use super::{MAX_DIM, SpecError};
use crate::core::options::{Kind, Setting, Value, expected};

/// Most entries of a layout.
pub const MAX_ENTRIES: usize = 1 << 14;
/// Most bytes of the name of an entry.
pub const MAX_ENTRY_NAME: usize = 256;
/// The element types that an entry may have.
pub const DTYPES: [&str; 4] = ["float16", "bfloat16", "float32", "float64"];

/// What an entry is.
const FORM: &str = "must be \"NAME DTYPE SHAPE\" with one space between them, as in \"conv1.weight float32 16x1x3x3\"; \
                    a scalar has the shape 1";

/// The number of coordinates of a layout.
///
/// # Errors
/// An entry that breaks a rule; the field is its place, as in `layout.3`.
pub(crate) fn elements(layout: &[String]) -> Result<u64, SpecError> {
    if layout.len() > MAX_ENTRIES {
        let rule = format!(
            "{} entries <= {MAX_ENTRIES} must hold: give several small tensors one entry",
            layout.len()
        );
        return Err(SpecError::new("layout", rule));
    }
    let (mut names, mut sum) = (BTreeSet::new(), 0_u64);
    for (place, line) in layout.iter().enumerate() {
        let wrong = |rule: String| SpecError::new(format!("layout.{place}"), rule);
        let (name, elements) = entry(line).map_err(wrong)?;
        if !names.insert(name) {
            let rule = format!(
                "{name:?} is the name of an earlier entry too: give each a name of its own"
            );
            return Err(wrong(rule));
        }
        sum = sum
            .checked_add(elements)
            .filter(|sum| *sum <= MAX_DIM)
            .ok_or_else(|| {
                wrong(format!(
                    "the elements of all entries up to here <= {MAX_DIM} must hold"
                ))
            })?;
    }
    Ok(sum)
}

/// Refuses a layout that is not one of `dim` coordinates.
pub(crate) fn check_layout(layout: &[String], dim: u64) -> Result<(), SpecError> {
    let sum = elements(layout)?;
    // guard: layout-is-of-the-model
    if layout.is_empty() || sum == dim {
        return Ok(());
    }
    let rule = format!(
        "the elements of its entries = {sum} must be dim = {dim}: leave dim out, and it follows from the layout"
    );
    Err(SpecError::new("layout", rule))
}

/// The name of an entry, and its number of elements.
fn entry(line: &str) -> Result<(&str, u64), String> {
    let parts: Vec<&str> = line.split(' ').collect();
    let &[name, dtype, shape] = parts.as_slice() else {
        return Err(format!("{line:?} {FORM}"));
    };
    // guard: layout-names-can-be-seen
    let hidden = |c: char| c.is_whitespace() || c.is_control() || is_format(c);
    if name.is_empty() || name.len() > MAX_ENTRY_NAME || name.contains(hidden) {
        return Err(format!(
            "{name:?} must be a name of 1 to {MAX_ENTRY_NAME} bytes without spaces, control and format characters"
        ));
    }
    if !DTYPES.contains(&dtype) {
        return Err(format!(
            "{dtype:?} of {name} must be one of {}",
            DTYPES.join(", ")
        ));
    }
    let sizes: Option<Vec<u64>> = shape.split('x').map(size).collect();
    let elements = sizes.and_then(|sizes| {
        let mut sizes = sizes.into_iter();
        sizes.try_fold(1_u64, u64::checked_mul)
    });
    let elements = elements.filter(|elements| *elements <= MAX_DIM);
    let elements = elements.ok_or_else(|| {
        format!(
            "shape {shape:?} of {name} must be whole numbers from 1 on with x between them, as in 16x1x3x3, of at most \
             {MAX_DIM} elements; a scalar has the shape 1"
        )
    })?;
    Ok((name, elements))
}

/// Whether a character is a format character of Unicode 16 (category Cf): it has no shape, and may turn the order of others
/// round, so that two names look the same.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}')
}

/// One size of a shape, written as everybody writes it.
fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !text.starts_with('0'))
        .then(|| text.parse().ok())
        .flatten()
}

impl Setting for Vec<String> {
    const KIND: Kind = Kind::Layout;

    fn read(value: &Value) -> Result<Self, SpecError> {
        let Value::List(items) = value else {
            return Err(expected("a list of text lines, one for each tensor", value));
        };
        let lines = items.iter().enumerate();
        lines
            .map(|(place, line)| {
                String::read(line).map_err(|error| error.within(&place.to_string()))
            })
            .collect()
    }

    fn write(&self) -> Value {
        Value::List(self.iter().map(String::write).collect())
    }
}
