use rand_core::Rng;

use super::*;
use crate::testing::rng;

fn set(mask: u32) -> BTreeSet<String> {
    let parties = (0..12).filter(|party| mask >> party & 1 == 1);
    parties.map(|party| format!("{party:02}")).collect()
}

fn release(round: u64, mask: u32) -> Release {
    Release {
        round,
        model: String::new(),
        survivors: set(mask),
    }
}

const RULE: Choice<'static> = Choice {
    rule: Rule {
        bound: 3,
        repetitions_tell: true,
    },
    least: 4,
    root: None,
};

#[test]
fn the_parties_of_an_earlier_result_come_again() {
    let known = [release(1, 0b11_1111_1111)];
    // A newcomer sits out.
    assert_eq!(
        choose(&set(0b111_1111_1111), &known, RULE, 2),
        Some(set(0b11_1111_1111))
    );
}

/// One party has gone: two others sit out with it, and not always the same ones.
#[test]
fn more_parties_sit_out_where_one_has_gone() {
    let known = [release(1, 0b11_1111_1111)];
    let present = set(0b1_1111_1111);
    let chosen = (2..11).map(|number| choose(&present, &known, RULE, number).unwrap());
    let chosen: BTreeSet<BTreeSet<String>> = chosen.collect();
    assert!(chosen.iter().all(|set| set.len() == 7));
    let out: BTreeSet<&String> = chosen
        .iter()
        .flat_map(|set| present.difference(set))
        .collect();
    assert_eq!(out.len(), present.len(), "each of them at some time");
}

#[test]
fn nobody_is_chosen_where_too_few_are_left() {
    let known = [release(1, 0b1_1111)];
    assert_eq!(choose(&set(0b1111), &known, RULE, 2), None);
    // One other has come, and one more sits out.
    let chosen = choose(&set(0b1000_0000_1111), &known, RULE, 2).unwrap();
    assert_eq!((chosen.len(), chosen.contains("11")), (4, true));
}

/// Whom the coordinator chooses may have a result, is here, and is enough; the root is among them.
#[test]
fn chosen_parties_may_have_a_result() {
    let mut dice = rng(67);
    let mut found = 0;
    for case in 0..2000 {
        let mut mask = || 1 + dice.next_u32() % ((1 << 12) - 1);
        let known: Vec<Release> = (0..1 + case % 3)
            .map(|round| release(round, mask()))
            .collect();
        let present = set(mask());
        let root = present.first().map(String::as_str);
        let rule = Choice {
            rule: Rule {
                bound: 2 + (case % 3) as usize,
                repetitions_tell: case % 2 == 0,
            },
            least: 3 + (case % 4) as usize,
            root,
        };
        let Some(chosen) = choose(&present, &known, rule, case) else {
            continue;
        };
        found += 1;
        assert!(chosen.is_subset(&present) && chosen.len() >= rule.least);
        assert!(root.is_none_or(|root| chosen.contains(root)));
        assert_eq!(compare(&known, &chosen, rule.rule), Ok(()));
    }
    assert!(found > 200, "{found}");
}
