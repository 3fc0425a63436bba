//! What people are told of faults in a round.

use std::fmt::Display;

use super::Round;
use crate::core::party::PARTY;

impl Round {
    /// What to tell people of a fault, or of its kind alone: parties by their names, where its text has their ranks.
    pub fn in_words(&self, fault: &impl Display) -> String {
        let (text, members) = (fault.to_string(), self.roster().members());
        let mut parts = text.split(PARTY);
        let mut told = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let rank = part.strip_suffix(rest).unwrap_or_default();
            match rank.parse().ok().and_then(|rank: usize| members.get(rank)) {
                Some(member) => told.push_str(&member.name),
                None => told.extend([PARTY, rank]),
            }
            told.push_str(rest);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Cohort;
    use crate::{Fault, FaultKind, JobSpec, PartyId, ProtocolName};

    /// Abuse case 52: nobody is taken for another party because of the place that it has in a round.
    #[test]
    fn case_52_people_are_told_names_and_not_ranks() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: 12,
            dim: 1,
            ..JobSpec::default()
        };
        let round = Cohort::new(spec, 1).round;
        let refused = |reason: &str| FaultKind::Refused {
            reason: reason.into(),
        };
        let told = |fault: Fault| round.in_words(&fault);
        let reason = "party 3 and party 11's, not party 12 or a party of 3";
        assert_eq!(
            told(Fault::party(PartyId(10), refused(reason))),
            "party-00010: refused by this party: party-00003 and party-00011's, not party 12 or a party of 3"
        );
        assert_eq!(
            told(Fault::nobody(FaultKind::NotAMember)),
            FaultKind::NotAMember.to_string()
        );
    }
}
