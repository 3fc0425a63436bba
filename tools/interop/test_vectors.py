"""This client against the project's test vectors: python -m unittest test_vectors, or pytest."""

from __future__ import annotations

import json
import struct
import unittest
from pathlib import Path
from typing import Any

import derive
import encoding
import numbers_check
import shamir
from job import BadJob, Job

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def double(text: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text))[0])


def private_key(pem: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(pem.encode(), None)


class Words(unittest.TestCase):
    def test_packing(self) -> None:
        for case in load("words")["packings"]:
            packed = bytes.fromhex(case["packed"])
            self.assertEqual(encoding.pack(case["words"], case["bits"]), packed)
            self.assertEqual(encoding.unpack(packed, len(case["words"]), case["bits"]), case["words"])

    def test_additions(self) -> None:
        for case in load("words")["additions"]:
            count, bits = len(case["sum"]), case["bits"]
            lists = [encoding.unpack(bytes.fromhex(packed), count, bits) for packed in case["packed"]]
            total = [sum(words) % (1 << bits) for words in zip(*lists, strict=True)]
            self.assertEqual(total, case["sum"])

    def test_bad_packings(self) -> None:
        for case in load("words")["bad_packings"]:
            with self.assertRaises(encoding.BadWords):
                encoding.unpack(bytes.fromhex(case["packed"]), case["lanes"], case["bits"])


class Encoding(unittest.TestCase):
    def test_quantised(self) -> None:
        seen = 0
        for case in load("encoding")["cases"]:
            spec = case["spec"]
            if spec["kind"] != "quantised":
                continue
            seen += 1
            made = encoding.Quantised(
                dim=spec["dim"],
                parties=spec["parties"],
                bits=spec["bits"],
                clip=double(spec["clip"]),
                clipping=spec["clipping"],
                max_norm=double(spec["max_norm"]),
                rounding=spec["rounding"],
                max_weight=spec["max_weight"],
                tensors=tuple((tensor["len"], double(tensor["clip"])) for tensor in spec["tensors"]),
            )
            self.assertEqual(made.width, case["width"])
            for party in case["parties"]:
                values = [double(value) for value in party["values"]]
                seed = bytes.fromhex(party["seed"])

                def random(count: int, seed: bytes = seed) -> bytes:
                    return derive.keystream(seed, count)

                self.assertEqual(made.encode(values, party["weight"], random), party["words"])
            mean, weight = made.decode(case["sum"], len(case["parties"]))
            self.assertEqual(weight, case["total_weight"])
            wanted = [double(value) for value in case["mean"]]
            self.assertEqual(mean, [made.in_precision(value) for value in wanted], spec)
        self.assertGreater(seen, 10)


class Crypto(unittest.TestCase):
    def setUp(self) -> None:
        self.all = load("crypto")

    def test_hashes(self) -> None:
        for case in self.all["hashes"]:
            parts = [bytes.fromhex(part) for part in case["parts"]]
            self.assertEqual(derive.h(case["label"], *parts).hex(), case["hash"])
        for case in self.all["derivations"]:
            parts = [bytes.fromhex(part) for part in case["parts"]]
            key = derive.kdf(
                bytes.fromhex(case["secret"]), bytes.fromhex(case["context"]), case["label"], *parts
            )
            self.assertEqual(key.hex(), case["key"])

    def test_agreement(self) -> None:
        for case in self.all["agreements"]:
            keys = [derive.AgreementKey(case["suite"], bytes.fromhex(secret)) for secret in case["secrets"]]
            self.assertEqual([key.public.hex() for key in keys], case["public_keys"])
            self.assertEqual(keys[0].shared(keys[1].public).hex(), case["shared"])
            self.assertEqual(keys[1].shared(keys[0].public).hex(), case["shared"])

    def test_refused_keys(self) -> None:
        for case in self.all["refused_keys"]:
            with self.assertRaises(derive.BadKey):
                derive.check_agreement_key(case["suite"], bytes.fromhex(case["key"]))

    def test_sealed(self) -> None:
        for case in self.all["sealed"]:
            keys = [derive.AgreementKey(case["suite"], bytes.fromhex(secret)) for secret in case["secrets"]]
            shared = keys[0].shared(keys[1].public)
            context = bytes.fromhex(case["context"])
            key = derive.seal_key(shared, context, case["from"], case["to"], case["purpose"])
            header, plaintext = bytes.fromhex(case["header"]), bytes.fromhex(case["plaintext"])
            sealed = derive.seal(key, header, plaintext)
            self.assertEqual(sealed.hex(), case["sealed"])
            self.assertEqual(derive.open_sealed(key, header, sealed), plaintext)
            self.assertIsNone(derive.open_sealed(key, header, sealed[:-1]))

    def test_signatures(self) -> None:
        for case in self.all["signatures"]:
            key = private_key(case["private_key"])
            message = bytes.fromhex(case["message"])
            self.assertEqual(derive.sign(key, case["label"], message).hex(), case["signature"])
            good = bytes.fromhex(case["signature"])
            self.assertTrue(derive.verify(key.public_key(), case["label"], message, good))
            for bad in case["refused"]:
                self.assertFalse(derive.verify(key.public_key(), case["label"], message, bytes.fromhex(bad)))

    def test_masks(self) -> None:
        all_masks = load("masks")
        for case in all_masks["streams"]:
            lanes = derive.mask(
                bytes.fromhex(case["seed"]), len(case["lanes"]), case["lane_bits"], case["first"]
            )
            self.assertEqual(lanes, case["lanes"])
        for case in all_masks["masked"]:
            words, bits = case["before"], case["lane_bits"]
            for one in case["masks"]:
                sign = 1 if one["sign"] == "add" else -1
                stream = derive.mask(bytes.fromhex(one["seed"]), len(words), bits, case["first"])
                words = [(word + sign * lane) % (1 << bits) for word, lane in zip(words, stream, strict=True)]
            self.assertEqual(words, case["after"])


class Shamir(unittest.TestCase):
    def test_shares(self) -> None:
        for case in load("shamir")["sharings"]:
            rows = [[int(row[at : at + 16], 16) for at in range(0, 80, 16)] for row in case["coefficients"]]
            rows = [[int.from_bytes(value.to_bytes(8, "big"), "little") for value in row] for row in rows]
            secret = bytes.fromhex(case["secret"])
            shares = [shamir.share(secret, rows, point - 1).hex() for point in case["points"]]
            self.assertEqual(shares, case["shares"])
        for bad in load("shamir")["bad_shares"]:
            self.assertFalse(shamir.valid(bytes.fromhex(bad)))


class Jobs(unittest.TestCase):
    def test_hashes(self) -> None:
        for name in ("options", "round"):
            for case in load(name)["jobs"]:
                self.assertEqual(Job.read(json.dumps(case["spec"])).hash.hex(), case["hash"], case["spec"])

    def test_defaults(self) -> None:
        defaults = load("options")["defaults"]
        for place in ("protocol", "encoding", "step"):
            for name, options in defaults[place].items():
                job = Job({"protocol": "plain", "parties": 3, "dim": 4, place: name})
                for option, value in options.items():
                    self.assertEqual(job[f"{place}.{option}"], value)
        job = Job({"protocol": "plain", "parties": 3, "dim": 4})
        for option, value in defaults["job"].items():
            self.assertEqual(job[option], value)

    def test_refused(self) -> None:
        for case in load("options")["refused"]:
            with self.assertRaises(BadJob) as caught:
                Job.read(json.dumps(case["spec"]))
            self.assertTrue(str(caught.exception).startswith(case["field"]), (case, str(caught.exception)))

    def test_rosters(self) -> None:
        for case in load("round")["rosters"]:
            members = [
                (member["name"], bytes.fromhex(member["certificate"]), bytes.fromhex(member["nonce"]))
                for member in case["members"]
            ]
            self.assertEqual(derive.roster_bytes(members).hex(), case["bytes"])
            self.assertEqual(derive.h("roster", bytes.fromhex(case["bytes"])).hex(), case["hash"])

    def test_tolerances(self) -> None:
        for row in load("graph")["tolerances"]:
            roster, parties, least, protocol, adversary, corrupt, dropout, wanted = row
            if protocol == "flashe":
                continue  # not spoken here, and its page does not say the default of a semi-honest job
            said = {"protocol": protocol, "parties": parties, "dim": 1, "min_parties": least}
            said |= {"adversary": adversary, "corrupt": corrupt, "dropout": dropout}
            guarded = adversary == "active" and protocol not in ("plain", "flashe")
            fewest = max(wanted[0] + 2 if guarded else 0, 3 if protocol == "mpc3" else 0)
            if 0 < least < fewest:
                with self.assertRaises(BadJob):
                    Job(said)
                continue
            job = Job(said)
            self.assertEqual([job.corrupt, job.min_parties, job.dropped(roster)], wanted, row)

    def test_graphs(self) -> None:
        for case in load("graph")["graphs"]:
            made = derive.graph(bytes.fromhex(case["context"]), case["parties"], case["neighbours"])
            self.assertEqual(made, (case["lists"], case["witnesses"]))

    def test_numbers(self) -> None:
        verdicts = 0
        for case in load("numbers")["numbers"]:
            job = Job(case["spec"])
            if job.protocol not in ("plain", "secagg", "secagg+"):
                continue
            self.assertEqual(numbers_check.broken(job, case["roster"], tuple(case["chosen"])), "")
            for *numbers, wanted in case["told"]:
                reason = numbers_check.broken(job, case["roster"], (numbers[0], numbers[1], numbers[2]))
                self.assertEqual(
                    reason.split(":")[0], wanted, (case["spec"], case["roster"], numbers, reason)
                )
                verdicts += 1
        self.assertGreater(verdicts, 700)

    def test_commitments(self) -> None:
        for case in load("numbers")["commitments"]:
            nonce = bytes.fromhex(case["nonce"])
            made = derive.commitment(Job(case["spec"]).hash, case["number"], case["name"], nonce)
            self.assertEqual(made.hex(), case["commitment"])


if __name__ == "__main__":
    unittest.main()
