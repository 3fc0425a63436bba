use proptest::prelude::*;

use super::*;

/// Laws and rounds of parties "a", "b", ….
struct World {
    conduct: Conduct,
    parties: Vec<Arc<str>>,
}

impl World {
    fn of(parties: usize, corrupt: usize) -> Self {
        let names = (0..parties).map(|party| name(&format!("{}", letter(party))));
        Self {
            conduct: Conduct::of(corrupt),
            parties: names.collect(),
        }
    }

    /// The next round begins; gives who is in it.
    fn begin(&mut self) -> BTreeSet<Arc<str>> {
        self.conduct.begin();
        let parties = self.parties.iter();
        let into = parties.filter(|name| self.conduct.sits_out(name, self.conduct.begun).is_none());
        let into: BTreeSet<Arc<str>> = into.cloned().collect();
        self.conduct.took_part(&into);
        into
    }

    /// Who sits out the next rounds, in the order of names.
    fn out(&mut self, rounds: usize) -> Vec<String> {
        let out = |world: &mut Self| {
            let into = world.begin();
            let out = world.parties.iter().filter(|name| !into.contains(*name));
            out.map(|name| &**name).collect()
        };
        (0..rounds).map(|_| out(self)).collect()
    }

    fn accuses(&mut self, by: &str, about: &str) -> Option<Arc<str>> {
        let (by, about) = (name(by), name(about));
        self.conduct.accused(&by, &about)
    }

    fn lied(&mut self, who: &str) {
        self.conduct.lied(&name(who));
    }

    fn left(&mut self, who: &[&str]) {
        let names = who.iter().map(|who| name(who)).collect();
        self.conduct.left(&names);
    }
}

fn letter(party: usize) -> char {
    char::from(b'a' + party as u8)
}

fn name(name: &str) -> Arc<str> {
    name.into()
}

fn nobody(rounds: usize) -> Vec<&'static str> {
    vec![""; rounds]
}

#[test]
fn case_57_who_is_accused_by_more_than_may_lie_sits_out() {
    let mut world = World::of(4, 1);
    world.begin();
    assert_eq!(world.accuses("a", "b"), None);
    assert_eq!(world.accuses("c", "b"), Some(name("b")));
    assert_eq!(world.out(10), ["b"; 10]);
    assert_eq!(world.out(1), nobody(1));
    world.lied("b");
    assert_eq!(world.out(20), ["b"; 20]);
    assert_eq!(world.out(1), nobody(1));
}

#[test]
fn case_52_lies_in_one_round_count_once() {
    let mut world = World::of(4, 1);
    world.begin();
    (0..3).for_each(|_| world.lied("b"));
    assert_eq!(world.out(10), ["b"; 10]);
    assert_eq!(world.out(1), nobody(1));
}

#[test]
fn case_52_who_accuses_more_than_may_lie_sits_out() {
    let mut world = World::of(4, 1);
    world.begin();
    assert_eq!(world.accuses("d", "a"), None);
    world.begin();
    assert_eq!(world.accuses("d", "b"), Some(name("d")));
    assert_eq!(world.out(1), ["d"]);
}

#[test]
fn case_52_a_claim_costs_both_the_same() {
    for (accuser, accused) in [("a", "b"), ("b", "a")] {
        let mut world = World::of(4, 1);
        world.begin();
        // Its own word about itself says nothing.
        assert_eq!(world.accuses("a", "a"), None);
        // The same claim again is no second one.
        (0..3).for_each(|_| assert_eq!(world.accuses(accuser, accused), None));
        for _ in 0..10 {
            assert_eq!(world.out(2), [accuser, accused]);
        }
        assert_eq!(world.out(1), nobody(1));
    }
}

#[test]
fn case_52_who_leaves_a_round_that_comes_to_nothing_loses_its_turns() {
    let mut world = World::of(4, 1);
    world.begin();
    world.accuses("a", "b");
    // Who accuses leaves the round, which says nothing; nor does it where both do, or somebody else.
    world.left(&["a"]);
    world.begin();
    world.left(&["a", "b"]);
    world.begin();
    world.left(&["c"]);
    assert_eq!(world.out(2), ["a", "b"]);
    world.left(&["b"]);
    assert_eq!(world.out(2), ["b", "b"]);
    // The latest one counts.
    world.left(&["a"]);
    assert_eq!(world.out(14), ["a"; 14]);
    assert_eq!(world.out(1), nobody(1));
    // Somebody else makes it leave: that is not its doing.
    let mut world = World::of(4, 2);
    world.begin();
    world.accuses("a", "b");
    world.begin();
    world.accuses("b", "c");
    world.left(&["b"]);
    assert_eq!(world.out(2), ["b", "ac"]);
}

/// Case 52: a party has no update for rounds that come to nothing. The first time it sits out none; then one, two, four. Ten
/// rounds that count take back one time.
#[test]
fn case_52_who_gives_no_update_again_and_again_sits_out_longer() {
    let mut world = World::of(4, 1);
    let again = |world: &mut World| {
        world.begin();
        world.conduct.gave_no_update(&name("a"));
    };
    for rounds in [0, 1, 2, 4] {
        again(&mut world);
        assert_eq!(world.out(rounds), vec!["a"; rounds]);
        assert_eq!(world.out(1), nobody(1));
    }
    (0..20).for_each(|_| world.conduct.kept("a"));
    again(&mut world);
    assert_eq!(world.out(2), ["a"; 2]);
    assert_eq!(world.out(1), nobody(1));
    (0..30).for_each(|_| world.conduct.kept("a"));
    again(&mut world);
    assert_eq!(world.out(1), nobody(1));
}

/// Case 52: nobody sits out in the place of a party that sits out for another reason.
#[test]
fn case_52_a_turn_of_who_sits_out_anyway_is_that_of_the_other() {
    let mut world = World::of(4, 1);
    world.begin();
    world.accuses("a", "b");
    assert_eq!(world.out(2), ["a", "b"]);
    (0..3).for_each(|_| world.conduct.gave_no_update(&name("a")));
    assert_eq!(world.out(2), ["a", "a"]);
    let next = world.out(2);
    assert_eq!(next.iter().filter(|out| *out == "a").count(), 1, "{next:?}");
}

#[test]
fn case_52_two_that_accuse_each_other_take_part_in_turn() {
    let mut world = World::of(4, 1);
    world.begin();
    world.accuses("b", "a");
    world.accuses("a", "b");
    let first = world.out(10);
    assert_eq!(first.iter().filter(|out| *out == "a").count(), 5);
    // The second claim of the two makes it last, and shows nobody to lie.
    assert_eq!(world.accuses("b", "a"), None);
    let next = world.out(20);
    assert_eq!(next.iter().filter(|out| *out == "a").count(), 10);
    assert_eq!(world.out(1), nobody(1));
}

/// Case 52: wherever the names of two accusers stand, their victim is in every second round, and so are they.
#[test]
fn case_52_a_victim_gets_its_turns_against_all_its_accusers_together() {
    for (victim, accusers) in [("b", ["a", "c"]), ("a", ["b", "c"]), ("c", ["a", "b"])] {
        let mut world = World::of(4, 2);
        for accuser in accusers {
            world.begin();
            world.accuses(accuser, victim);
        }
        let both = accusers.concat();
        for out in world.out(18).chunks(2) {
            assert_eq!(out, [victim, both.as_str()]);
        }
    }
}

/// Case 52: a claim that lapses and comes again costs its author more each time than the accused. Each time both are kept
/// apart for longer, since an honest accuser loses the round in which it repeats a claim.
#[test]
fn case_52_a_claim_that_comes_again_costs_the_accuser_more() {
    let mut world = World::of(4, 1);
    let mut alone = Vec::new();
    for _ in 0..5 {
        world.begin();
        world.accuses("a", "b");
        let next = || Some(world.out(1).concat()).filter(|out| !out.is_empty());
        let out: Vec<String> = std::iter::from_fn(next).collect();
        let of = |who: &str| out.iter().filter(|out| *out == who).count();
        assert!(of("b") * 2 <= out.len(), "{out:?}");
        alone.push(of("a") - of("b"));
    }
    assert_eq!(alone, [0, 5, 10, 20, 20]);
    // Long after that it is like a new one.
    world.out(600);
    world.accuses("a", "b");
    assert_eq!(world.out(46)[..5], ["a"; 5]);
    assert_eq!(world.out(1), nobody(1));
}

/// A liar makes an honest party accuse it again and again: that one is in a third of all rounds at least.
#[test]
fn an_honest_accuser_is_not_shut_out() {
    let mut world = World::of(5, 2);
    let mut count = 0;
    for _ in 0..1000 {
        let into = world.begin();
        if !into.contains("a") {
            continue;
        }
        let liar = ["b", "c"].into_iter().find(|liar| into.contains(*liar));
        match liar {
            Some(liar) => assert_eq!(world.accuses("a", liar), None),
            None => count += 1,
        }
    }
    assert!(count >= 333, "{count}");
}

/// Case 52: a liar that has accused a party and stays away does not keep the turn.
#[test]
fn case_52_who_stays_away_does_not_keep_its_turn() {
    let mut world = World::of(4, 1);
    world.begin();
    world.accuses("a", "b");
    let mut count = 0;
    for _ in 0..20 {
        world.conduct.begin();
        let names = world.parties.iter().filter(|name| &***name != "a");
        let is_in = |name: &&Arc<str>| world.conduct.sits_out(name, world.conduct.begun).is_none();
        let into: BTreeSet<Arc<str>> = names.filter(is_in).cloned().collect();
        count += u32::from(into.contains("b"));
        world.conduct.took_part(&into);
    }
    assert_eq!(count, 10);
}

#[test]
fn case_52_nobody_is_waited_for_round_after_round() {
    let mut conduct = Conduct::of(1);
    conduct.was_late(&name("a"), true);
    assert!(!conduct.is_slow("a"));
    conduct.was_late(&name("a"), true);
    assert!(conduct.is_slow("a"));
    conduct.is_ready("a");
    conduct.was_late(&name("a"), false);
    assert!(conduct.is_slow("a"));
}

#[test]
fn a_conduct_that_was_stored_goes_on_as_it_was() {
    let mut world = World::of(5, 2);
    world.begin();
    world.accuses("a", "b");
    world.lied("c");
    world.conduct.lost(&name("d"));
    world.out(24);
    world.begin();
    world.accuses("a", "b");
    world.begin();
    let round = world.conduct.begun;
    let bytes = world.conduct.to_bytes(round);
    let conduct = Conduct::from_bytes(2, &bytes).unwrap();
    let mut again = World {
        conduct,
        ..World::of(5, 2)
    };
    assert_eq!(again.conduct.to_bytes(round), bytes);
    assert_eq!(again.out(50), world.out(50));
    assert!(Conduct::from_bytes(2, b"{}").is_err());
}

/// What liars do: who may accuse whom (by number), and how often each of them does in a hundred rounds.
#[derive(Clone, Debug)]
struct Attack {
    parties: usize,
    corrupt: usize,
    /// The places of the liars among the names.
    liars: BTreeSet<usize>,
    targets: BTreeMap<usize, BTreeSet<usize>>,
    /// An honest party to which these liars send what only it can see, whenever they are in a round with it: it leaves, and
    /// accuses one of them.
    victim: Option<usize>,
    rubbish: BTreeSet<usize>,
    chance: u32,
    seed: u64,
}

/// As `attacks`, with liars that make an honest party accuse them, and accuse each other.
fn attacks_with_rubbish() -> impl Strategy<Value = Attack> {
    (attacks(), any::<prop::sample::Index>(), any::<u16>()).prop_map(|(attack, victim, which)| {
        let honest = (0..attack.parties).filter(|party| !attack.liars.contains(party));
        let honest: Vec<usize> = honest.collect();
        let rubbish = attack.liars.iter().filter(|liar| which >> **liar & 1 == 1);
        Attack {
            victim: Some(*victim.get(&honest)),
            rubbish: rubbish.copied().collect(),
            ..attack
        }
    })
}

fn attacks() -> impl Strategy<Value = Attack> {
    (5usize..16).prop_flat_map(|parties| {
        let corrupt = 1..=(parties - 1) / 3;
        corrupt.prop_flat_map(move |corrupt| {
            let all = proptest::sample::subsequence((0..parties).collect::<Vec<_>>(), corrupt);
            let targets = prop::collection::vec(
                prop::collection::btree_set(0..parties, 0..=corrupt),
                corrupt,
            );
            (all, targets, 1..=100u32, any::<u64>()).prop_map(
                move |(liars, targets, chance, seed)| {
                    let targets = liars.iter().copied().zip(targets).collect();
                    let liars = liars.into_iter().collect();
                    Attack {
                        parties,
                        corrupt,
                        liars,
                        targets,
                        victim: None,
                        rubbish: BTreeSet::new(),
                        chance,
                        seed,
                    }
                },
            )
        })
    })
}

impl Attack {
    /// In how many of so many rounds each party took part, and did not leave.
    fn play(&self, rounds: u32) -> Vec<u32> {
        let mut world = World::of(self.parties, self.corrupt);
        let (mut counts, mut state) = (vec![0; self.parties], self.seed | 1);
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u32
        };
        for _ in 0..rounds {
            let into = world.begin();
            let is_in = |party: usize| into.contains(&world.parties[party]);
            let mut left = BTreeSet::new();
            let mut claims = Vec::new();
            for (&liar, targets) in self.targets.iter().filter(|(liar, _)| is_in(**liar)) {
                let present: Vec<usize> = targets.iter().copied().filter(|of| is_in(*of)).collect();
                if !present.is_empty() && draw() % 100 < self.chance {
                    claims.push((liar, present[draw() as usize % present.len()]));
                    left.insert(liar);
                }
            }
            if let Some(victim) = self.victim.filter(|victim| is_in(*victim)) {
                let mut senders = self.rubbish.iter().filter(|liar| is_in(**liar));
                if let Some(liar) = senders.next() {
                    claims.push((victim, *liar));
                    left.insert(victim);
                }
            }
            for party in (0..self.parties).filter(|party| is_in(*party) && !left.contains(party)) {
                counts[party] += 1;
            }
            for (by, about) in claims {
                let (by, about) = (world.parties[by].clone(), world.parties[about].clone());
                world.conduct.accused(&by, &about);
            }
        }
        counts
    }
}

/// Case 52: liars that send rubbish to one party whenever they can, and accuse each other so that all stand against all.
#[test]
fn case_52_an_honest_accuser_among_liars_that_accuse_each_other() {
    for (corrupt, percent) in [(1, 40), (2, 20), (3, 12), (4, 9)] {
        for seed in 0..50 {
            let liars: BTreeSet<usize> = (0..corrupt).collect();
            // Each accuses those before it: the first one accuses nobody.
            let targets = liars.iter().map(|liar| (*liar, (0..*liar).collect()));
            let attack = Attack {
                parties: 3 * corrupt + 1,
                corrupt,
                targets: targets.collect(),
                victim: Some(corrupt),
                rubbish: liars.clone(),
                liars,
                chance: 30 + (seed as u32 % 8) * 10,
                seed: seed * 7919,
            };
            let counts = attack.play(2000);
            assert!(
                counts[corrupt] * 100 >= 2000 * percent,
                "{attack:?}: {counts:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Case 52: whatever at most `corrupt` liars say of whom, and wherever their names stand: an honest party is in about
    /// half of all rounds at least.
    #[test]
    fn case_52_liars_cost_an_honest_party_at_most_half_of_the_rounds(attack in attacks()) {
        let rounds = 600;
        let counts = attack.play(rounds);
        let honest = (0..attack.parties).filter(|party| !attack.liars.contains(party));
        for party in honest {
            prop_assert!(counts[party] * 100 >= rounds * 49, "{party}: {counts:?}");
        }
    }

    /// Case 52: if liars make an honest party accuse them as well, it is in about 1 / (2c + 2) of all rounds at least.
    #[test]
    fn case_52_honest_accusers_have_their_turns(attack in attacks_with_rubbish()) {
        let rounds = 1200;
        let counts = attack.play(rounds);
        let share = 2 * attack.corrupt as u32 + 2;
        let honest = (0..attack.parties).filter(|party| !attack.liars.contains(party));
        for party in honest {
            prop_assert!(counts[party] * share * 10 >= rounds * 9, "{party}: {counts:?}");
        }
    }

    /// Case 52: those that accuse a party lose at least as many rounds, all together, as it does.
    #[test]
    fn case_52_liars_lose_as_many_rounds_as_their_victims(attack in attacks()) {
        let rounds = 600;
        let counts = attack.play(rounds);
        let honest = (0..attack.parties).filter(|party| !attack.liars.contains(party));
        for victim in honest {
            let liars = attack.targets.iter().filter(|(_, targets)| targets.contains(&victim));
            let lost: u32 = liars.map(|(liar, _)| rounds - counts[*liar]).sum();
            prop_assert!(lost >= rounds - counts[victim], "{victim}: {counts:?}");
        }
    }
}
