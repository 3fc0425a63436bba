//! A network in virtual time: what happens to a message from its sending until its sender has a receipt.

use rand_core::Rng;

use crate::SimError;
use crate::agenda::Time;
use crate::seeds::unit;

/// Seconds as virtual time of a round, which is counted in nanoseconds; what is negative or no number counts as 0.
pub(crate) fn time(seconds: f64) -> Time {
    (seconds * 1e9) as Time
}

/// The network between the parties and the servers. The default is perfect: no delay, no loss. Servers talk with each
/// other over lines that lose, repeat and hold back nothing; `latency` and `jitter` are those of their lines too.
///
/// A sender repeats a message, the same bytes, until a receipt comes back or the deadline of the stage has passed.
/// Receipts are lost like messages, so a message may arrive more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Seconds that every message takes.
    pub latency: f64,
    /// The most seconds that a message takes in addition; the delay is uniformly distributed.
    pub jitter: f64,
    /// Probability that a message, or its receipt, is lost.
    pub loss: f64,
    /// Probability that a message arrives twice.
    pub duplication: f64,
    /// Probability that a message is held back while later ones pass it.
    pub reordering: f64,
}

/// What became of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// How often it was sent.
    pub(crate) attempts: u64,
    /// When copies arrive, in the order in which they were sent.
    pub(crate) arrivals: Vec<Time>,
}

/// Seconds after which a message without a receipt is sent again, on top of the time that the receipt
/// of an unhindered message needs.
const RETRANSMIT: f64 = 1.0;
/// Longest hold of a reordered message, in multiples of an ordinary message's longest way.
const HOLD: f64 = 3.0;
/// Seconds that a reordered message is held at most where messages take no time.
const SHORTEST_HOLD: f64 = 1e-3;

impl Network {
    pub(crate) fn check(&self) -> Result<(), SimError> {
        for (field, seconds) in [
            ("network.latency", self.latency),
            ("network.jitter", self.jitter),
        ] {
            if !(0.0..=1e6).contains(&seconds) {
                return Err(SimError::scenario(
                    field,
                    format!("0 <= {field} = {seconds} <= 1000000 seconds"),
                ));
            }
        }
        let probabilities = [
            ("network.loss", self.loss),
            ("network.duplication", self.duplication),
            ("network.reordering", self.reordering),
        ];
        for (field, probability) in probabilities {
            if !(0.0..=1.0).contains(&probability) {
                return Err(SimError::scenario(
                    field,
                    format!("0 <= {field} = {probability} <= 1"),
                ));
            }
        }
        Ok(())
    }

    /// Sends a message at `sent`, and again until there is a receipt, but not after `until`.
    pub(crate) fn transmit(&self, rng: &mut impl Rng, sent: Time, until: Time) -> Transmission {
        if *self == Network::default() {
            return Transmission {
                attempts: 1,
                arrivals: vec![sent],
            };
        }
        let pause = time(RETRANSMIT + 2.0 * (self.latency + self.jitter));
        let mut transmission = Transmission {
            attempts: 0,
            arrivals: Vec::new(),
        };
        let (mut at, mut receipt) = (sent, Time::MAX);
        while at == sent || (at <= until && at < receipt) {
            transmission.attempts += 1;
            if !happens(rng, self.loss) {
                let arrival = at + self.way(rng);
                transmission.arrivals.push(arrival);
                if happens(rng, self.duplication) {
                    transmission.arrivals.push(at + self.way(rng));
                }
                if !happens(rng, self.loss) {
                    receipt = receipt.min(arrival + self.way(rng));
                }
            }
            at += pause;
        }
        transmission
    }

    /// How long a message takes that is neither lost nor held back.
    pub(crate) fn lossless_way(&self, rng: &mut impl Rng) -> Time {
        time(self.ordinary(rng))
    }

    fn ordinary(&self, rng: &mut impl Rng) -> f64 {
        self.latency + self.jitter * unit(rng)
    }

    fn way(&self, rng: &mut impl Rng) -> Time {
        let ordinary = self.ordinary(rng);
        let held = match happens(rng, self.reordering) {
            true => unit(rng) * (HOLD * (self.latency + self.jitter)).max(SHORTEST_HOLD),
            false => 0.0,
        };
        time(ordinary + held)
    }
}

fn happens(rng: &mut impl Rng, probability: f64) -> bool {
    unit(rng) < probability
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::stream;

    #[test]
    fn perfect_network_delivers_at_once() {
        let transmission = Network::default().transmit(&mut stream("network", &[]), 5, 5);
        assert_eq!(
            transmission,
            Transmission {
                attempts: 1,
                arrivals: vec![5]
            }
        );
    }

    #[test]
    fn delays_stay_within_latency_and_jitter() {
        let network = Network {
            latency: 0.05,
            jitter: 0.02,
            ..Network::default()
        };
        let mut rng = stream("network", &[1]);
        for _ in 0..1000 {
            let transmission = network.transmit(&mut rng, 0, time(30.0));
            assert_eq!((transmission.attempts, transmission.arrivals.len()), (1, 1));
            assert!((time(0.05)..=time(0.07)).contains(&transmission.arrivals[0]));
        }
    }

    #[test]
    fn lost_messages_are_sent_again_until_the_deadline() {
        let mut rng = stream("network", &[2]);
        let dead = Network {
            loss: 1.0,
            ..Network::default()
        };
        assert_eq!(
            dead.transmit(&mut rng, 0, time(4.5)),
            Transmission {
                attempts: 5,
                arrivals: vec![]
            }
        );

        let lossy = Network {
            loss: 0.3,
            ..Network::default()
        };
        let sent: Vec<_> = (0..2000)
            .map(|_| lossy.transmit(&mut rng, 0, time(60.0)))
            .collect();
        assert!(sent.iter().all(|t| !t.arrivals.is_empty()));
        // A message and its receipt both get through with probability 0.49.
        let attempts = sent.iter().map(|t| t.attempts).sum::<u64>() as f64 / 2000.0;
        assert!(
            (1.9..2.2).contains(&attempts),
            "{attempts} attempts, 1/0.49 = 2.04 expected"
        );
        assert!(
            sent.iter().any(|t| t.arrivals.len() > 1),
            "a lost receipt makes a copy"
        );
    }

    #[test]
    fn duplication_and_reordering_happen_as_often_as_asked() {
        let mut rng = stream("network", &[3]);
        let network = Network {
            latency: 0.01,
            duplication: 0.25,
            reordering: 0.5,
            ..Network::default()
        };
        let sent: Vec<_> = (0..4000)
            .map(|_| network.transmit(&mut rng, 0, time(9.0)))
            .collect();
        let twice = sent.iter().filter(|t| t.arrivals.len() == 2).count();
        assert!(
            (900..1100).contains(&twice),
            "{twice} of 4000 arrived twice"
        );
        let late = sent.iter().filter(|t| t.arrivals[0] > time(0.01)).count();
        assert!(
            (1850..2150).contains(&late),
            "{late} of 4000 were held back"
        );
    }

    #[test]
    fn wrong_numbers_name_their_field() {
        let rule = |network: Network| network.check().unwrap_err().to_string();
        assert_eq!(
            rule(Network {
                loss: 1.5,
                ..Network::default()
            }),
            "scenario: network.loss: 0 <= network.loss = 1.5 <= 1"
        );
        assert!(
            rule(Network {
                jitter: f64::NAN,
                ..Network::default()
            })
            .contains("network.jitter")
        );
        assert!(
            rule(Network {
                latency: -1.0,
                ..Network::default()
            })
            .contains("network.latency")
        );
    }
}
