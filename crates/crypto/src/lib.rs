//! Mask streams, key derivation, key agreement, sealing, signatures and certified rosters
