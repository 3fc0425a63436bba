//! The macro that declares tables of options, and what it writes.

use super::{OptionInfo, SpecError, Table, Value, in_range};

/// An option with the way to its field in the table.
pub(crate) struct Declared<T: 'static> {
    pub info: OptionInfo,
    pub read: fn(&mut T, &Value) -> Result<(), SpecError>,
    pub write: fn(&T) -> Value,
    pub table: fn(&T) -> Option<&dyn Table>,
}

/// What [`table!`] writes.
pub(crate) trait Declares: Default + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DOC: &'static str;
    const OPTIONS: &'static [Declared<Self>];
}

impl<T: Declares> Table for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn title(&self) -> &'static str {
        T::TITLE
    }

    fn doc(&self) -> &'static str {
        T::DOC
    }

    fn options(&self) -> Vec<(&'static OptionInfo, Value)> {
        let options = T::OPTIONS.iter();
        options
            .map(|option| (&option.info, (option.write)(self)))
            .collect()
    }

    fn defaults(&self) -> Vec<(&'static OptionInfo, Value)> {
        T::default().options()
    }

    fn set(&mut self, name: &str, value: &Value) -> Option<Result<(), SpecError>> {
        let option = T::OPTIONS.iter().find(|option| option.info.name == name)?;
        let read = (option.read)(self, value);
        Some(read.map_err(|error| in_range(&option.info, error, value).within(name)))
    }
}

/// The first option whose value breaks its own rule.
pub(crate) fn check_each(table: &dyn Table) -> Result<(), SpecError> {
    for (option, value) in table.options() {
        if let Some(rule) = option.rule.broken_by(option.name, &value) {
            return Err(SpecError::new(option.name, rule));
        }
    }
    Ok(())
}

/// Declares tables of options: the name that each is chosen by, then the options that they have in common, each
/// with its documentation, name, type, default and, where the type alone does not say it, rule.
macro_rules! table {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+ options $options:tt) => {
        $($crate::core::options::table!(@one $(#[doc = $doc])+ $name = $text; $options);)+
    };
    (@one $(#[doc = $doc:literal])+ $name:ident = $text:literal; {
        $($(#[doc = $odoc:literal])+ $option:ident: $type:ty = $default:expr $(, $rule:expr)?;)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $odoc])+ pub $option: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($option: $default,)* }
            }
        }

        impl $crate::core::options::Declares for $name {
            const NAME: &'static str = $text;
            const TITLE: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc),+).trim_ascii();
            const OPTIONS: &'static [$crate::core::options::Declared<Self>] = &[
                $($crate::core::options::Declared {
                    info: $crate::core::options::OptionInfo {
                        name: stringify!($option),
                        doc: concat!($($odoc),+).trim_ascii(),
                        kind: <$type as $crate::core::options::Setting>::KIND,
                        rule: $crate::core::options::table!(@rule $($rule)?),
                    },
                    read: |table, value| {
                        table.$option = $crate::core::options::Setting::read(value)?;
                        Ok(())
                    },
                    write: |table| $crate::core::options::Setting::write(&table.$option),
                    table: |table| $crate::core::options::Setting::table(&table.$option),
                },)*
            ];
        }
    };
    (@rule) => { $crate::core::options::any() };
    (@rule $rule:expr) => { $rule };
}
pub(crate) use table;
