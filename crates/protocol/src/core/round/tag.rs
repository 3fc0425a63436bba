//! The step of a host that a round is of.

/// The tag that a host gives a round it starts. Parties that received different tags derive different keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The host's number of the step.
    pub number: u64,
    /// The hash of what the step is about, such as the model that the host sends the parties by its own way; none
    /// where the host states none.
    pub about: Option<[u8; 32]>,
}

impl Tag {
    /// A tag of a message: a number, and what it is about in 0 or 32 bytes.
    ///
    /// # Errors
    /// Another number of bytes, or some without a number.
    pub fn read(number: Option<u64>, about: &[u8]) -> Result<Option<Self>, String> {
        let of = match about {
            [] => None,
            bytes => match <[u8; 32]>::try_from(bytes) {
                Ok(of) if number.is_some() => Some(of),
                _ => {
                    return Err(format!(
                        "about: the hash of a round's content must have 32 bytes, beside a tag, not {}",
                        bytes.len()
                    ));
                }
            },
        };
        Ok(number.map(|number| Self { number, about: of }))
    }

    /// What it is about as a message has it.
    pub fn about_bytes(tag: Option<Self>) -> Vec<u8> {
        tag.and_then(|tag| tag.about)
            .map_or_else(Vec::new, Into::into)
    }

    /// Whether who waits for this tag takes part in a round with that one. Who says not what it is about takes any.
    pub fn takes(&self, round: Option<Self>) -> bool {
        round.is_some_and(|round| {
            // guard: a-party-compares-the-number-of-a-step, a-party-compares-what-a-step-is-about
            round.number == self.number && (self.about.is_none() || self.about == round.about)
        })
    }
}
