use blindsum_protocol::{JobSpec, ProtocolName};
use blindsum_sim::*;
use std::ops::ControlFlow;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let protocol = ProtocolName::ALL
        .iter()
        .copied()
        .find(|p| p.as_str() == args[1])
        .unwrap();
    let (steps, seed) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let spec = JobSpec {
        protocol: protocol.into(),
        ..JobSpec::default()
    };
    let clock = std::time::Instant::now();
    match Campaign::new(spec, steps, seed).run(&mut |_| ControlFlow::Continue(())) {
        Ok(tally) => println!(
            "{protocol} {tally:?} {:.1} s",
            clock.elapsed().as_secs_f64()
        ),
        Err(CampaignError::Broken(b)) => {
            for l in &b.story {
                println!("{l}");
            }
            println!("{b}");
            std::process::exit(1);
        }
        Err(e) => {
            println!("{e}");
            std::process::exit(2);
        }
    }
}
