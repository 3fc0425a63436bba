"""What a party checks of RosterFixed and RoundStart, with frames made here from a round of the vectors."""

from __future__ import annotations

import json
import struct
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import derive
import rounds
from certificates import Authority
from job import BadJob, Job
from party import Active, Model, Policy
from secagg import Fault
from wire import pb

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
CASE = json.loads((VECTORS / "secagg.json").read_text())["rounds"][1]
STRANGER = json.loads((VECTORS / "secagg.json").read_text())["rounds"][2]["parties"][0]


class Counts(unittest.TestCase):
    def test_draws(self) -> None:
        draws = rounds.Draws()
        for number in range(1, 1001):
            self.assertFalse(draws.over)
            draws.drawn(number)
        self.assertTrue(draws.over)
        self.assertFalse(draws.sends(999))
        self.assertTrue(draws.sends(1000))
        self.assertFalse(draws.sends(1000))
        self.assertEqual((draws.unused, draws.sent, draws.over), (999, 1, False))
        for number in (1001, 1002):
            draws.drawn(number)
        self.assertTrue(draws.over)

    def test_fewest(self) -> None:
        """The default of min_parties, which the vectors have for many jobs."""
        table = json.loads((VECTORS / "graph.json").read_text())["tolerances"]
        taken = 0
        for roster, parties, least, protocol, adversary, corrupt, dropout, (c, fewest, lost) in table:
            said = {"protocol": protocol, "parties": parties, "dim": 1, "adversary": adversary}
            try:
                job = Job(said | {"corrupt": corrupt, "dropout": dropout, "min_parties": least})
            except BadJob:
                continue
            taken += 1
            self.assertEqual((job.corrupt, job.min_parties, job.dropped(roster)), (c, fewest, lost))
        self.assertGreater(taken, 800)


class Starts(unittest.TestCase):
    def setUp(self) -> None:
        self.job = Job(CASE["spec"])
        self.values = [0.5] * self.job["dim"]
        data = struct.pack(f"<{len(self.values)}f", *self.values)
        self.model = Model(4, self.values, derive.model_hash(data))
        members = CASE["parties"]
        self.nonces = [bytes.fromhex(member["nonce"]) for member in members]
        self.ders = [bytes.fromhex(member["certificate"]) for member in members]
        authority = Authority(CASE["ca"].encode(), now=CASE["now"])
        name, public = authority.party(self.ders[2])
        self.party: Any = SimpleNamespace(
            job=self.job,
            encoding=self.job.quantised(),
            authority=authority,
            name=name,
            public=public,
            identity=None,
            certificates={},
            settings=SimpleNamespace(min_cohort=3),
        )
        self.active = Active(CASE["number"], self.model, self.nonces[2])
        self.fixed = pb.RosterFixed(round=CASE["number"], model=self.model.name, certificates=self.ders)
        self.start = pb.RoundStart(round=CASE["number"], model=self.model.name)
        for frame in (self.fixed, self.start):
            frame.numbers.neighbours, frame.numbers.threshold = CASE["numbers"][0], CASE["numbers"][1]
        for at, member in enumerate(members):
            mark = derive.fingerprint(self.ders[at])
            said = derive.commitment(self.job.hash, CASE["number"], member["name"], self.nonces[at])
            self.fixed.roster.add(fingerprint=mark, commitment=said)
            self.start.roster.add(fingerprint=mark, nonce=self.nonces[at])

    def fix(self) -> None:
        self.active.fixed = rounds.fixed(self.party, self.active, self.fixed)

    def refused(self, change: Callable[[], Any], why: str, kind: type[Exception] = Fault) -> None:
        """The change must make RosterFixed refused, with these words."""
        change()
        with self.assertRaisesRegex(kind, why):
            self.fix()

    def test_right(self) -> None:
        self.fix()
        made = rounds.start(self.party, self.active, self.start)
        self.assertEqual((made.rank, made.size), (2, 7))
        again = rounds.start(self.party, self.active, self.start)
        self.assertEqual(made.context, again.context)

    def test_not_fixed(self) -> None:
        with self.assertRaisesRegex(Fault, "a member whose certificate|no roster was fixed"):
            rounds.start(self.party, self.active, self.start)

    def test_other_opening(self) -> None:
        self.fix()
        self.start.roster[5].nonce = bytes(32)
        with self.assertRaisesRegex(Fault, "does not fit its commitment"):
            rounds.start(self.party, self.active, self.start)

    def test_own_nonce(self) -> None:
        self.fix()
        self.start.roster[2].nonce = bytes(32)
        with self.assertRaisesRegex(Fault, "this party's nonce"):
            rounds.start(self.party, self.active, self.start)

    def test_other_numbers_than_fixed(self) -> None:
        self.fix()
        self.start.numbers.threshold = 6
        with self.assertRaisesRegex(Fault, "than were fixed|threshold"):
            rounds.start(self.party, self.active, self.start)

    def test_one_less_than_fixed(self) -> None:
        self.fix()
        del self.start.roster[6]
        with self.assertRaisesRegex(Fault, "neighbours|than were fixed"):
            rounds.start(self.party, self.active, self.start)

    def test_key_set_up(self) -> None:
        self.fix()
        self.start.kind = 1
        with self.assertRaisesRegex(Fault, "key set-up"):
            rounds.start(self.party, self.active, self.start)

    def test_numbers(self) -> None:
        self.refused(lambda: setattr(self.fixed.numbers, "threshold", 3), "threshold")

    def test_model(self) -> None:
        self.refused(lambda: setattr(self.fixed.model, "hash", bytes(32)), "another model")

    def test_own_commitment(self) -> None:
        self.refused(lambda: setattr(self.fixed.roster[2], "commitment", bytes(32)), "commitment is another")

    def test_short_commitment(self) -> None:
        self.refused(lambda: setattr(self.fixed.roster[3], "commitment", b"1"), "32 bytes")

    def test_order(self) -> None:
        def swap() -> None:
            first, second = self.fixed.roster[0].fingerprint, self.fixed.roster[1].fingerprint
            self.fixed.roster[0].fingerprint, self.fixed.roster[1].fingerprint = second, first

        self.refused(swap, "do not ascend")

    def test_twice(self) -> None:
        mark = self.fixed.roster[0].fingerprint
        self.refused(lambda: setattr(self.fixed.roster[1], "fingerprint", mark), "no member|do not ascend")

    def test_not_a_member(self) -> None:
        def leave() -> None:
            del self.fixed.roster[2]
            del self.fixed.certificates[2]

        self.refused(leave, "this party is no member")

    def test_missing_certificate(self) -> None:
        def leave() -> None:
            del self.fixed.certificates[3]

        self.refused(leave, "did not come")

    def test_certificate_twice(self) -> None:
        self.refused(lambda: self.fixed.certificates.append(self.ders[0]), "came before")

    def test_stranger(self) -> None:
        other = bytes.fromhex(STRANGER["certificate"])
        self.refused(lambda: self.fixed.certificates.append(other), "no member")

    def test_expired(self) -> None:
        self.party.authority = Authority(CASE["ca"].encode(), now=CASE["now"] + 10**10)
        self.refused(lambda: None, "not in its time")

    def test_other_authority(self) -> None:
        other = json.loads((VECTORS / "secagg.json").read_text())["rounds"][0]["ca"]
        if other == CASE["ca"]:
            self.skipTest("one CA for all rounds")
        self.party.authority = Authority(other.encode(), now=CASE["now"])
        self.refused(lambda: None, "not of the job's CA")

    def test_policy(self) -> None:
        self.refused(lambda: setattr(self.party.settings, "min_cohort", 8), "fewer than 8", Policy)


if __name__ == "__main__":
    unittest.main()
