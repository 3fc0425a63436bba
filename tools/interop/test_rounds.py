"""Whole rounds of vectors/secagg.json, and messages that must be refused."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key

import certificates
import derive
import numbers_check
from job import Job
from secagg import Fault, Machine, Member, Round, machine

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


class Tape:
    """Random bytes from a list."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __call__(self, count: int) -> bytes:
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count
        return taken


def make(case: dict[str, Any], rank: int) -> tuple[Machine, Tape]:
    job = Job(case["spec"])
    assert job.hash.hex() == case["job_hash"]
    authority = certificates.Authority(case["ca"].encode(), now=case["now"])
    members = []
    for party in case["parties"]:
        der = bytes.fromhex(party["certificate"])
        name, key = authority.party(der)
        assert name == party["name"]
        members.append(Member(name, der, bytes.fromhex(party["nonce"]), key))
    roster = derive.roster_bytes([(member.name, member.certificate, member.nonce) for member in members])
    numbers = (case["numbers"][0], case["numbers"][1], case["numbers"][2])
    assert not numbers_check.broken(job, len(members), numbers)
    context = derive.round_context(
        job.hash, case["number"], roster, bytes.fromhex(case["model_hash"]), numbers
    )
    assert context.hex() == case["context"]
    party = case["parties"][rank]
    tape = Tape(bytes.fromhex(party["random"]))
    encoding = job.quantised()
    assert encoding.width == case["width"]
    identity: Any = load_pem_private_key(party["private_key"].encode(), None)
    made = Round(
        job=job,
        width=encoding.width,
        words=encoding.words,
        members=members,
        rank=rank,
        numbers=numbers,
        context=context,
        identity=identity,
        vector=lambda: list(party["words"]),
        random=tape,
    )
    return machine(made), tape


class Rounds(unittest.TestCase):
    def setUp(self) -> None:
        self.all = json.loads((VECTORS / "secagg.json").read_text())

    def test_rounds(self) -> None:
        for case in self.all["rounds"]:
            for rank in range(len(case["parties"])):
                with self.subTest(job=case["spec"]["job"], rank=rank):
                    self.play(case, rank)

    def play(self, case: dict[str, Any], rank: int) -> None:
        party, tape = make(case, rank)
        me = str(rank)
        said: bytes | None = party.start()
        for number, stage in enumerate(case["stages"]):
            last = number + 1 == len(case["stages"])
            if me in stage["up"]:
                assert said is not None
                if not (last and rank in case["liars"]):
                    self.assertEqual(said.hex(), stage["up"][me], stage["name"])
            if me not in stage["down"]:
                return
            if not last:
                following = case["stages"][number + 1]
                if me not in following["up"] and me not in following["down"]:
                    return  # lost before it answers: its `random` ends here
            message = bytes.fromhex(stage["down"][me])
            said = party.hear(number, message)
            self.assertEqual(party.hear(number, message), said)
        self.assertIsNone(said)
        assert party.result is not None
        self.assertEqual(party.result.survivors, case["survivors"])
        self.assertEqual(party.result.total, case["sum"])
        self.assertEqual(tape.data, b"")

    def test_refused(self) -> None:
        refused = self.all["refused"]
        case = self.all["rounds"][refused["round"]]
        seen = 0
        for number, stage in enumerate(refused["stages"]):
            for wrong in stage["down"]:
                party, _ = make(case, refused["party"])
                party.start()
                for before in range(number):
                    party.hear(before, bytes.fromhex(case["stages"][before]["down"][str(refused["party"])]))
                with self.subTest(stage=number, why=wrong["why"]), self.assertRaises(Fault):
                    party.hear(number, bytes.fromhex(wrong["message"]))
                right = bytes.fromhex(case["stages"][number]["down"][str(refused["party"])])
                with self.assertRaises(Fault):
                    party.hear(number, right)
                seen += 1
        self.assertGreater(seen, 40)


if __name__ == "__main__":
    unittest.main()
