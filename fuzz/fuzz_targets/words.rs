//! Packed vectors: read, added, and packed again.
#![no_main]

use blindsum_math::words::{Width, Words};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (bits, lanes, packed) = input;
    let width = Width::new(u32::from(bits) % 64 + 1).expect("1 to 64");
    let lanes = usize::from(lanes) % 2048;
    let mut sum = Words::zeros(width, lanes);
    match Words::unpack(width, lanes, packed) {
        Ok(words) => {
            assert_eq!(words.pack(), packed, "one packing each");
            sum.add_packed(packed).expect("it was read");
            assert_eq!(sum, words);
            sum.add(&words).expect("the same shape");
            assert!(
                sum.iter()
                    .zip(words.iter())
                    .all(|(twice, once)| twice == once.wrapping_mul(2) & width.mask())
            );
        }
        Err(_) => {
            assert!(sum.add_packed(packed).is_err());
            assert!(sum.iter().all(|word| word == 0), "nothing was added");
        }
    }
});
