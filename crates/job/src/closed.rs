//! Closed sets of words, for programs that count or compare.

/// A closed set of words: an enum, the list of its values, and the word of each.
macro_rules! words {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $value:ident => $word:literal,)+ }) => {
        $(#[$of])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// Its word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    };
}

pub(crate) use words;
