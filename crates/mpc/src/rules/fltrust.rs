//! FLTrust (Cao et al. 2021): the closer a vector's direction is to that of a trusted vector, the more it counts, and
//! all vectors are scaled to the length of the trusted one.

use std::sync::Arc;

use super::{Bounds, Weighed, room};
use crate::scalar::bits_of_inverse_root;
use crate::{FRACTION, Mpc, MpcError, Ring, Vectors, join3};

impl<R: Ring> Mpc<R> {
    /// Σ T_c · x_c · ‖g‖ / ‖x_c‖ over Σ T_c, with T_c = max(0, cos(x_c, g)), for a vector g = `root` that the servers
    /// know.
    ///
    /// # Errors
    /// [`MpcError::Range`] if g is 0 or there is no room for the sum, [`MpcError::Shape`] if g is of another length.
    pub async fn fltrust(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        root: &[f64],
    ) -> Result<Weighed<R>, MpcError> {
        let exponent = bounds.exponent;
        room(FRACTION + exponent, vectors.count())?;
        let length = root.iter().map(|it| it * it).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Err(MpcError::Range {
                name: "norm of the trusted vector",
                value: 0,
                rule: "it is above 0 and finite",
            });
        }
        let point = (60 - exponent).min(30);
        let unit = f64::from(1 << point) / length;
        let unit: Vec<R> = root
            .iter()
            .map(|it| R::of_signed((it * unit).round() as i64))
            .collect();
        let along = vectors.dot_public(&unit)?;
        let forward = async {
            let is_forward = self.sign(&along, 64).await?.not(self.me);
            self.multiply(&self.to_numbers(&is_forward).await?, &along)
                .await
        };
        let inverse = async {
            let norms = self.norms(vectors).await?;
            self.inverse_root(&norms, exponent).await
        };
        // All vectors need the same random bits, whatever is in them.
        let n = vectors.count();
        let mut bits = bits_of_inverse_root(n, exponent);
        bits.push((n, 1));
        bits.extend([(n, 64); 3]);
        let (forward, inverse, ()) = join3(forward, inverse, self.make_ahead(bits)).await?;
        // 1/‖x‖ is root · scale: by the one the numbers stay in range, the other is exact and comes in last.
        let scaled = self
            .multiply_truncate(&forward, &inverse.scale, exponent + point - FRACTION)
            .await?;
        let trust = self
            .multiply_truncate(&scaled, &inverse.root, FRACTION)
            .await?;
        let weights = self
            .multiply_truncate(&trust, &inverse.root, FRACTION)
            .await?;
        let weights = self.multiply(&weights, &inverse.scale).await?;
        let sum = self.weighted(&weights, vectors).await?;
        Ok(Weighed {
            sum,
            total: Some(trust.sums(vectors.count())),
            divisor: 2f64.powi((FRACTION + exponent) as i32) / length,
        })
    }
}
