//! What a job says, as it travels: reading gives back what was written, in any order, and nothing else has its hash.

use blindsum_protocol::options::{Table, Value};
use blindsum_protocol::{
    AdjacencyName, Adversary, Better, Clipping, DivisorName, EncodingChoice, FedAdagrad, FedAdam,
    FedAvg, FedAvgM, Fixed64, Flashe, Fssa, InitialModel, Integers, JobSpec, Masking, Metric,
    ModelUpdate, Mpc3, Parameters, Plain, Plateau, PrivacyChoice, PrivacyName, ProtocolChoice, Pss,
    Quantised, RoundingName, SecAgg, SecAggPlus, Skellam, StepChoice, StepName, StopChoice,
    StopName, SuiteName, TensorLayout,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

fn json(spec: &JobSpec) -> String {
    serde_json::to_string(spec).unwrap()
}

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.1),
        Just(1.0),
        0.0..1.0f64,
        any::<f64>().prop_filter("a number", |x| x.is_finite())
    ]
}

fn protocol() -> impl Strategy<Value = ProtocolChoice> {
    prop_oneof![
        Just(Plain::default().into()),
        Just(Mpc3::default().into()),
        (0..9u32).prop_map(|threshold| SecAgg { threshold }.into()),
        (0..9u32, any::<u32>()).prop_map(|(neighbours, threshold)| {
            SecAggPlus {
                neighbours,
                threshold,
            }
            .into()
        }),
        (0..3u32, 0..3u32).prop_map(|(threshold, packing)| Fssa { threshold, packing }.into()),
        (0..3u32, 0..3u32).prop_map(|(threshold, packing)| Pss { threshold, packing }.into()),
        (
            select(Masking::ALL),
            0..3u32,
            real(),
            real(),
            0..3u32,
            0..3u32,
            0..3u32,
            select(DivisorName::ALL),
        )
            .prop_map(
                |(
                    masking,
                    key_rounds,
                    density,
                    density_start,
                    density_steps,
                    density_rounds,
                    min_contributors,
                    divisor,
                )| {
                    Flashe {
                        masking,
                        key_rounds,
                        density,
                        density_start,
                        density_steps,
                        density_rounds,
                        min_contributors,
                        divisor,
                    }
                    .into()
                }
            ),
    ]
}

fn tensors() -> impl Strategy<Value = Vec<TensorLayout>> {
    let tensor = (".{0,3}", any::<u64>(), real());
    vec(
        tensor.prop_map(|(name, len, clip)| TensorLayout { name, len, clip }),
        0..3,
    )
}

fn metrics() -> impl Strategy<Value = Vec<Metric>> {
    let metric = (".{0,3}", real(), real());
    vec(
        metric.prop_map(|(name, low, high)| Metric { name, low, high }),
        0..3,
    )
}

fn encoding() -> impl Strategy<Value = EncodingChoice> {
    let choices = (select(Clipping::ALL), select(RoundingName::ALL));
    prop_oneof![
        (10..20u32, [real(), real()], choices, 1..3u32, tensors()).prop_map(
            |(bits, [clip, max_norm], (clipping, rounding), max_weight, tensors)| {
                Quantised {
                    bits,
                    clip,
                    clipping,
                    max_norm,
                    rounding,
                    max_weight,
                    tensors,
                }
                .into()
            }
        ),
        (real(), 1..3u32, tensors()).prop_map(|(clip, max_weight, tensors)| Fixed64 {
            clip,
            max_weight,
            tensors
        }
        .into()),
        (any::<u32>(), 1..3u32).prop_map(|(bits, max_weight)| Integers { bits, max_weight }.into()),
    ]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let single = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| Value::Whole(number.into())),
        real().prop_map(Value::Real),
        ".{0,3}".prop_map(Value::Text),
    ];
    let list = vec(single.clone(), 0..3).prop_map(Value::List);
    btree_map("[a-c_]{1,2}", prop_oneof![single, list], 0..4).prop_map(|entries| {
        let table = Value::Table(entries.into_iter().collect());
        let fields = [
            ("protocol", Value::Text("plain".into())),
            ("parties", Value::Whole(3)),
            ("dim", Value::Whole(1)),
        ];
        let fields = fields.into_iter().chain([("parameters", table)]);
        let fields = fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        JobSpec::read(&Value::Table(fields)).unwrap().parameters
    })
}

fn step() -> impl Strategy<Value = StepChoice> {
    prop_oneof![
        Just(StepName::FedAvg.into()),
        real().prop_map(|learning_rate| FedAvg { learning_rate }.into()),
        [real(), real()].prop_map(|[learning_rate, momentum]| FedAvgM {
            learning_rate,
            momentum
        }
        .into()),
        [real(), real(), real(), real()].prop_map(|[learning_rate, beta1, beta2, tau]| {
            FedAdam {
                learning_rate,
                beta1,
                beta2,
                tau,
            }
            .into()
        }),
        [real(), real(), real()].prop_map(|[learning_rate, beta1, tau]| {
            FedAdagrad {
                learning_rate,
                beta1,
                tau,
            }
            .into()
        }),
    ]
}

fn privacy() -> impl Strategy<Value = PrivacyChoice> {
    let options = (real(), real(), real(), select(AdjacencyName::ALL), real());
    let noised = |(noise_multiplier, epsilon, delta, adjacency, spare)| Skellam {
        noise_multiplier,
        epsilon,
        delta,
        adjacency,
        spare,
    };
    prop_oneof![
        select(PrivacyName::ALL).prop_map(PrivacyChoice::from),
        options.prop_map(move |options| noised(options).into()),
    ]
}

fn stop() -> impl Strategy<Value = StopChoice> {
    let options = (".{0,3}", select(Better::ALL), 0..9u32, real());
    prop_oneof![
        Just(StopName::NoStop.into()),
        options.prop_map(|(metric, better, patience, least_gain)| {
            Plateau {
                metric,
                better,
                patience,
                least_gain,
            }
            .into()
        }),
    ]
}

prop_compose! {
    /// Any specification, most of them not valid: reading and hashing ask for no more.
    fn spec()(
        (protocol, encoding) in (protocol(), encoding()),
        (parties, dim, job) in (0..9u32, any::<u64>(), select(vec!["job", "tumour", ""])),
        (adversary, suite, model_update) in (select(Adversary::ALL), select(SuiteName::ALL), select(ModelUpdate::ALL)),
        (min_parties, rounds) in (0..9u32, 0..3u32),
        (layout, parameters) in (vec(".{0,3}", 0..3), parameters()),
        (step, initial, stop, privacy) in (step(), select(InitialModel::ALL), stop(), privacy()),
        [corrupt, dropout, join_deadline, stage_deadline, input_deadline] in [real(), real(), real(), real(), real()],
        metrics in metrics(),
    ) -> JobSpec {
        JobSpec {
            job: job.into(), protocol, encoding, parties, dim, adversary, suite, model_update, min_parties, rounds,
            corrupt, dropout, join_deadline, stage_deadline, input_deadline,
            metrics, layout, parameters, step, initial, stop, privacy,
        }
    }
}

/// The same value with the entries of every table turned round.
fn turned(value: Value) -> Value {
    match value {
        Value::Table(entries) => {
            let entries = entries.into_iter().rev();
            Value::Table(entries.map(|(name, value)| (name, turned(value))).collect())
        }
        Value::List(items) => Value::List(items.into_iter().map(turned).collect()),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(spec in spec()) {
        let read: JobSpec = serde_json::from_str(&json(&spec)).unwrap();
        prop_assert_eq!(&read, &spec);
        prop_assert_eq!(JobSpec::read(&spec.whole()).unwrap(), spec.clone());
        prop_assert_eq!(JobSpec::read(&turned(spec.canonical())).unwrap(), spec.clone());
        let toml = toml::to_string(&spec.whole()).unwrap();
        prop_assert_eq!(toml::from_str::<JobSpec>(&toml).unwrap(), spec);
    }

    /// Whoever says something else has another hash, and whoever says the same has the same.
    #[test]
    fn hashes_tell_jobs_apart(a in spec(), b in spec(), turn in any::<bool>()) {
        let b = if turn { JobSpec::read(&turned(a.whole())).unwrap() } else { b };
        prop_assert_eq!(a.hash() == b.hash(), json(&a) == json(&b));
    }
}

/// Options of one table have other names than those of the job and of the other kinds of tables: a name says by
/// itself where it belongs.
#[test]
fn no_name_is_in_two_places() {
    let names = |table: &dyn Table| -> Vec<&str> {
        table
            .options()
            .into_iter()
            .map(|(option, _)| option.name)
            .collect()
    };
    let common = names(&JobSpec::default());
    let protocols = ProtocolChoice::every().flat_map(|choice| names(choice.table()));
    let protocols: Vec<&str> = protocols.collect();
    let encodings = EncodingChoice::every().flat_map(|choice| names(choice.table()));
    for name in encodings.chain(["name"]) {
        assert!(
            !common.contains(&name) && !protocols.contains(&name),
            "{name}"
        );
    }
    for name in protocols {
        assert!(name != "name" && !common.contains(&name), "{name}");
    }
}

fn refused(text: &str) -> String {
    let error = serde_json::from_str::<JobSpec>(text).unwrap_err();
    error.to_string()
}

#[test]
fn errors_say_where_an_option_belongs() {
    for (text, says) in [
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plain", "neighbours": 20}"#,
            "neighbours: is an option of secagg+, not of plain",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": {"name": "plain", "threshold": 0}}"#,
            "protocol.threshold: is an option of secagg, secagg+, fssa and pss, not of plain",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "secagg+", "neighbours": 20}"#,
            "neighbours: is an option of secagg+, not a field of the job itself: write it beside the name, in a file as in \
             protocol = { name = \"secagg+\", neighbours = … }, in Python as in protocol=SecAggPlus(neighbours=…)",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plain", "max_weight": 2}"#,
            "max_weight: is an option of quantised, fixed64 and integers, not a field of the job itself: write it",
        ),
        (
            r#"{"parties": 3, "dim": 1e5, "protocol": "plain"}"#,
            "dim: must be a whole number from 1 to 4294967296, not 100000.0: write 100000",
        ),
        (
            r#"{"parties": true, "dim": 4, "protocol": "plain"}"#,
            "parties: must be a whole number from 1 to 100000, not true",
        ),
        (
            r#"{"parties": 3, "protocol": {"name": "plain", "dim": 4}}"#,
            "protocol.dim: is a field of the job itself, not an option of plain",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": {"name": "secagg+", "novelty": 1}}"#,
            "protocol.novelty: is unknown: the options of secagg+ are neighbours and threshold",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plain", "novelty": 1}"#,
            "novelty: is unknown: the fields of a job are protocol, parties, dim, job,",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plan"}"#,
            "protocol: must be one of plain, secagg, secagg+, fssa, pss, pss-malicious, flashe, mpc3",
        ),
        (r#"{"parties": 3, "parties": 3}"#, "parties: occurs twice"),
        (
            r#"{"protocol": "plain", "dim": 3}"#,
            "parties: must be given",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plain", "encoding": {"name": "quantised", "bits": "16"}}"#,
            "encoding.bits: must be a whole number from 2 to 32, not \"16\"",
        ),
        (
            r#"{"parties": 3, "dim": 4, "protocol": "plain",
                "encoding": {"name": "quantised", "tensors": [{"name": "a", "len": 4}]}}"#,
            "encoding.tensors.0.clip: must be given",
        ),
    ] {
        let error = refused(text);
        assert!(error.starts_with(says), "{error}\nshould be\n{says}");
    }
}

/// An option with its default is no other job than one without it.
#[test]
fn a_default_may_be_said() {
    let read = |text: &str| serde_json::from_str::<JobSpec>(text).unwrap();
    let short = read(r#"{"parties": 3, "dim": 4, "protocol": "secagg+"}"#);
    let long = r#"{"protocol": {"neighbours": 0, "name": "secagg+"}, "dim": 4, "parties": 3, "rounds": 1}"#;
    assert_eq!(read(long), short);
    assert_eq!(
        json(&short),
        r#"{"dim":4,"encoding":"quantised","parties":3,"protocol":"secagg+"}"#
    );
}

/// What the mean does to the model follows from the encoding where it is not said.
#[test]
fn no_model_is_made_of_integers() {
    let integers = r#"{"parties": 3, "dim": 4, "protocol": "plain", "encoding": "integers"}"#;
    let spec: JobSpec = serde_json::from_str(integers).unwrap();
    assert_eq!(spec.model_update, ModelUpdate::Nothing);
    assert!(!json(&spec).contains("model_update"));
    spec.validate().unwrap();
}

fn flat(settings: &[(&str, &str)]) -> Result<JobSpec, String> {
    let base = [("protocol", "secagg+"), ("parties", "20"), ("dim", "1e3")];
    let settings = base.iter().chain(settings);
    let settings: Vec<(String, Value)> = settings
        .map(|(name, text)| (name.to_string(), Value::Text(text.to_string())))
        .collect();
    JobSpec::read_flat(&settings).map_err(|error| format!("{}: {}", error.field, error.rule))
}

#[test]
fn flat_settings_find_their_table() {
    let usual = JobSpec {
        protocol: SecAggPlus::default().into(),
        parties: 20,
        dim: 1000,
        ..JobSpec::default()
    };
    assert_eq!(flat(&[]), Ok(usual.clone()));
    let sparse = JobSpec {
        protocol: SecAggPlus {
            neighbours: 6,
            threshold: 0,
        }
        .into(),
        encoding: Quantised {
            clip: 0.5,
            ..Default::default()
        }
        .into(),
        corrupt: 0.0,
        ..usual.clone()
    };
    let settings = [
        ("neighbours", "4"),
        ("clip", "0.5"),
        ("protocol.neighbours", "6"),
        ("corrupt", "0"),
    ];
    assert_eq!(flat(&settings), Ok(sparse));
    let wide = flat(&[("bits", "40")]).unwrap();
    assert_eq!(wide.encoding.integer_bits(), Some(40));
    assert_eq!(wide.model_update, ModelUpdate::Nothing);
    assert_eq!(
        flat(&[("bits", "32")]).unwrap().encoding.integer_bits(),
        None
    );
    for (settings, says) in [
        (
            &[("masking", "single")][..],
            "masking: is an option of flashe, not of secagg+",
        ),
        (
            &[("protocol", "plain"), ("neighbours", "20")],
            "neighbours: is an option of secagg+, not of plain",
        ),
        (
            &[("encoding", "integers"), ("clip", "1")],
            "clip: is an option of quantised and fixed64, not of integers",
        ),
        (&[("novelty", "1")], "novelty: is unknown"),
        (
            &[("encoding.neighbours", "4")],
            "neighbours: is an option of secagg+, not of quantised",
        ),
        (
            &[("protocol.bits", "8")],
            "bits: is an option of quantised and integers, not of secagg+",
        ),
        (
            &[("protocol.rounds", "4")],
            "rounds: is a field of the job itself, not an option of secagg+",
        ),
        (
            &[("clip", "wide")],
            "encoding.clip: must be a number, not \"wide\"",
        ),
        (
            &[("rounds", "1.5")],
            "rounds: must be a whole number from 0 to 4294967295, not \"1.5\"",
        ),
    ] {
        let error = flat(settings).unwrap_err();
        assert!(error.starts_with(says), "{error}\nshould be\n{says}");
    }
}
