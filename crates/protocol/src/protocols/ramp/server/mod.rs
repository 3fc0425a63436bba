//! The server. It relays sealed columns without holding them: who drives it does, see
//! [`crate::core::round::Bodies::Relayed`]. Its own memory is that of the summed columns, n·D/l elements.

mod advertise;
mod aggregate;
mod consistency;
mod share;

use std::sync::Arc;

use blindsum_sharing::ramp::RampSharing;

use crate::Round;
use crate::core::round::ServerStage;
use crate::kit::advertise::CollectKeys;

use super::required_inputs;

/// What every stage knows.
#[derive(Clone)]
struct Common {
    round: Arc<Round>,
    sharing: Arc<RampSharing>,
}

impl Common {
    fn required_inputs(&self) -> usize {
        required_inputs(&self.round, &self.sharing)
    }
}

/// The server before the first message.
pub(super) fn serve(round: &Arc<Round>, sharing: Arc<RampSharing>) -> Box<dyn ServerStage> {
    let round = round.clone();
    CollectKeys::of(Common { round, sharing })
}
