//! The JSON schema of a job specification. The command line, Python's classes and the documentation of options are made
//! from it.

use super::stops::Plateau;
use super::{
    DTYPES, JobSpec, MAX_DIM, MAX_ENTRIES, MAX_ENTRY_NAME, MAX_PARAMETERS, places, reading,
};
use crate::core::options::{Bounds, Declares, Edge, Kind, OptionInfo, Rule, Table, Value};

impl JobSpec {
    /// The schema, draft 2020-12. Each table is under `$defs`, named by the field that chooses it and its own name.
    /// Rules about several options at once are not in the schema.
    pub fn schema() -> Value {
        let spec = Self::default();
        let mut defs = vec![
            ("tensor".to_owned(), tensor()),
            ("metric".to_owned(), metric()),
            ("parameter".to_owned(), parameter()),
        ];
        for (option, _) in spec.options() {
            if let Kind::Tables(tables) = option.kind {
                let tables = tables().into_iter();
                let named = |table: &dyn Table| {
                    let needs = (option.name, table.name()) != (places::STOP, Plateau::NAME);
                    (place(option, table), chosen(table, needs))
                };
                defs.extend(tables.map(|table| named(&*table)));
            }
        }
        let properties = properties(&spec, &reading::REQUIRED);
        let always = reading::REQUIRED
            .iter()
            .filter(|name| **name != reading::DIM);
        let required = always.map(|name| text(name)).collect();
        let either = [reading::DIM, places::LAYOUT]
            .map(|name| object([("required", Value::List(vec![text(name)]))]));
        object([
            (
                "$schema",
                text("https://json-schema.org/draft/2020-12/schema"),
            ),
            ("title", text("JobSpec")),
            ("description", text(spec.doc())),
            ("type", text("object")),
            ("properties", properties),
            ("required", Value::List(required)),
            ("anyOf", Value::List(either.to_vec())),
            ("additionalProperties", Value::Bool(false)),
            ("$defs", Value::Table(defs)),
        ])
    }
}

/// Where the schema of a chosen table is.
fn place(option: &OptionInfo, table: &dyn Table) -> String {
    format!("{}.{}", option.name, table.name())
}

/// A table that is chosen by its name, which may have to be given.
fn chosen(table: &dyn Table, needs_name: bool) -> Value {
    let name = object([("const", text(table.name()))]);
    let required = needs_name.then(|| text("name")).into_iter().collect();
    let mut entries = vec![("name".to_owned(), name)];
    if let Value::Table(options) = properties(table, &[]) {
        entries.extend(options);
    }
    object([
        ("title", text(table.title())),
        ("description", text(table.doc())),
        ("type", text("object")),
        ("properties", Value::Table(entries)),
        ("required", Value::List(required)),
        ("additionalProperties", Value::Bool(false)),
    ])
}

/// The options of a table; those that are required have no default.
fn properties(table: &dyn Table, required: &[&str]) -> Value {
    let options = table.defaults().into_iter();
    let properties = options.map(|(option, default)| {
        let mut property = vec![("description".to_owned(), text(option.doc))];
        property.extend(kind(option));
        if let Rule::Within(bounds) = option.rule {
            property.extend(range(bounds));
        }
        if let Rule::Fits { pattern, .. } = option.rule {
            property.push(("pattern".into(), text(pattern)));
        }
        if !required.contains(&option.name) && option.name != places::MODEL_UPDATE {
            property.push(("default".into(), name_of(option.kind, default)));
        }
        (option.name.to_owned(), Value::Table(property))
    });
    Value::Table(properties.collect())
}

/// A default as it is written: a chosen table by its name.
fn name_of(kind: Kind, default: Value) -> Value {
    match (kind, default) {
        (Kind::Tables(_), Value::Table(entries)) => entries
            .into_iter()
            .find_map(|(name, value)| (name == "name").then_some(value))
            .unwrap_or(Value::Null),
        (_, other) => other,
    }
}

/// What says the type of an option.
fn kind(option: &OptionInfo) -> Vec<(String, Value)> {
    let of_type = |name| vec![("type".to_owned(), text(name))];
    match option.kind {
        Kind::Whole(most) => {
            let mut kind = of_type("integer");
            if !matches!(option.rule, Rule::Within(_)) {
                kind.push(("minimum".into(), Value::Whole(0)));
                kind.push(("maximum".into(), Value::Whole(most.into())));
            }
            kind
        }
        Kind::Real => of_type("number"),
        Kind::Text => of_type("string"),
        Kind::OneOf(names) => {
            let names = names.iter();
            let names = names.map(|named| {
                object([
                    ("const", text(named.name)),
                    ("description", text(named.doc)),
                ])
            });
            vec![("oneOf".into(), Value::List(names.collect()))]
        }
        Kind::Tensors => {
            let items = object([("$ref", text("#/$defs/tensor"))]);
            [of_type("array"), vec![("items".into(), items)]].concat()
        }
        Kind::Metrics => {
            let items = object([("$ref", text("#/$defs/metric"))]);
            [of_type("array"), vec![("items".into(), items)]].concat()
        }
        Kind::Layout => {
            let items = object([
                ("type", text("string")),
                ("pattern", text(&entry_pattern())),
            ]);
            let most = Value::Whole(MAX_ENTRIES as i128);
            let more = [("items".into(), items), ("maxItems".into(), most)];
            [of_type("array"), more.to_vec()].concat()
        }
        Kind::Parameters => {
            let names = object([("pattern", text("^[A-Za-z_][A-Za-z0-9_]{0,63}$"))]);
            let values = object([("$ref", text("#/$defs/parameter"))]);
            let more = [
                ("propertyNames".into(), names),
                ("additionalProperties".into(), values),
                ("maxProperties".into(), Value::Whole(MAX_PARAMETERS as i128)),
            ];
            [of_type("object"), more.to_vec()].concat()
        }
        Kind::Tables(tables) => {
            let tables = tables();
            let names = tables.iter().map(|table| text(table.name())).collect();
            let by_name = object([("enum", Value::List(names))]);
            let whole = tables.iter().map(|table| {
                let place = format!("#/$defs/{}", place(option, &**table));
                object([("$ref", text(&place))])
            });
            let ways = [by_name].into_iter().chain(whole).collect();
            vec![("oneOf".into(), Value::List(ways))]
        }
    }
}

/// A range of numbers.
fn range(bounds: Bounds) -> Vec<(String, Value)> {
    let edge = |edge, at: &str, beyond: &str| match edge {
        Edge::Open => None,
        Edge::At(end) => Some((at.to_owned(), number(end))),
        Edge::Beyond(end) => Some((beyond.to_owned(), number(end))),
    };
    let least = edge(bounds.least, "minimum", "exclusiveMinimum");
    let most = edge(bounds.most, "maximum", "exclusiveMaximum");
    least.into_iter().chain(most).collect()
}

/// A number without a fraction where it has none.
fn number(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => Value::Whole(number as i128),
        false => Value::Real(number),
    }
}

/// An entry of a layout, as a regular expression.
fn entry_pattern() -> String {
    let types = DTYPES.join("|");
    format!(r"^\S{{1,{MAX_ENTRY_NAME}}} ({types}) [1-9][0-9]*(x[1-9][0-9]*)*$")
}

/// A hyperparameter.
fn parameter() -> Value {
    let types = ["boolean", "number", "string", "array"].map(text);
    object([
        ("title", text("Parameter")),
        (
            "description",
            text("A hyperparameter: a number, text, a truth value, or a list of these."),
        ),
        ("type", Value::List(types.to_vec())),
        ("items", object([("$ref", text("#/$defs/parameter"))])),
    ])
}

/// The bounds of a tensor.
fn tensor() -> Value {
    let bounds = [("minimum", 1), ("maximum", MAX_DIM)];
    let len = bounds.map(|(name, bound)| (name, Value::Whole(bound.into())));
    entry(
        "Tensor",
        "A run of coordinates with its own clipping bound.",
        [
            ("name", "Name, for reports.", "string", &[]),
            ("len", "Number of coordinates.", "integer", &len),
            (
                "clip",
                "Bound on the absolute value of a coordinate.",
                "number",
                &[],
            ),
        ],
    )
}

/// A metric of training.
fn metric() -> Value {
    let name = [("pattern", text("^[a-z0-9_.-]{1,64}$"))];
    entry(
        "Metric",
        "A metric that every party may report in a round.",
        [
            (
                "name",
                "Name, of 1 to 64 of a-z 0-9 _ . -.",
                "string",
                &name,
            ),
            ("low", "The least value.", "number", &[]),
            ("high", "The greatest value.", "number", &[]),
        ],
    )
}

/// A field of an entry of a list: its name, documentation and type, and what else is said of it.
type Field<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, Value)]);

/// An entry of a list, all of whose fields must be given.
fn entry<const N: usize>(title: &str, doc: &str, fields: [Field<'_>; N]) -> Value {
    let properties = fields.map(|(name, doc, kind, rules)| {
        let property = [("description", text(doc)), ("type", text(kind))];
        let property = property.into_iter().chain(rules.iter().cloned());
        let property = property.map(|(name, value)| (name.to_owned(), value));
        (name.to_owned(), Value::Table(property.collect()))
    });
    let required = fields.map(|(name, ..)| text(name)).to_vec();
    object([
        ("title", text(title)),
        ("description", text(doc)),
        ("type", text("object")),
        ("properties", Value::Table(properties.to_vec())),
        ("required", Value::List(required)),
        ("additionalProperties", Value::Bool(false)),
    ])
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let entries = entries.into_iter();
    Value::Table(
        entries
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}
