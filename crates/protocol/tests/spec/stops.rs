//! Rules of the choice that ends a job early, and the rule itself against a slow model of it.

use blindsum_protocol::options::Value;
use blindsum_protocol::{
    Best, Better, Flashe, JobSpec, Metric, ModelUpdate, Mpc3, Plateau, ProtocolName, ResultName,
    StopChoice, StopName,
};
use proptest::prelude::*;
use proptest::sample::select;

fn base() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        metrics: ["loss", "accuracy"]
            .map(|name| Metric {
                name: name.into(),
                low: 0.0,
                high: 1.0,
            })
            .to_vec(),
        ..JobSpec::default()
    }
}

fn accuracy() -> Plateau {
    Plateau {
        metric: "accuracy".into(),
        ..Plateau::default()
    }
}

fn with(stop: impl Into<StopChoice>) -> JobSpec {
    JobSpec {
        stop: stop.into(),
        ..base()
    }
}

fn refused(spec: JobSpec, field: &str, rule: &str) {
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error} should quote {rule:?}");
}

#[test]
fn the_metric_is_one_of_the_jobs() {
    assert!(with(accuracy()).validate().is_ok());
    assert!(with(StopName::NoStop).validate().is_ok());
    refused(
        with(StopName::Plateau),
        "stop.metric",
        "metric is \"\" and must be one of the job's metrics: loss, accuracy",
    );
    let none = JobSpec {
        metrics: Vec::new(),
        ..with(accuracy())
    };
    refused(
        none,
        "stop.metric",
        "metric is \"accuracy\" and must be one of the job's metrics, of which it has none: declare it",
    );
}

#[test]
fn options_have_bounds() {
    for (least_gain, says) in [
        (-0.1, "-0.1"),
        (-0.0, "-0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        let stop = Plateau {
            least_gain,
            ..accuracy()
        };
        let rule = format!("least_gain is {says} and must be at least 0");
        refused(with(stop), "stop.least_gain", &rule);
    }
    let stop = Plateau {
        least_gain: f64::INFINITY,
        ..accuracy()
    };
    refused(
        with(stop),
        "stop.least_gain",
        "least_gain is inf and must be finite",
    );
}

#[test]
fn the_coordinator_learns_the_metric_and_keeps_models() {
    let nothing = JobSpec {
        model_update: ModelUpdate::Nothing,
        ..with(accuracy())
    };
    refused(
        nothing,
        "stop",
        "needs model_update = add or replace (is none)",
    );
    let of = |protocol| JobSpec {
        protocol,
        ..with(accuracy())
    };
    refused(
        of(Flashe::default().into()),
        "stop",
        "needs a coordinator that learns the metrics",
    );
    let rule = |result| Mpc3 {
        result,
        ..Mpc3::default()
    };
    refused(
        of(rule(ResultName::Parties).into()),
        "stop",
        "needs a coordinator that learns the metrics",
    );
    for protocol in [
        rule(ResultName::Both).into(),
        ProtocolName::SecAggPlus.into(),
    ] {
        let spec = JobSpec {
            parties: 10,
            ..of(protocol)
        };
        spec.validate().unwrap();
    }
}

/// What a job without a rule says, and its hash, are what they were.
#[test]
fn a_usual_job_does_not_say_it() {
    let said = |spec: &JobSpec| serde_json::to_string(spec).unwrap();
    assert!(!said(&base()).contains("stop"));
    assert!(said(&with(accuracy())).contains(r#""stop":{"name":"plateau","metric":"accuracy"}"#));
    assert_ne!(base().hash(), with(accuracy()).hash());
}

#[test]
fn a_table_without_a_name_is_one_of_plateau() {
    let head = "protocol = \"plain\"\nparties = 3\ndim = 1\n";
    let metric = "metrics = [{ name = \"accuracy\", low = 0.0, high = 1.0 }]\n";
    let read = |stop: &str| toml::from_str::<JobSpec>(&format!("{head}{metric}stop = {stop}\n"));
    let named = read("{ name = \"plateau\", metric = \"accuracy\", patience = 3 }").unwrap();
    let short = read("{ metric = \"accuracy\", patience = 3 }").unwrap();
    assert_eq!(named, short);
    assert_eq!(short.stop.plateau().unwrap().patience, 3);
    assert_eq!(read("\"never\"").unwrap().stop, StopName::NoStop.into());
    let error = read("{ patience = \"3\" }").unwrap_err().to_string();
    assert!(error.contains("stop.patience"), "{error}");
    let error = read("{ name = \"never\", patience = 3 }").unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("stop.patience: is an option of plateau, not of never"),
        "{error}"
    );
}

#[test]
fn settings_of_a_command_line_find_the_table() {
    let set = |pairs: &[(&str, &str)]| {
        let text = |text: &str| Value::Text(text.into());
        let usual = [("protocol", "plain"), ("parties", "3"), ("dim", "1")];
        let pairs = usual.iter().chain(pairs);
        let pairs: Vec<_> = pairs
            .map(|(name, value)| ((*name).into(), text(value)))
            .collect();
        JobSpec::read_flat(&pairs)
    };
    let read = set(&[
        ("stop", "plateau"),
        ("metric", "accuracy"),
        ("better", "lower"),
        ("stop.patience", "7"),
        ("least_gain", "0.5"),
    ]);
    let expected = Plateau {
        metric: "accuracy".into(),
        better: Better::Lower,
        patience: 7,
        least_gain: 0.5,
    };
    assert_eq!(read.unwrap().stop, expected.into());
    let error = set(&[("patience", "7")]).unwrap_err();
    assert_eq!(error.field, "patience");
    assert!(
        error.rule.contains("is an option of plateau, not of never"),
        "{error}"
    );
}

#[test]
fn people_read_why_a_job_ends() {
    let best = Best {
        metric: "accuracy".into(),
        round: 8,
        version: 7,
        value: 0.912_999_987,
        without_gain: 5,
    };
    assert_eq!(
        accuracy().reason(&best),
        "accuracy has not risen for 5 rounds; the best is 0.913, of model version 7"
    );
    let loss = Plateau {
        metric: "loss".into(),
        better: Better::Lower,
        least_gain: 0.01,
        ..accuracy()
    };
    let best = Best {
        value: 3.25e-9,
        without_gain: 1,
        ..best
    };
    assert_eq!(
        loss.reason(&best),
        "loss has not fallen by more than 0.01 for 1 round; the best is 3.25000e-9, of model version 7"
    );
}

/// The best of all values so far by its definition, and the values since: a value is a gain if it is better by more than
/// `least_gain` than the latest gain before it.
fn slow(rule: &Plateau, values: &[(u64, u64, Option<f64>)]) -> Option<Best> {
    let sign = match rule.better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
    };
    let measured: Vec<(u64, u64, f64)> = values
        .iter()
        .filter_map(|(round, version, value)| Some((*round, *version, (*value)?)))
        .collect();
    let mut gains: Vec<usize> = Vec::new();
    for (at, (_, _, value)) in measured.iter().enumerate() {
        let beats = |before: &usize| sign * (value - measured[*before].2) > rule.least_gain;
        if gains.last().is_none_or(beats) {
            gains.push(at);
        }
    }
    let at = *gains.last()?;
    let (round, version, value) = measured[at];
    Some(Best {
        metric: rule.metric.clone(),
        round,
        version,
        value,
        without_gain: (measured.len() - 1 - at) as u32,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rule_is_its_definition(
        values in prop::collection::vec(prop::option::of(prop_oneof![(0..6u8).prop_map(f64::from), -2.0..2.0f64]), 0..30),
        better in select(Better::ALL),
        patience in 0..4u32,
        least_gain in prop_oneof![Just(0.0), 0.0..1.5f64],
    ) {
        let rule = Plateau { better, patience, least_gain, ..accuracy() };
        let rounds: Vec<_> = values.iter().enumerate().map(|(i, value)| (i as u64 + 1, 2 * i as u64, *value)).collect();
        let mut best = None;
        for (i, (round, version, value)) in rounds.iter().enumerate() {
            best = rule.after(best, *round, *version, *value);
            let expected = slow(&rule, &rounds[..=i]);
            prop_assert_eq!(&best, &expected);
            let over = patience > 0 && expected.as_ref().is_some_and(|best| best.without_gain >= patience);
            prop_assert_eq!(rule.is_over(best.as_ref()), over);
        }
        // Without a least gain the best is the best of all, the first of those that are equal.
        if least_gain == 0.0 {
            let better_of = |a: f64, b: f64| match better { Better::Higher => a.max(b), Better::Lower => a.min(b) };
            let all = values.iter().flatten().copied().reduce(better_of);
            prop_assert_eq!(best.as_ref().map(|best| best.value), all);
            let first = values.iter().position(|value| value.is_some() && *value == all);
            prop_assert_eq!(best.map(|best| best.round), first.map(|i| i as u64 + 1));
        }
    }
}
