//! Choices: one name among several.

/// What an enum of names needs to be written and read by them.
macro_rules! written_by_name {
    ($name:ident { $($variant:ident = $text:expr, $doc:expr;)+ }) => {
        impl $name {
            /// Every one, in the order in which they are listed to users.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name it is written by.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl $crate::core::options::Setting for $name {
            const KIND: $crate::core::options::Kind = $crate::core::options::Kind::OneOf(&[
                $($crate::core::options::Named { name: $text, doc: $doc },)+
            ]);

            fn read(value: &$crate::core::options::Value) -> Result<Self, $crate::core::options::SpecError> {
                use $crate::core::options::{Value, expected};
                let chosen = match value {
                    Value::Text(text) => Self::ALL.iter().find(|choice| choice.as_str() == text),
                    _ => None,
                };
                chosen.copied().ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
                    expected(&format!("one of {}", names.join(", ")), value)
                })
            }

            fn write(&self) -> $crate::core::options::Value {
                $crate::core::options::Value::Text(self.as_str().into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = $crate::core::options::Value::deserialize(from)?;
                $crate::core::options::Setting::read(&value)
                    .map_err(|error: $crate::core::options::SpecError| serde::de::Error::custom(error.rule))
            }
        }
    };
}
pub(crate) use written_by_name;

/// Declares a choice whose variants have one written name each.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident {
        $($(#[doc = $vdoc:literal])+ $variant:ident = $text:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)+ }

        $crate::core::options::written_by_name!($name {
            $($variant = $text, concat!($($vdoc),+).trim_ascii();)+
        });
    };
}
pub(crate) use choice;
