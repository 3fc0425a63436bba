//! Agreement with the slow models `vectors/model/ramp_sharing.py` and `ramp_parameters.py`.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;
use blindsum_math::MathError;
use blindsum_math::prime_field::NttField;
use blindsum_math::residues;
use blindsum_math::words::{Width, Words};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::columns_of;
use crate::SharingError;
use crate::ramp::TILE_BLOCKS;
use crate::ramp::random::fill;
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

/// The elements that are packed in `bytes`.
fn unpack<F: NttField>(bytes: &[u8]) -> Result<Vec<u64>, MathError> {
    let mut elements = vec![0; bytes.len() / F::ENCODED_LEN];
    residues::add_packed::<F>(&mut elements, bytes).map(|()| elements)
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
                "field31" => (fill::<Field31>, unpack::<Field31>),
                "field47" => (fill::<Field47>, unpack::<Field47>),
                "field48" => (fill::<Field48>, unpack::<Field48>),
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

/// The sharing of vectors of `words` words by these parameters.
fn sharing_of(
    (n, k, l): (usize, usize, usize),
    fields: &[String],
    embedding: &str,
    words: usize,
) -> RampSharing {
    let request = RampRequest {
        parties: n,
        corrupt: 0,
        dropouts: n - k,
        active: false,
        words,
        threshold: k,
        packing: l,
    };
    let embedding = match embedding {
        "coefficients" => Embedding::Coefficients,
        "evaluations" => Embedding::Evaluations,
        other => panic!("no embedding: {other}"),
    };
    let parameters = RampParameters::choose(&request).unwrap();
    RampSharing::new(parameters, embedding, residues_of(fields), words).unwrap()
}

impl Aggregation {
    fn sharing(&self) -> RampSharing {
        let sizes = (self.n, self.k, self.l);
        sharing_of(sizes, &self.fields, &self.embedding, self.total.len())
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

/// Columns of one vector, some missing and some wrong.
#[derive(Deserialize)]
struct Decoding {
    fields: Vec<String>,
    embedding: String,
    n: usize,
    k: usize,
    l: usize,
    columns: BTreeMap<usize, String>,
    wrong: Option<BTreeSet<usize>>,
    words: Vec<u64>,
}

#[test]
fn wrong_columns_are_those_of_the_model() {
    for decoding in load::<Decoding>("decodings") {
        let sizes = (decoding.n, decoding.k, decoding.l);
        let (fields, words) = (&decoding.fields, decoding.words.len());
        let sharing = sharing_of(sizes, fields, &decoding.embedding, words);
        let holders: Vec<usize> = decoding.columns.keys().copied().collect();
        let columns: Vec<ColumnSum> = decoding
            .columns
            .values()
            .map(|packed| {
                let mut column = sharing.zero_column();
                sharing.add(&mut column, &unhex(packed)).unwrap();
                column
            })
            .collect();
        let given: Vec<&ColumnSum> = columns.iter().collect();
        // What is drawn changes nothing.
        let found = sharing.misfits(&holders, &given, &mut ChaCha20Rng::seed_from_u64(1));
        let ranks = |found: BTreeSet<usize>| found.into_iter().map(|place| holders[place]);
        let found = found.map(|found| ranks(found).collect::<BTreeSet<_>>());
        let Some(wrong) = decoding.wrong else {
            assert!(matches!(found, Err(SharingError::Undecodable { .. })));
            continue;
        };
        assert_eq!(found, Ok(wrong.clone()));
        let right = holders
            .iter()
            .zip(&columns)
            .filter(|(rank, _)| !wrong.contains(rank));
        let (ranks, columns): (Vec<usize>, Vec<&ColumnSum>) = right.take(decoding.k).unzip();
        let mut rebuilt = Words::zeros(Width::new(64).unwrap(), words);
        let reconstructor = sharing.reconstructor(&ranks).unwrap();
        reconstructor.reconstruct(&columns, &mut rebuilt).unwrap();
        assert!(rebuilt.iter().eq(decoding.words));
    }
}
