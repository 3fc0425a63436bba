//! Coordinators and parties over real connections on the loopback interface, honest and not.

mod common;

mod announced;
mod as_simulated;
mod bounds;
mod connections;
mod farewells;
mod flashe;
mod framing;
mod hidden_models;
mod integers;
mod joining;
mod killed;
mod memory;
mod misbehaviour;
mod missed;
mod nonces;
mod places;
mod presence;
mod rates;
mod reconnecting;
mod relay;
mod renewals;
mod replays;
mod restarts;
mod results;
mod rollback;
mod rounds;
mod sealed;
mod sealers;
mod search;
mod sparse;
mod survivors;
mod trust;
mod words;
