//! Paillier keys that many tests share: to make one takes longer than most of the rounds that are tested with it.

use std::sync::{Arc, OnceLock};

use blindsum_he::paillier::{KeySize, SecretKey};
use rand_core::CryptoRng;

/// Begins the randomness that the keys are made of.
type Source = fn() -> Box<dyn CryptoRng>;
/// Two keys of a size: a key service changes between them.
type Pair = OnceLock<[Arc<SecretKey>; 2]>;

static SOURCE: OnceLock<Source> = OnceLock::new();
static SHORT: Pair = OnceLock::new();
static LONG: Pair = OnceLock::new();

/// From now on every key service of this process takes one of two keys that are made once, of this randomness, instead of
/// a new one. For tests of what is done with keys; those of how keys are made do not say this.
pub fn share_paillier_keys(source: Source) {
    SOURCE.get_or_init(|| source);
}

/// One of the two, where they are shared; never the one that served before.
pub(crate) fn draw(
    size: KeySize,
    before: Option<&Arc<SecretKey>>,
    rng: &mut dyn CryptoRng,
) -> Option<Arc<SecretKey>> {
    let source = SOURCE.get()?;
    let pair = match size {
        KeySize::Bits2048 => &SHORT,
        KeySize::Bits3072 => &LONG,
    };
    let keys = pair.get_or_init(|| {
        let mut rng = source();
        [(); 2].map(|()| Arc::new(SecretKey::generate(size, &mut *rng)))
    });
    let is_other = |key: &&Arc<SecretKey>| before.is_none_or(|it| !Arc::ptr_eq(it, key));
    let mut free = keys.iter().filter(is_other);
    let (first, second) = (free.next()?, free.next());
    let key = second
        .filter(|_| rng.next_u32().is_multiple_of(2))
        .unwrap_or(first);
    Some(key.clone())
}
