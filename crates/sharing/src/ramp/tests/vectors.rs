//! Agreement with the slow models `vectors/model/ramp_sharing.py` and `ramp_parameters.py`.

use std::collections::BTreeMap;

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;
use blindsum_math::residues;
use blindsum_math::words::{Width, Words};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::columns_of;
use crate::ramp::random::fill;
use crate::ramp::sharing::TILE_BLOCKS;
use crate::ramp::{
    ColumnSum, Embedding, Field31, Field47, Field48, RampParameters, RampRequest, RampSharing,
    Residues,
};

/// One list of the file; it is not empty.
fn load<T: DeserializeOwned>(list: &str) -> Vec<T> {
    let text = include_str!("../../../../../vectors/ramp.json");
    let mut file: Value = serde_json::from_str(text).unwrap();
    let vectors: Vec<T> = serde_json::from_value(file[list].take()).unwrap();
    assert!(!vectors.is_empty());
    vectors
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.is_ascii() && text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn mask_seed(text: &str) -> MaskSeed {
    let bytes: [u8; 32] = unhex(text).try_into().unwrap();
    MaskSeed::from(Secret::from(bytes))
}

fn residues_of(fields: &[String]) -> Residues {
    match fields.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["field31"] => Residues::Narrow,
        ["field47"] => Residues::Wide,
        ["field47", "field48"] => Residues::Pair,
        _ => panic!("no fields of a sharing: {fields:?}"),
    }
}

#[derive(Deserialize)]
struct Sampling {
    fields: Vec<String>,
    index: usize,
    seed: String,
    blocks: usize,
    rows: Vec<String>,
}

#[test]
fn random_elements_are_those_of_the_model() {
    for sampling in load::<Sampling>("samplings") {
        let (fill, unpack): (fn(&_, _, &mut _), fn(&_) -> _) =
            match &*sampling.fields[sampling.index] {
                "field31" => (fill::<Field31>, residues::unpack::<Field31>),
                "field47" => (fill::<Field47>, residues::unpack::<Field47>),
                "field48" => (fill::<Field48>, residues::unpack::<Field48>),
                other => panic!("no field: {other}"),
            };
        let stream = [MaskStream::new(mask_seed(&sampling.seed), Sign::Add)];
        let mut rows = vec![Vec::new(); sampling.rows.len()];
        for (tile, first) in (0..sampling.blocks).step_by(TILE_BLOCKS).enumerate() {
            let len = TILE_BLOCKS.min(sampling.blocks - first);
            let region = tile * sampling.fields.len() + sampling.index;
            let mut drawn = vec![0; rows.len() * len];
            fill(&stream, region as u64, &mut drawn);
            for (row, drawn) in rows.iter_mut().zip(drawn.chunks(len)) {
                row.extend_from_slice(drawn);
            }
        }
        let expected = sampling.rows.iter().map(|row| unpack(&unhex(row)).unwrap());
        assert_eq!(rows, expected.collect::<Vec<_>>(), "{}", sampling.seed);
    }
}

#[test]
fn parameters_are_those_of_the_model() {
    /// k, l and r, or the field of the job to change.
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Verdict {
        Found(usize, usize, usize),
        Refused(String),
    }
    /// n, adversary, fractions of corrupt parties and dropouts, both as parties, threshold, packing, words.
    type Row = (
        usize,
        String,
        f64,
        f64,
        usize,
        usize,
        usize,
        usize,
        usize,
        Verdict,
    );
    for row in load::<Row>("parameters") {
        let shown = format!("{row:?}");
        let (parties, adversary, _, _, corrupt, dropouts, threshold, packing, words, expected) =
            row;
        let request = RampRequest {
            parties,
            corrupt,
            dropouts,
            active: adversary == "active",
            words,
            threshold,
            packing,
        };
        let verdict = match RampParameters::choose(&request) {
            Ok(found) => Verdict::Found(found.threshold(), found.packing(), found.random()),
            Err(error) => Verdict::Refused(error.field.into()),
        };
        assert_eq!(verdict, expected, "{shown}");
    }
}

#[test]
fn fields_are_chosen_alike() {
    for (largest, fields) in load::<(String, Vec<String>)>("choices") {
        let chosen = Residues::for_sum(largest.parse().unwrap());
        assert_eq!(chosen, Some(residues_of(&fields)), "sums up to {largest}");
    }
}

/// All parties' vectors, shared, added and rebuilt.
#[derive(Deserialize)]
struct Aggregation {
    fields: Vec<String>,
    embedding: String,
    n: usize,
    k: usize,
    l: usize,
    parties: Vec<Party>,
    sums: BTreeMap<usize, String>,
    total: Vec<String>,
}

#[derive(Deserialize)]
struct Party {
    words: Vec<u64>,
    seed: String,
    columns: Vec<String>,
}

impl Aggregation {
    fn sharing(&self) -> RampSharing {
        let request = RampRequest {
            parties: self.n,
            corrupt: 0,
            dropouts: self.n - self.k,
            active: false,
            words: self.total.len(),
            threshold: self.k,
            packing: self.l,
        };
        let embedding = match &*self.embedding {
            "coefficients" => Embedding::Coefficients,
            "evaluations" => Embedding::Evaluations,
            other => panic!("no embedding: {other}"),
        };
        let parameters = RampParameters::choose(&request).unwrap();
        let residues = residues_of(&self.fields);
        RampSharing::new(parameters, embedding, residues, self.total.len()).unwrap()
    }

    /// The column of this rank in the sum.
    fn sum(&self, sharing: &RampSharing, rank: usize) -> ColumnSum {
        let mut sum = sharing.zero_column();
        for party in &self.parties {
            sharing.add(&mut sum, &unhex(&party.columns[rank])).unwrap();
        }
        sum
    }
}

#[test]
fn columns_are_those_of_the_model() {
    for aggregation in load::<Aggregation>("aggregations") {
        let sharing = aggregation.sharing();
        for party in &aggregation.parties {
            let columns = columns_of(&sharing, &party.words, mask_seed(&party.seed));
            let expected: Vec<Vec<u8>> = party.columns.iter().map(|c| unhex(c)).collect();
            assert_eq!(columns, expected, "{}", party.seed);
        }
    }
}

#[test]
fn sums_are_those_of_the_model() {
    for aggregation in load::<Aggregation>("aggregations") {
        let sharing = aggregation.sharing();
        let holders: Vec<usize> = aggregation.sums.keys().copied().collect();
        let sums: Vec<ColumnSum> = holders
            .iter()
            .map(|&rank| aggregation.sum(&sharing, rank))
            .collect();
        for (sum, expected) in sums.iter().zip(aggregation.sums.values()) {
            assert_eq!(sharing.pack(sum), unhex(expected));
        }
        // Sums of 64-bit words are what words of 64 bits hold of them.
        let mut rebuilt = Words::zeros(Width::new(64).unwrap(), aggregation.total.len());
        sharing
            .reconstructor(&holders)
            .unwrap()
            .reconstruct(&sums.iter().collect::<Vec<_>>(), &mut rebuilt)
            .unwrap();
        let total = aggregation.total.iter().map(|sum| {
            let sum: u128 = sum.parse().unwrap();
            sum as u64
        });
        assert!(rebuilt.iter().eq(total));
    }
}
