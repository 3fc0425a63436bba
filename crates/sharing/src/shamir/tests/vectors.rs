//! Agreement with the slow model: `vectors/model/shamir.py`.

use serde::Deserialize;

use super::super::polynomials::Polynomials;
use super::super::{
    Field61, LIMBS, Point, Share, deal, field_points, reconstruct, robust_reconstruct, split,
};
use crate::SharingError;

#[derive(Deserialize)]
struct Vectors {
    sharings: Vec<Sharing>,
    received: Vec<Received>,
    bad_shares: Vec<String>,
    bad_secrets: Vec<String>,
}

#[derive(Deserialize)]
struct Sharing {
    threshold: usize,
    points: Vec<u32>,
    secret: String,
    coefficients: Vec<String>,
    shares: Vec<String>,
}

#[derive(Deserialize)]
struct Received {
    threshold: usize,
    points: Vec<u32>,
    shares: Vec<String>,
    secret: Option<String>,
    wrong: Option<Vec<u32>>,
}

fn vectors() -> Vectors {
    let text = include_str!("../../../../../vectors/shamir.json");
    serde_json::from_str(text).expect("the file is what vectors/make.py writes")
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.is_ascii() && text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn points(values: &[u32]) -> Vec<Point> {
    values.iter().map(|&x| Point::new(x).unwrap()).collect()
}

fn row(text: &str) -> [Field61; LIMBS] {
    Share::parse(&unhex(text)).unwrap().0
}

#[test]
fn the_same_polynomials_give_the_same_shares() {
    for vector in vectors().sharings {
        let secret = unhex(&vector.secret).try_into().unwrap();
        let coefficients: Vec<_> = vector.coefficients.iter().map(|text| row(text)).collect();
        assert_eq!(coefficients.len() + 1, vector.threshold);
        let holders = points(&vector.points);
        let polynomials = Polynomials::new(&split(&secret), &coefficients);
        let shares = deal(&polynomials, &field_points(&holders).unwrap());
        let encoded: Vec<Vec<u8>> = shares
            .iter()
            .map(|share| share.to_bytes().to_vec())
            .collect();
        let expected: Vec<Vec<u8>> = vector.shares.iter().map(|text| unhex(text)).collect();
        assert_eq!(encoded, expected);
        let held: Vec<(Point, &Share)> = holders.into_iter().zip(&shares).collect();
        assert_eq!(*reconstruct(vector.threshold, &held).unwrap(), secret);
    }
}

#[test]
fn the_same_liars_are_found() {
    for vector in vectors().received {
        let shares: Vec<Share> = vector.shares.iter().map(|text| Share(row(text))).collect();
        let held: Vec<(Point, &Share)> = points(&vector.points).into_iter().zip(&shares).collect();
        let expected = vector.secret.zip(vector.wrong);
        match (robust_reconstruct(vector.threshold, &held), expected) {
            (Ok((secret, liars)), Some((expected, wrong))) => {
                assert_eq!(secret.to_vec(), unhex(&expected));
                assert_eq!(liars, points(&wrong));
            }
            (Err(SharingError::Undecodable { .. }), None) => {}
            (have, _) => panic!("the model says otherwise about {:?}", have.err()),
        }
    }
}

#[test]
fn bad_shares_are_refused() {
    for text in vectors().bad_shares {
        assert!(Share::parse(&unhex(&text)).is_err(), "{text}");
    }
}

#[test]
fn what_never_was_a_secret_is_refused() {
    for text in vectors().bad_secrets {
        let share = Share(row(&text));
        let refused = reconstruct(1, &[(Point::new(1).unwrap(), &share)]).err();
        assert_eq!(refused, Some(SharingError::NotASecret));
    }
}
