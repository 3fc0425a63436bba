//! The layout and the hyperparameters of a job.

use blindsum_protocol::options::Value;
use blindsum_protocol::{JobSpec, ProtocolName};

use super::{good, refused};

#[test]
fn case_24_rules_of_a_layout() {
    let layout = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let base = || JobSpec {
        dim: 10,
        ..good(ProtocolName::Plain)
    };
    let fits = JobSpec {
        layout: layout(&["conv1.weight float32 2x2x2", "a bfloat16 1", "b float64 1"]),
        ..base()
    };
    assert!(fits.validate().is_ok());
    refusals! { base();
        layout = layout(&["a float32 9"]) => "layout", "the elements of its entries = 9 must be dim = 10: leave dim out";
        layout = layout(&["a float32 5", "a float32 5"]) => "layout.1", "\"a\" is the name of an earlier entry too";
        layout = layout(&["a float32 5", "b int8 5"]) => "layout.1", "must be one of float16, bfloat16, float32, float64";
        layout = layout(&["a float32"]) => "layout.0", "must be \"NAME DTYPE SHAPE\"";
        layout = layout(&["a  float32 10"]) => "layout.0", "must be \"NAME DTYPE SHAPE\"";
        layout = layout(&[" float32 10"]) => "layout.0", "a name of 1 to 256 bytes";
        layout = layout(&["a\u{202e}b float32 10"]) => "layout.0", "control and format characters";
        layout = layout(&["a\u{200b} float32 10"]) => "layout.0", "control and format characters";
        layout = layout(&["a\t float32 10"]) => "layout.0", "without spaces";
        layout = vec![format!("{} float32 10", "n".repeat(257))] => "layout.0", "a name of 1 to 256 bytes";
        layout = layout(&["a float32 0"]) => "layout.0", "whole numbers from 1 on";
        layout = layout(&["a float32 010"]) => "layout.0", "whole numbers from 1 on";
        layout = layout(&["a float32 +10"]) => "layout.0", "whole numbers from 1 on";
        layout = layout(&["a float32 2x"]) => "layout.0", "with x between them";
        layout = layout(&["a float32 65536x65537"]) => "layout.0", "at most 4294967296 elements";
        layout = layout(&["a float32 9223372036854775807x4"]) => "layout.0", "at most 4294967296 elements";
        layout = layout(&["a float32 4294967296", "b float32 1"]) => "layout.1", "<= 4294967296 must hold";
        layout = (0..=16_384).map(|place| format!("t{place} float32 1")).collect() => "layout", "16385 entries <= 16384";
    }
}

/// What a reader makes of a file in TOML, or the field and the rule that it breaks.
fn read(text: &str) -> Result<JobSpec, String> {
    let value: Value = toml::from_str(text).unwrap();
    JobSpec::read(&value).map_err(|error| format!("{}: {}", error.field, error.rule))
}

#[test]
fn dim_follows_from_a_layout() {
    let file = |more: &str| read(&format!("protocol = \"plain\"\nparties = 3\n{more}"));
    let spec = file("layout = [\"a float32 2x3\", \"b float32 1\"]").unwrap();
    assert_eq!(spec.dim, 7);
    let said = file("dim = 7\nlayout = [\"a float32 2x3\", \"b float32 1\"]").unwrap();
    assert_eq!((&said, said.hash()), (&spec, spec.hash()));
    assert_eq!(file("layout = []").unwrap_err(), "dim: must be given");
    assert!(
        file("layout = [\"a int8 2\"]")
            .unwrap_err()
            .starts_with("layout.0: ")
    );
}

#[test]
fn case_24_hyperparameters_are_bounded() {
    let file = |table: &str| {
        read(&format!(
            "protocol = \"plain\"\nparties = 3\ndim = 1\n[parameters]\n{table}"
        ))
    };
    let spec = file("b = [0.9, [\"x\", true]]\na = -3").unwrap();
    let names: Vec<&str> = spec.parameters.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(spec.parameters.get("a"), Some(&Value::Whole(-3)));
    assert_eq!(
        spec.hash(),
        file("a = -3\nb = [0.9, [\"x\", true]]").unwrap().hash()
    );
    assert_ne!(
        spec.hash(),
        file("a = -3\nb = [0.9, [\"x\", false]]").unwrap().hash()
    );
    assert_ne!(
        file("a = 1").unwrap().hash(),
        file("a = 1.0").unwrap().hash()
    );
    let many = |count: usize| {
        (0..count)
            .map(|place| format!("n{place} = 1\n"))
            .collect::<String>()
    };
    assert!(file(&many(256)).is_ok());
    for (table, rule) in [
        (many(257), "parameters: 257 names <= 256"),
        (
            format!("a = [{}]", "1,".repeat(4096)),
            "parameters: 4097 values <= 4096",
        ),
        (
            format!("a = \"{}\"", "x".repeat(1 << 16)),
            "parameters: 65537 bytes of names and text <= 65536",
        ),
        ("a = inf".into(), "parameters.a: must be a finite number"),
        (
            "a = { b = 1 }".into(),
            "parameters.a: must be a number, text, true, false, or a list of these",
        ),
        ("\"a b\" = 1".into(), "parameters.a b: a name is 1 to 64"),
    ] {
        let error = file(&table).unwrap_err();
        assert!(
            error.starts_with(rule),
            "{error} should begin with {rule:?}"
        );
    }
}

#[test]
fn hyperparameters_of_a_command_line_become_numbers_where_they_read_as_one() {
    let settings = [
        ("protocol", "plain"),
        ("parties", "3"),
        ("dim", "1"),
        ("parameters.epochs", "3"),
        ("parameters.rate", "1e-3"),
        ("parameters.nesterov", "true"),
        ("parameters.optimiser", "sgd"),
        ("parameters.epochs", "4"),
    ];
    let mut settings = settings
        .map(|(name, value)| (name.to_owned(), Value::Text(value.into())))
        .to_vec();
    let whole = Value::Table(vec![
        ("epochs".into(), Value::Whole(1)),
        ("warm".into(), Value::Bool(false)),
    ]);
    settings.insert(0, ("parameters".into(), whole));
    let spec = JobSpec::read_flat(&settings).unwrap();
    let found: Vec<(&str, Value)> = spec
        .parameters
        .iter()
        .map(|(name, value)| (name, value.clone()))
        .collect();
    let all = [
        ("epochs", Value::Whole(4)),
        ("nesterov", Value::Bool(true)),
        ("optimiser", Value::Text("sgd".into())),
        ("rate", Value::Real(1e-3)),
        ("warm", Value::Bool(false)),
    ];
    assert_eq!(found, all);
}
