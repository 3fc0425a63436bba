//! Agreement of fields, points, transforms and encodings with the slow model `vectors/model/prime.py` and
//! `vectors/model/ramp_sharing.py`.

use blindsum_math::MathError;
use blindsum_math::crt;
use blindsum_math::field::Field;
use blindsum_math::lagrange::{coefficients_matrix, values_matrix};
use blindsum_math::prime_field::{Field31, Field47, Field48, NttField};
use blindsum_math::residues::{add_packed, pack, pack_columns};
use blindsum_math::transform::{Backend, CosetTransform, Interpolation, Row};
use blindsum_paper::PaperSharing;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A field by its name in the vectors.
trait Named: NttField {
    const NAME: &'static str;
}

impl Named for Field31 {
    const NAME: &'static str = "field31";
}

impl Named for Field47 {
    const NAME: &'static str = "field47";
}

impl Named for Field48 {
    const NAME: &'static str = "field48";
}

/// One list of the file; it is not empty.
fn load<T: DeserializeOwned>(list: &str) -> Vec<T> {
    let text = include_str!("../../../vectors/ramp.json");
    let mut file: Value = serde_json::from_str(text).unwrap();
    let vectors: Vec<T> = serde_json::from_value(file[list].take()).unwrap();
    assert!(!vectors.is_empty());
    vectors
}

/// The vectors of a list that are over one field, and at least one.
fn load_over<F: Named, T: DeserializeOwned>(list: &str) -> Vec<T> {
    let all = load::<Value>(list).into_iter();
    let of_field = all.filter(|vector| vector["field"] == F::NAME);
    let vectors: Vec<T> = of_field
        .map(|vector| serde_json::from_value(vector).unwrap())
        .collect();
    assert!(!vectors.is_empty(), "{list} over {}", F::NAME);
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
    add_packed::<F>(&mut elements, bytes).map(|()| elements)
}

/// Vectors of packed elements.
fn unpack_all<F: NttField>(rows: &[String]) -> Vec<Vec<u64>> {
    rows.iter()
        .map(|row| unpack::<F>(&unhex(row)).unwrap())
        .collect()
}

fn element<F: Field>(value: u64) -> F {
    F::from_canonical(value).unwrap()
}

#[derive(Deserialize)]
struct Facts {
    modulus: u64,
    generator: u64,
    roots: Vec<u64>,
    numbers: Vec<u64>,
    packed: String,
    sums: Vec<Vec<u64>>,
    differences: Vec<Vec<u64>>,
    products: Vec<Vec<u64>>,
    inverses: Vec<Option<u64>>,
    bad_packed: Vec<String>,
}

fn check_field<F: Named>() {
    let facts = load_over::<F, Facts>("fields").remove(0);
    assert_eq!(F::MODULUS, facts.modulus);
    assert_eq!(F::GENERATOR.to_canonical(), facts.generator);
    assert_eq!(F::TWO_ADICITY as usize + 1, facts.roots.len());
    for (log_order, &root) in facts.roots.iter().enumerate() {
        let found = F::root_of_unity(log_order as u32).unwrap();
        assert_eq!(found.to_canonical(), root, "order 2^{log_order}");
    }
    for (i, &a) in facts.numbers.iter().enumerate() {
        for (j, &b) in facts.numbers.iter().enumerate() {
            let (x, y) = (element::<F>(a), element::<F>(b));
            assert_eq!((x + y).to_canonical(), facts.sums[i][j], "{a} + {b}");
            assert_eq!((x - y).to_canonical(), facts.differences[i][j], "{a} - {b}");
            assert_eq!((x * y).to_canonical(), facts.products[i][j], "{a} · {b}");
        }
        // The library gives 0 for the inverse that there is not.
        let inverse = facts.inverses[i].unwrap_or(0);
        assert_eq!(element::<F>(a).inverse().to_canonical(), inverse, "1/{a}");
    }
    check_encoding::<F>(&facts);
}

fn check_encoding<F: Named>(facts: &Facts) {
    let mut packed = Vec::new();
    pack::<F>(&facts.numbers, &mut packed);
    assert_eq!(packed, unhex(&facts.packed));
    assert_eq!(unpack::<F>(&packed).unwrap(), facts.numbers);
    for bad in &facts.bad_packed {
        let bad = unhex(bad);
        assert!(unpack::<F>(&bad).is_err(), "{bad:x?}");
        let mut sum = vec![7; bad.len() / F::ENCODED_LEN];
        assert!(add_packed::<F>(&mut sum, &bad).is_err(), "{bad:x?}");
    }
}

#[test]
fn fields_are_those_of_the_model() {
    check_field::<Field31>();
    check_field::<Field47>();
    check_field::<Field48>();
}

#[test]
fn residues_are_joined_alike() {
    for (a, b, number) in load::<(u64, u64, String)>("joins") {
        let number: u128 = number.parse().unwrap();
        assert_eq!(crt::join(a, b), number);
        let mut low = [0];
        crt::join_low(&[a], &[b], &mut low);
        assert_eq!(low, [number as u64]);
    }
}

#[derive(Deserialize)]
struct Points {
    count: usize,
    shares: Vec<u64>,
    secrets: Vec<u64>,
}

fn share_points<F: NttField>(count: usize) -> Vec<F> {
    let transform = CosetTransform::<F>::new(1, count).unwrap();
    (0..count).map(|j| transform.point(j)).collect()
}

fn secret_points<F: NttField>(count: usize) -> Vec<F> {
    let interpolation = Interpolation::<F>::new(count).unwrap();
    (0..count).map(|e| interpolation.point(e)).collect()
}

fn check_points<F: Named>() {
    let values = |points: Vec<F>| -> Vec<u64> { points.iter().map(|p| p.to_canonical()).collect() };
    for Points {
        count,
        shares,
        secrets,
    } in load_over::<F, _>("points")
    {
        assert_eq!(values(share_points(count)), shares, "{count} shares");
        assert_eq!(values(secret_points(count)), secrets, "{count} secrets");
    }
}

#[test]
fn points_are_those_of_the_model() {
    check_points::<Field31>();
    check_points::<Field47>();
    check_points::<Field48>();
}

#[derive(Deserialize)]
struct Sharing {
    embedding: String,
    n: usize,
    k: usize,
    l: usize,
    secrets: Vec<String>,
    random: Vec<String>,
    shares: Vec<String>,
    survivors: Vec<Vec<usize>>,
}

impl Sharing {
    fn is_by_coefficients(&self) -> bool {
        match &*self.embedding {
            "coefficients" => true,
            "evaluations" => false,
            other => panic!("an embedding: {other}"),
        }
    }

    /// Shares `[n × blocks]`, packed, computed eight blocks at a time.
    fn share<F: NttField>(&self, content: &[Vec<u64>], backend: Backend) -> Vec<Vec<u8>> {
        let transform = CosetTransform::<F>::with_backend(self.k, self.n, backend).unwrap();
        let interpolation = Interpolation::<F>::with_backend(self.k, backend).unwrap();
        let size = transform.scratch_rows().max(interpolation.scratch_rows());
        let blocks = content[0].len();
        let mut shares = vec![Vec::new(); self.n];
        for first in (0..blocks).step_by(8) {
            let count = (blocks - first).min(8);
            // Whatever the other rows and the other lanes hold.
            let mut rows = vec![Row([F::MODULUS - 1; 8]); size];
            for (row, values) in rows.iter_mut().zip(content) {
                row.0[..count].copy_from_slice(&values[first..first + count]);
            }
            if !self.is_by_coefficients() {
                interpolation.interpolate(&mut rows);
            }
            transform.evaluate(&mut rows);
            let stride = count * F::ENCODED_LEN;
            let mut together = vec![0; self.n * stride];
            let mut columns: Vec<Option<&mut [u8]>> =
                together.chunks_exact_mut(stride).map(Some).collect();
            pack_columns::<F>(&[&rows], count, 0, &mut columns);
            for (j, share) in shares.iter_mut().enumerate() {
                let mut packed = Vec::new();
                pack::<F>(&rows[j].0[..count], &mut packed);
                assert_eq!(packed, together[j * stride..][..stride]);
                share.extend(packed);
            }
        }
        shares
    }

    /// The secrets, from the shares of these ranks.
    fn rebuild<F: NttField>(&self, shares: &[Vec<u64>], ranks: &[usize]) -> Vec<Vec<u64>> {
        let points = share_points::<F>(self.n);
        let used: Vec<F> = ranks.iter().map(|&rank| points[rank]).collect();
        let matrix = match self.is_by_coefficients() {
            true => coefficients_matrix(&used, self.l).unwrap(),
            false => values_matrix(&used, &secret_points(self.k)[..self.l]).unwrap(),
        };
        let columns: Vec<&[u64]> = ranks.iter().map(|&rank| &*shares[rank]).collect();
        let blocks = columns[0].len();
        let mut secrets = vec![0; self.l * blocks];
        matrix.multiply(&columns, &mut secrets);
        secrets.chunks(blocks).map(<[u64]>::to_vec).collect()
    }
}

fn check_sharings<F: Named>() {
    for sharing in load_over::<F, Sharing>("sharings") {
        let shown = format!(
            "{} {} n={} k={} l={}",
            F::NAME,
            sharing.embedding,
            sharing.n,
            sharing.k,
            sharing.l
        );
        let secrets = unpack_all::<F>(&sharing.secrets);
        let content = [secrets.clone(), unpack_all::<F>(&sharing.random)].concat();
        assert_eq!((secrets.len(), content.len()), (sharing.l, sharing.k));
        let expected: Vec<Vec<u8>> = sharing.shares.iter().map(|share| unhex(share)).collect();
        for backend in Backend::ALL
            .into_iter()
            .filter(|backend| backend.is_available())
        {
            let shares = sharing.share::<F>(&content, backend);
            assert_eq!(shares, expected, "{shown}, {}", backend.name());
        }
        let shares = unpack_all::<F>(&sharing.shares);
        for ranks in &sharing.survivors {
            let rebuilt = sharing.rebuild::<F>(&shares, ranks);
            assert_eq!(rebuilt, secrets, "{shown} from {ranks:?}");
        }
    }
}

#[test]
fn shares_are_those_of_the_model() {
    check_sharings::<Field31>();
    check_sharings::<Field47>();
    check_sharings::<Field48>();
}

#[derive(Deserialize)]
struct Trap {
    k: usize,
    n: usize,
    secrets: Vec<u64>,
    random: Vec<u64>,
    shares: Vec<u64>,
}

fn check_trap<F: Named>() {
    for trap in load_over::<F, Trap>("trap") {
        let content = [&*trap.secrets, &*trap.random].concat();
        let paper = PaperSharing::<F>::new(trap.k.ilog2(), trap.n.ilog(3)).unwrap();
        let mut block: Vec<F> = content.iter().map(|&value| element(value)).collect();
        block.resize(trap.n, F::ZERO);
        paper.share(&mut block);
        let shares: Vec<u64> = block.iter().map(|share| share.to_canonical()).collect();
        assert_eq!(shares, trap.shares);
        assert_eq!(shares[0], trap.secrets[0], "which is the leak");
        // On the coset every share mixes all secrets with all of the randomness.
        let matrix = values_matrix(&secret_points(trap.k), &share_points::<F>(trap.n)).unwrap();
        assert!(matrix.entries().iter().all(|&weight| weight != F::ZERO));
    }
}

#[test]
fn share_points_are_no_secret_points() {
    check_trap::<Field47>();
    check_trap::<Field48>();
}
