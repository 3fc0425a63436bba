//! Where columns are written.

use crate::protocols::pss_malicious::commitments::SALT;

/// Where `salt ‖ column` goes, by rank.
pub(super) type Places<'a> = [Option<&'a mut [u8]>];

/// Where the columns go.
pub(super) fn columns<'a>(places: &'a mut Places<'_>) -> Vec<Option<&'a mut [u8]>> {
    let places = places.iter_mut();
    places
        .map(|place| place.as_mut()?.get_mut(SALT..))
        .collect()
}
