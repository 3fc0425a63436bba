//! Agreement with the slow model: `vectors/model/words.py`.

use serde::Deserialize;

use super::{Width, Words};

#[derive(Deserialize)]
struct Vectors {
    packings: Vec<Packing>,
    additions: Vec<Addition>,
    bad_packings: Vec<BadPacking>,
}

#[derive(Deserialize)]
struct Packing {
    bits: u32,
    words: Vec<u64>,
    packed: String,
}

#[derive(Deserialize)]
struct Addition {
    bits: u32,
    packed: Vec<String>,
    sum: Vec<u64>,
}

#[derive(Deserialize)]
struct BadPacking {
    bits: u32,
    lanes: usize,
    packed: String,
}

fn vectors() -> Vectors {
    let text = include_str!("../../../../vectors/words.json");
    serde_json::from_str(text).expect("the file is what vectors/make.py writes")
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.is_ascii() && text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

#[test]
fn packings_are_those_of_the_model() {
    let packings = vectors().packings;
    assert!(!packings.is_empty());
    for Packing {
        bits,
        words,
        packed,
    } in packings
    {
        let width = Width::new(bits).unwrap();
        let expected = Words::from_values(width, &words).unwrap();
        assert_eq!(expected.pack(), unhex(&packed), "{bits} bits");
        let unpacked = Words::unpack(width, words.len(), &unhex(&packed)).unwrap();
        assert_eq!(unpacked, expected, "{bits} bits");
    }
}

#[test]
fn sums_are_those_of_the_model() {
    let additions = vectors().additions;
    assert!(!additions.is_empty());
    for Addition { bits, packed, sum } in additions {
        let width = Width::new(bits).unwrap();
        let mut words = Words::zeros(width, sum.len());
        for packed in packed {
            words.add_packed(&unhex(&packed)).unwrap();
        }
        assert_eq!(words.iter().collect::<Vec<_>>(), sum, "{bits} bits");
    }
}

#[test]
fn what_the_model_refuses_is_refused() {
    let bad_packings = vectors().bad_packings;
    assert!(!bad_packings.is_empty());
    for BadPacking {
        bits,
        lanes,
        packed,
    } in bad_packings
    {
        let width = Width::new(bits).unwrap();
        assert!(Words::unpack(width, lanes, &unhex(&packed)).is_err());
    }
}
