//! The protocols. One joins by adding its folder and its line here; nothing else needs to know it.

pub(crate) mod flashe;
pub(crate) mod plain;
pub(crate) mod ramp;
pub(crate) mod secagg;

use crate::ProtocolName;
use crate::core::protocol::ProtocolInfo;

static PROTOCOLS: [ProtocolInfo; 6] = [
    plain::INFO,
    secagg::SECAGG,
    secagg::SECAGG_PLUS,
    ramp::FSSA,
    ramp::PSS,
    flashe::INFO,
];

/// Every protocol, in the order in which they are listed to users.
pub fn protocols() -> &'static [ProtocolInfo] {
    &PROTOCOLS
}

pub(crate) fn info(name: ProtocolName) -> &'static ProtocolInfo {
    let [plain, secagg, secagg_plus, fssa, pss, flashe] = &PROTOCOLS;
    match name {
        ProtocolName::Plain => plain,
        ProtocolName::SecAgg => secagg,
        ProtocolName::SecAggPlus => secagg_plus,
        ProtocolName::Fssa => fssa,
        ProtocolName::Pss => pss,
        ProtocolName::Flashe => flashe,
    }
}

impl ProtocolName {
    /// Whether parties may work with the server and learn no more than the sum. If not, the server reads every
    /// vector, alone (`plain`) or with the help of any one party (`flashe`).
    pub fn tolerates_corrupt(self) -> bool {
        info(self).tolerates_corrupt
    }
}
