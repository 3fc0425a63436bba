//! The server. It relays sealed columns without holding them: who drives it does, see
//! [`crate::machine::Bodies::Relayed`]. Its own memory is that of the summed columns, n·D/l elements.

mod advertise;
mod aggregate;
mod consistency;
mod share;

use std::sync::Arc;

use blindsum_sharing::ramp::RampSharing;

use crate::machine::ServerStage;
use crate::{Fault, Round};

use super::{required_inputs, sharing_of};

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
pub(crate) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    let common = Common {
        sharing: sharing_of(round)?,
        round: round.clone(),
    };
    Ok(Box::new(advertise::CollectKeys::new(common)))
}
