//! Noise of servers against the model, and what steps make of a sum.

use serde::Deserialize;

use super::*;
use crate::SquaredMu;
use crate::tests::support::load;
use crate::tests::{FILE, adjacency};

/// A sum that fits.
fn spec() -> ServerNoiseSpec {
    ServerNoiseSpec {
        dim: 1000,
        sensitivity: 1 << 16,
        adjacency: Adjacency::ZeroOut,
        multiplier: Multiplier::at_least(1.0).unwrap(),
    }
}

#[derive(Deserialize)]
struct ServersVector {
    dim: usize,
    sensitivity: u64,
    units: u32,
    adjacency: String,
    refused: Option<String>,
    shift: Option<u32>,
    squared_norm: Option<u64>,
    variance_units: Option<u64>,
    squared_mu: Option<String>,
    squared_mu_outside: Option<String>,
}

/// Abuse case 39: noise of servers has the finest steps that can be drawn, and is worth what the model says, to who lacks one
/// component and to who lacks all three.
#[test]
fn case_39_noise_of_servers_is_that_of_the_model() {
    let mut refused = 0;
    for vector in load::<ServersVector>(FILE, "servers") {
        let spec = ServerNoiseSpec {
            dim: vector.dim,
            sensitivity: vector.sensitivity,
            adjacency: adjacency(&vector.adjacency),
            multiplier: Multiplier::of_units(vector.units).unwrap(),
        };
        let noise = match (spec.validate(), vector.refused.as_deref()) {
            (Ok(noise), None) => noise,
            (Err(PrivacyError::CoarseSteps { .. }), Some("coarse"))
            | (Err(PrivacyError::StepsGrow { .. }), Some("steps")) => {
                refused += 1;
                continue;
            }
            other => panic!("{spec:?}: {other:?}"),
        };
        assert_eq!(Some(noise.shift()), vector.shift, "{spec:?}");
        assert_eq!(Some(noise.squared_norm()), vector.squared_norm, "{spec:?}");
        let variance = noise.variance();
        let units = Some(variance.numerator());
        assert_eq!(units, vector.variance_units, "{spec:?}");
        let squared = |components| {
            let squared = SquaredMu::of_servers(&noise, components).unwrap();
            Some(squared.units().to_string())
        };
        assert_eq!(squared(1), vector.squared_mu, "{spec:?}");
        assert_eq!(squared(3), vector.squared_mu_outside, "{spec:?}");
        // The multiplier is met, and by one component alone.
        let asked = SquaredMu::of_multiplier(spec.multiplier, spec.adjacency);
        assert!(SquaredMu::of_servers(&noise, 1).unwrap() <= asked);
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn what_servers_cannot_size_is_refused() {
    let spec = spec();
    spec.validate().unwrap();
    let refused = |spec: ServerNoiseSpec| spec.validate().unwrap_err().to_string();
    let dim = |dim| ServerNoiseSpec { dim, ..spec };
    assert!(refused(dim(0)).starts_with("dim = 0"));
    assert!(refused(dim((1 << 32) + 1)).contains("1 <= dim <= 2^32"));
    let of = |sensitivity| ServerNoiseSpec {
        sensitivity,
        ..spec
    };
    assert!(refused(of(0)).contains("1 <= sensitivity <= 2^58"));
    assert!(refused(of((1 << 58) + 1)).contains("1 <= sensitivity <= 2^58"));
    of(1 << 58).validate().unwrap();
}

/// Abuse case 39: a sum that is shown with noise in steps is, whatever the even bits are, a sum in whole steps that moves no
/// further than noise is sized for, with a discrete Gaussian number of steps added.
#[test]
fn case_39_steps_round_a_sum_and_tell_nothing_else() {
    let (shift, dim) = (3, 4);
    let spec = ServerNoiseSpec { dim, ..spec() };
    let step = 1_i64 << shift;
    let moves: [[i64; 4]; 4] = [[5, -3, 0, 1], [0; 4], [-7, 7, 7, -7], [64, 1, -1, 20]];
    for start in -9..9_i64 {
        for moved in moves {
            // Of each coordinate: what is behind the last step, as often as even bits give it, and the whole steps beside it.
            let seen = |value: i64| {
                let evenly = -step / 2..step / 2;
                let mut seen: Vec<(i64, i64)> = evenly
                    .map(|even| {
                        let shown = value + even;
                        (shown.rem_euclid(step), shown.div_euclid(step))
                    })
                    .collect();
                seen.sort_unstable();
                seen
            };
            let mut furthest = 0;
            for change in moved {
                let (before, after) = (seen(start), seen(start + change));
                let behind = |seen: &[(i64, i64)]| seen.iter().map(|it| it.0).collect::<Vec<_>>();
                assert_eq!(behind(&before), (0..step).collect::<Vec<_>>());
                assert_eq!(behind(&after), behind(&before));
                let steps = before.iter().zip(&after).map(|(a, b)| (b.1 - a.1).pow(2));
                furthest += steps.max().unwrap();
            }
            let squared = moved.iter().map(|it| it * it).sum::<i64>() as u64;
            let sensitivity =
                (squared.isqrt() + u64::from(squared.isqrt().pow(2) < squared)).max(1);
            let spec = ServerNoiseSpec {
                sensitivity,
                ..spec
            };
            let counted = spec.with_steps(shift).unwrap().squared_norm;
            assert!(
                furthest as u64 <= counted,
                "{moved:?}: {furthest}, {counted}"
            );
        }
    }
}
