//! Choices of a job: one table of options among several.

use super::SpecError;
use super::places::foreign;
use crate::core::options::{Entry, Table, Value};

/// Declares a choice of tables: the enum of the tables, and the enum of their names. A value chooses a table by
/// `"name"`, or by a table with `name` and options. There is one line for each table, `module::Table`. The last name on
/// the first line is the trait through which the rest of this crate asks a table what it means.
macro_rules! choose_table {
    (
        $(#[$doc:meta])* $choice:ident, $(#[$names_doc:meta])* $names:ident, $view:ident;
        $($module:ident::$table:ident,)+
    ) => {
        $(pub use $module::$table;)+

        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $choice {
            $(
                #[doc = concat!("[`", stringify!($table), "`] with its options.")]
                $table($module::$table),
            )+
        }

        $(#[$names_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $names {
            $(
                #[doc = concat!("The name of [`", stringify!($table), "`](struct@", stringify!($table), ").")]
                $table,
            )+
        }

        $crate::core::options::written_by_name!($names {
            $($table = <$module::$table as $crate::core::options::Declares>::NAME,
                <$module::$table as $crate::core::options::Declares>::DOC;)+
        });

        impl $choice {
            /// Every one, with the default of every option, in the order in which they are listed to users.
            pub fn every() -> impl Iterator<Item = Self> {
                $names::ALL.iter().map(|name| Self::from(*name))
            }

            /// The name of the chosen table.
            pub fn name(&self) -> $names {
                match self { $(Self::$table(_) => $names::$table,)+ }
            }

            /// The options of the chosen table.
            pub fn table(&self) -> &dyn $crate::core::options::Table {
                match self { $(Self::$table(table) => table,)+ }
            }

            /// What the chosen table means to the rest of this crate.
            pub(crate) fn view(&self) -> &dyn $view {
                match self { $(Self::$table(table) => table,)+ }
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name().as_str())
            }
        }

        impl From<$names> for $choice {
            /// With the default of every option.
            fn from(name: $names) -> Self {
                match name { $($names::$table => Self::$table(Default::default()),)+ }
            }
        }

        $(impl From<$module::$table> for $choice {
            fn from(table: $module::$table) -> Self {
                Self::$table(table)
            }
        })+

        impl $crate::core::options::Setting for $choice {
            const KIND: $crate::core::options::Kind = $crate::core::options::Kind::Tables(|| {
                vec![$(Box::new($module::$table::default()),)+]
            });

            fn read(value: &$crate::core::options::Value) -> Result<Self, $crate::SpecError> {
                let (name, options) = $crate::core::spec::chosen(value)?;
                let mut choice = Self::from(<$names as $crate::core::options::Setting>::read(name)
                    .map_err(|error| match value {
                        $crate::core::options::Value::Table(_) => error.within("name"),
                        _ => error,
                    })?);
                match &mut choice {
                    $(Self::$table(table) => $crate::core::spec::set_all(table, options)?,)+
                }
                Ok(choice)
            }

            fn write(&self) -> $crate::core::options::Value {
                $crate::core::spec::whole_table(self.table())
            }

            fn table(&self) -> Option<&dyn $crate::core::options::Table> {
                Some(self.table())
            }
        }
    };
}
pub(crate) use choose_table;

/// The name and the options of a chosen table.
pub(crate) fn chosen(value: &Value) -> Result<(&Value, &[Entry]), SpecError> {
    match value {
        Value::Table(entries) => match entries.iter().find(|(name, _)| name == "name") {
            Some((_, name)) => Ok((name, entries)),
            None => Err(SpecError::new("name", "must be given")),
        },
        name => Ok((name, &[])),
    }
}

/// Sets the options of a chosen table, whose `name` is read already.
pub(crate) fn set_all(table: &mut dyn Table, options: &[Entry]) -> Result<(), SpecError> {
    for (name, value) in options.iter().filter(|(name, _)| name != "name") {
        table
            .set(name, value)
            // guard: options-elsewhere
            .unwrap_or_else(|| Err(foreign(name, table)))?;
    }
    Ok(())
}

/// A chosen table with its name and every option.
pub(crate) fn whole_table(table: &dyn Table) -> Value {
    let name = ("name".to_owned(), Value::Text(table.name().into()));
    let options = table.options().into_iter();
    let options = options.map(|(option, value)| (option.name.to_owned(), value));
    Value::Table([name].into_iter().chain(options).collect())
}
