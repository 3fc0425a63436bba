//! The protocols. One joins by adding its folder and its line here; nothing else needs to know it.

pub(crate) mod flashe;
pub(crate) mod plain;
pub(crate) mod ramp;
pub(crate) mod secagg;

use crate::core::options::choose_table;
use crate::core::protocol::{ProtocolInfo, ProtocolTable};

choose_table! {
    /// Which protocol protects the sum, with its options.
    ProtocolChoice,
    /// Which protocol protects the sum.
    ProtocolName, ProtocolTable;
    plain::Plain,
    secagg::SecAgg,
    secagg::SecAggPlus,
    ramp::Fssa,
    ramp::Pss,
    flashe::Flashe,
}

impl ProtocolName {
    fn info(self) -> &'static ProtocolInfo {
        ProtocolChoice::from(self).view().info()
    }

    /// Whether anything is hidden from the server.
    pub fn protects(self) -> bool {
        self.info().protects
    }

    /// Whether parties may work with the server and learn no more than the sum. If not, the server reads every
    /// vector, alone (`plain`) or with the help of any one party (`flashe`).
    pub fn tolerates_corrupt(self) -> bool {
        self.info().tolerates_corrupt
    }
}
