//! A message of the coordinator to a member of a round, while its chunks come.

use blindsum_protocol::{Message, Plan};

use crate::JobError;
use crate::chunks::{Assembly, Pushed};
use crate::error::wrong;
use crate::pb;

/// Takes the next chunk, of a message that the plan of the round has; gives the message once it is whole. What has come
/// of one, with its stage, is in `receiving`: a chunk at the beginning, or of another stage, begins anew.
///
/// # Errors
/// A chunk that is out of place, or of a message larger than the plan says.
pub(crate) fn receive(
    receiving: &mut Option<(u32, Assembly)>,
    plan: &Plan,
    chunk: pb::Chunk,
) -> Result<Option<Message>, JobError> {
    let assembly = match receiving.take() {
        Some((stage, assembly)) if stage == chunk.stage && chunk.offset > 0 => assembly,
        _ => {
            let stage = u8::try_from(chunk.stage).unwrap_or(u8::MAX);
            let limit = plan.reply(stage).map_or(0, |step| step.largest);
            Assembly::begin(chunk.total, limit).map_err(|e| wrong(e.to_string()))?
        }
    };
    let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
    match pushed.map_err(|e| wrong(format!("chunk: {e}")))? {
        Pushed::Part(assembly) => {
            *receiving = Some((chunk.stage, assembly));
            Ok(None)
        }
        Pushed::Whole(message) => Ok(Some(message)),
    }
}
