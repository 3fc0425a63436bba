//! Job specifications: any JSON is a checked job or a rule.
#![no_main]

use blindsum_protocol::JobSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(spec) = serde_json::from_slice::<JobSpec>(json) else {
        return;
    };
    if let Ok(job) = spec.validate() {
        let written = serde_json::to_vec(job.spec()).expect("a checked job can be written");
        let again: JobSpec = serde_json::from_slice(&written).expect("and read");
        let again = again.validate().expect("and checked");
        assert_eq!(again.hash(), job.hash());
        assert!((1..=job.spec().parties as usize).contains(&job.min_parties()));
    }
});
