//! Tails of hypergeometric distributions over one population.

/// log2 of the binomial coefficients up to the population, from which the tails are summed.
pub(super) struct Hypergeometric {
    /// log2 of the factorials 0! ..= n!.
    log2_factorial: Vec<f64>,
}

impl Hypergeometric {
    /// For populations of at most this size.
    pub fn new(population: usize) -> Self {
        let mut sum = 0.0;
        let mut log2_factorial = vec![0.0];
        for i in 1..=population {
            sum += (i as f64).log2();
            log2_factorial.push(sum);
        }
        Self { log2_factorial }
    }

    fn factorial(&self, n: usize) -> f64 {
        self.log2_factorial.get(n).copied().unwrap_or(f64::INFINITY)
    }

    /// log2 of n choose k; minus infinity where k > n.
    pub fn log2_choose(&self, n: usize, k: usize) -> f64 {
        if k > n {
            return f64::NEG_INFINITY;
        }
        self.factorial(n) - self.factorial(k) - self.factorial(n - k)
    }

    /// The most marked ones among the draws, but for a small probability: the smallest x with
    /// `times` · Pr[X > x] < 2^`log2_bound`, X marked ones among `draws` out of `population` with `marked`.
    ///
    /// Sums the tail once, from its small end, and stops where it is too large.
    pub fn most(&self, sample: Sample, times: usize, log2_bound: f64) -> usize {
        let Sample {
            population,
            marked,
            draws,
        } = sample;
        let marked = marked.min(population);
        if draws >= population {
            return marked;
        }
        let ways = self.log2_choose(population, draws);
        let log2_times = (times.max(1) as f64).log2();
        let mut tail = 0.0;
        for x in (1..=marked.min(draws)).rev() {
            let log2 = self.log2_choose(marked, x)
                + self.log2_choose(population - marked, draws - x)
                - ways;
            tail += log2.exp2();
            if tail > 0.0 && log2_times + tail.log2() >= log2_bound {
                return x;
            }
        }
        0
    }
}

/// Draws without putting back.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub population: usize,
    pub marked: usize,
    pub draws: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 of 10 marked, 4 drawn: Pr[X >= 2] = (C(3,2)C(7,2) + C(3,3)C(7,1)) / C(10,4) = 70/210, Pr[X >= 3] = 7/210.
    #[test]
    fn tails_are_exact_on_a_small_population() {
        let tails = Hypergeometric::new(10);
        let sample = Sample {
            population: 10,
            marked: 3,
            draws: 4,
        };
        let most = |times, probability: f64| tails.most(sample, times, probability.log2());
        assert_eq!(most(1, 71.0 / 210.0), 1);
        assert_eq!(most(1, 69.0 / 210.0), 2);
        assert_eq!(most(1, 7.1 / 210.0), 2);
        assert_eq!(most(1, 6.9 / 210.0), 3);
        assert_eq!(most(2, 13.9 / 210.0), 3);
        assert_eq!(most(1, 1e-300), 3);
    }

    /// Whoever draws everybody draws every marked one.
    #[test]
    fn draws_of_everybody_are_certain() {
        let tails = Hypergeometric::new(100_000);
        let sample = |marked| Sample {
            population: 100_000,
            marked,
            draws: 100_000,
        };
        for marked in [0, 1, 30_000, 100_000] {
            assert_eq!(tails.most(sample(marked), 1, -40.0), marked);
        }
    }
}
