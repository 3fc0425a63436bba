//! The values that an option may take, whatever the other options are.

use super::Value;

/// One end of a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    /// No end.
    Open,
    /// This number is the last one inside.
    At(f64),
    /// This number is the first one outside.
    Beyond(f64),
}

/// A range of numbers. NaN is in no range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower end.
    pub least: Edge,
    /// The upper end.
    pub most: Edge,
}

/// Which values of its type an option may have.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// All of them.
    Any,
    /// The numbers of a range.
    Within(Bounds),
    /// The texts that a regular expression matches.
    Fits {
        /// The expression, for the JSON schema.
        pattern: &'static str,
        /// Whether a text fits.
        fits: fn(&str) -> bool,
        /// The rule in words.
        words: &'static str,
    },
}

/// No rule but the type.
pub(crate) const fn any() -> Rule {
    Rule::Any
}

/// `least <= value <= most`.
pub(crate) const fn within(least: f64, most: f64) -> Rule {
    Rule::Within(Bounds {
        least: Edge::At(least),
        most: Edge::At(most),
    })
}

/// `least <= value`.
pub(crate) const fn at_least(least: f64) -> Rule {
    Rule::Within(Bounds {
        least: Edge::At(least),
        most: Edge::Open,
    })
}

/// `0 < value <= most`.
pub(crate) const fn positive(most: f64) -> Rule {
    Rule::Within(Bounds {
        least: Edge::Beyond(0.0),
        most: Edge::At(most),
    })
}

/// `0 <= value < 1`.
pub(crate) const fn fraction() -> Rule {
    Rule::Within(Bounds {
        least: Edge::At(0.0),
        most: Edge::Beyond(1.0),
    })
}

/// Text that a regular expression matches, said in words.
pub(crate) const fn fits(
    pattern: &'static str,
    fits: fn(&str) -> bool,
    words: &'static str,
) -> Rule {
    Rule::Fits {
        pattern,
        fits,
        words,
    }
}

impl Rule {
    /// The rule that a value breaks, in words, with the value.
    pub(crate) fn broken_by(&self, name: &str, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::Within(bounds), Value::Whole(number)) => bounds.broken_by(name, *number as f64),
            (Self::Within(bounds), Value::Real(number)) => bounds.broken_by(name, *number),
            (Self::Fits { fits, words, .. }, Value::Text(text)) => {
                (!fits(text)).then(|| (*words).into())
            }
            _ => None,
        }
    }
}

impl Bounds {
    fn broken_by(&self, name: &str, value: f64) -> Option<String> {
        let above = match self.least {
            Edge::Open => true,
            // A fraction of -0 is written by nobody, and has other bits than 0.
            Edge::At(least) => least <= value && !(least == 0.0 && value.is_sign_negative()),
            Edge::Beyond(least) => least < value,
        };
        let below = match self.most {
            Edge::Open => true,
            Edge::At(most) => value <= most,
            // guard: fractions-below-one
            Edge::Beyond(most) => value < most,
        };
        (!above || !below)
            .then(|| format!("{name} is {} and must be {}", shown(value), self.in_words()))
    }

    /// The range in words.
    fn in_words(&self) -> String {
        let least = match self.least {
            Edge::Open => None,
            Edge::At(least) => Some(format!("at least {}", shown(least))),
            Edge::Beyond(least) => Some(format!("above {}", shown(least))),
        };
        let most = match self.most {
            Edge::Open => None,
            Edge::At(most) => Some(format!("at most {}", shown(most))),
            Edge::Beyond(most) => Some(format!("below {}", shown(most))),
        };
        match (self.least, self.most) {
            (Edge::At(least), Edge::At(most)) => {
                format!("from {} to {}", shown(least), shown(most))
            }
            _ => [least, most]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" and "),
        }
    }
}

/// A number as people write it.
fn shown(number: f64) -> String {
    let size = number.abs();
    let far = size >= 1e15 || (size > 0.0 && size < 1e-4);
    match far && number.is_finite() {
        true => format!("{number:e}"),
        false => format!("{number}"),
    }
}
