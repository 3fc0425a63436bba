//! FLASHE: sets of coordinates and ciphertexts, dense and compacted, as a server reads and adds them.
#![no_main]

use blindsum_he::flashe::{
    EncryptedSum, Scheme, Shape,
    sparse::{EncryptedSparseSum, SparseMask},
};
use blindsum_math::words::Width;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, &[u8], &[u8])| {
    let (bits, lanes, mask, ciphertext) = input;
    let width = Width::new(u32::from(bits) % 57 + 8).expect("8 to 64");
    let lanes = usize::from(lanes) % 2048;
    let shape = Shape::new(Scheme::Double, width, lanes).expect("few lanes");
    let mut sum = EncryptedSum::new(shape);
    let nothing = sum.to_bytes();
    match sum.add(ciphertext) {
        Ok(()) => assert_eq!(sum.to_bytes(), ciphertext, "one form each"),
        Err(_) => assert_eq!(sum.to_bytes(), nothing, "nothing was added"),
    }
    let Ok(mask) = SparseMask::from_bytes(lanes, mask).inspect(|read| {
        assert_eq!(read.to_bytes(), mask, "one form each");
    }) else {
        return;
    };
    let mut sum = EncryptedSparseSum::new(width, lanes).expect("few lanes");
    let nothing = sum.to_bytes();
    match sum.add(&mask, ciphertext) {
        Ok(()) => assert_eq!(sum.to_bytes(), ciphertext, "one form each"),
        Err(_) => assert_eq!(sum.to_bytes(), nothing, "nothing was added"),
    }
});
