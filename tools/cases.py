"""Writes docs/security/cases.md, the index of the abuse suite, from the names of the tests and the mutants.

    python3 tools/cases.py            write the index
    python3 tools/cases.py --check    compare, exit 1 if it is not what the tests say

A test that shows case N has `case_NN_` in its name; tests that show one by another name are listed in
`OTHERS`, and must exist too. What the tests of a case guard is what its mutants take out (tools/mutants.py).
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from case_tests import OTHERS
from mutants import EXCEPTIONS, Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "security" / "cases.md"

# What is tried, and what must come of it.
CASES = {
    1: (
        "The server tells some parties that a party survived and others that it dropped, or cuts the graph",
        "Named fault before any share is revealed; nothing can be unmasked",
    ),
    2: (
        "Survivor lists that name the receiver as dropped, strangers, or parties lost before",
        "`BadSurvivorList`, nothing revealed",
    ),
    3: (
        "A request comes twice, or another one comes second; the party is killed in between",
        "The same bytes again, or a fault; across restarts too",
    ),
    4: ("Fewer survivors than the threshold", "Parties refuse, the round ends by name, no partial sum"),
    5: ("Parties vanish before every stage: as many as tolerated, and one more", "Exact sum; named abort"),
    6: ("The server replaces or swaps a party's keys", "`BadSignature` before any share is sent"),
    7: (
        "Equal keys, missing or changed own key, keys of low order or off the curve",
        "Refused, each by its own error",
    ),
    8: (
        "Sealed shares reflected, delivered to another party, changed, or replayed from another round",
        "They do not open; the party ends its round",
    ),
    9: ("A key and nonce used twice, over a thousand rounds and restarts", "No repetition"),
    10: ("Masks: known answers, offsets, and a seed used twice", "Equal to the standard; does not compile"),
    11: ("One party is given another model or job", "Its keys differ: refused, or nothing sums"),
    12: (
        "Cohorts below the party's minimum, or too close to an earlier one; jobs its policy forbids",
        "Refused by the party",
    ),
    13: ("Members that the job's CA did not certify, or one member twice", "The roster is refused"),
    14: (
        "A vector that is not valid: a row of too high degree, a bit that is none, a wrong square, "
        "a word or a norm out of bounds",
        "The party is left out, by the name of the test; what is exactly at a bound is accepted",
    ),
    15: ("Two words of a block err in opposite directions", "The party is left out"),
    16: (
        "Wrong shares for one party, for as many as may lie, for more",
        "The dispute finds the dealer; its victims stay",
    ),
    17: (
        "A verifier that lies about honest parties, accuses all, or is accused and shows nothing",
        "It is found, or nobody is; no honest party is left out, and none shows what liars do not know",
    ),
    18: (
        "As many liars as may be, with different victims, that lie about sums as well",
        "All are found; exact sum",
    ),
    19: ("Wrong sums of columns by as many as may lie, and by more", "Corrected, and named; no sum"),
    20: (
        "The server names different sets of sharers to two groups, or sets that cannot be",
        "Refused, or at most one set says anything",
    ),
    21: ("A challenge that was known before shares were committed to", "Refused by every party"),
    22: (
        "What is opened in the tests of a proof says something of the vector",
        "Masks run through all honest polynomials, whatever the corrupt know; one of the degree of rows "
        "does not",
    ),
    23: (
        "Shares at a secret's own point, at equal points, for no or too many holders; "
        "sizes where points meet",
        "Refused, or cannot be written; no share is a secret",
    ),
    24: ("Every inequality of the job violated by one, arbitrary numbers", "Error quotes the rule; no panic"),
    25: ("As many shares as the adversary may hold, over all polynomials", "Independent of the secret"),
    26: ("Values at and beyond the clip, NaN, infinities, extreme weights", "Refused or exact; no overflow"),
    27: (
        "Truncated, oversized and trailing bytes, foreign versions, huge lengths",
        "Typed error, bounded memory",
    ),
    28: ("Messages repeated, out of turn, of other rounds, from strangers", "Ignored if equal, else a fault"),
    29: ("Random operations, loss, delay, restarts", "Exact sum of a declared set or a named abort"),
    30: (
        "Coordinator killed in a round, two on one store, damaged store, a store whose name keeps nothing",
        "Round aborted and job goes on; refused with the reason",
    ),
    31: ("Slow, silent and too many peers", "Bounded; the honest round finishes"),
    32: (
        "No, foreign, expired or revoked certificate, another party's name, plaintext, old TLS",
        "Refused in the handshake or at the first message",
    ),
    33: (
        "FLASHE: a round encrypted twice, a crash before the vector is sent, a state from a backup",
        "`CounterReuse`; a round is used before its ticket exists",
    ),
    34: (
        "FLASHE: survivors listed twice, out of order or unknown; a sum in which a ciphertext is "
        "missing, doubled or changed, or of another set",
        "Refused; its check is wrong",
    ),
    35: (
        "FLASHE: the server together with one party; Paillier: the key service together with one party, or "
        "one party alone that lies, with ciphertexts of an earlier round",
        "Stated limits: the key of any party opens every vector; the one with the key reads what the "
        "other heard; the sum is the vector of one party, unless each round has a key of its own",
    ),
    36: (
        "Paillier: a modulus that is even, short, prime or a square, an h that makes no noise; numbers that "
        "are no ciphertexts, 0, 1 or a multiple of N among them; lanes too narrow for all parties",
        "Refused, with the place of the first such number; P parties fit into a lane, and no more are taken",
    ),
    37: (
        "Paillier in a ring, by broadcast or all-reduce: a party that is lost, skips adding or adds twice, "
        "copies another one's ciphertext, accuses others of that, or tells of another sum; a key service "
        "that is asked to open too few, a round twice or one that it has not opened; one that has every "
        "message and its key; a coordinator that passes for the key service; keys and noise past their "
        "time; jobs that cannot be kept",
        "The round ends, and another begins without who was lost; the mistake is found, and who made it "
        "where that can be told; refused; no hop opens; parties go on with proof alone",
    ),
    38: (
        "One of three servers alters any message or product, says something else to each of the others, or "
        "says a message again",
        "An honest server finds out before anything is shown, or the result is right",
    ),
    39: (
        "Noise of another distribution than is said, drawn again when a round is, or left out by a server",
        "Exactly what is said; the same for the same survivors; found by the other holder of a component",
    ),
    41: ("Secrets in logs, errors, debug output or freed memory", "None found"),
    42: ("Versions that do not meet", "Refused with both versions in the message"),
    43: (
        "Python: fork, threads, Ctrl-C, exceptions, odd arrays, exit with a live session",
        "Documented error or correct; no deadlock",
    ),
    45: (
        "The announced model or result is wrong",
        "Parties that recompute it find out; the simulator says so",
    ),
    46: (
        "A job, numbers or a graph of the coordinator that give a party away, or fill its memory",
        "Refused by the party; no sum over fewer honest parties than its policy says; no choice of graphs",
    ),
    47: (
        "A small roster that holds all corrupt parties",
        "Every bound holds with the corrupt parties of the whole job",
    ),
    48: (
        "Any earlier copy of a party's state folder restored, whole or in part, at any stage",
        "No key, pad or nonce used twice: refused, or a fresh round",
    ),
    49: (
        "Survivor sets that differ by one on the same roster; the same job under another hash",
        "Refused before anything is signed or revealed",
    ),
    50: (
        "Uploads that drip, one piece each time it is due, from one certificate or from many",
        "Whoever is slowest gives the memory to who waits for it, and loses its place; nobody else is late",
    ),
    51: (
        "`secagg`: one holder or as many as can be corrected reveal wrong shares of every secret, or of "
        "some in turn; owners deal wrong shares to honest holders",
        "Exact sum; each holder named once; few decodings, counted, at most about one for each liar",
    ),
    52: (
        "A member claims what only costs others: a huge last round, messages never sent, another party that "
        "lies",
        "The claimant pays as much as anybody: round numbers move by a bounded step, claims are matched, and "
        "whoever is shown to lie sits out",
    ),
    53: (
        "Control characters, and characters that turn or hide text, in whatever the other side explains",
        "Shown escaped: one line an event, and nothing acts on a terminal or a log",
    ),
    54: (
        "Coordinator or party killed or stopped in any round, or a link lost, between the decision that a "
        "round counts and the delivery of its result; a session that ends by itself with its update out",
        "Everybody counted is told, or can ask until the grace is over; nobody is told the opposite; all of "
        "the last round hear its end",
    ),
    55: (
        "Link lost while a party trains and submits; a Hello that comes late; a process, key or certificate "
        "renewed meanwhile, or a certificate that ends",
        "Nothing goes out before both know what the other has; equal repeats are quiet; only a process that "
        "shows that it lives takes the place of another one; a certificate that ends costs nobody but its "
        "party, and one renewed in time nothing",
    ),
    56: (
        "Clear text, TLS alerts, flipped bytes and expired certificates in the way for a while; a clock that "
        "is wrong for a while, at the coordinator, a party or a server",
        "Retried until `give_up_after` after one good connection; refusals stay final. No round begins and "
        "none counts as failed while a clock is wrong, and nobody is blamed",
    ),
    57: (
        "Rubbish sealed for one victim, or for all of them",
        "Whoever is accused by more parties than may lie is named and sits out the next rounds; two of whom "
        "one lies take part in turn",
    ),
    58: (
        "Idle connections, many from one certificate, more of them than files that may be open",
        "Each party has places of its own; unused connections end; too few files are told at the start",
    ),
    59: (
        "Certificates with another or no extended key usage, or without digitalSignature",
        "Refused, at start for one's own; a certificate is for one role",
    ),
    60: (
        "A coordinator's store restored from a backup",
        "The job goes on behind the rounds that parties know of; no number is used twice",
    ),
    67: (
        "A server of `mpc3` ends a round after it has the result, and leaves a party out of the next one "
        "from the same model",
        "The others open only results of the same survivors, or of very different ones, also after a "
        "restart; the job goes on or waits, and says for whom",
    ),
    68: (
        "Orders to a coordinator from a party, a coordinator, a server, an operator of another CA, one that "
        "was revoked, or somebody without a certificate",
        "Refused at the admin address, or at the next question over the connection; nothing has changed",
    ),
    69: (
        "A coordinator that runs more rounds than the job has, or than a party allows",
        "Parties take no part in them: they know of every extension, and their policy bounds it",
    ),
    70: (
        "A party that operators have banned comes back, also after a restart of the coordinator",
        "It is not let in before its time is over, and nobody waits for it",
    ),
    71: (
        "The audit trail: a line changed, taken out, put in, moved or cut off, two writers, a full disk",
        "The line is named, by the coordinator at its start and by `blindsum audit verify`; no round begins "
        "while it cannot be written",
    ),
    72: (
        "A corrupt party adds words to a metric that no values add up to, round after round",
        "The metric is void in that round, by name, at everybody; the update counts and the job goes on",
    ),
    73: (
        "A coordinator that goes back to a model and leaves one party out; metrics that one party reports "
        "alone, or with corrupt ones",
        "A party reports metrics of one model once, across restarts; it is told so, and if it stands alone",
    ),
    74: (
        "A first model that is not zeros, or not what its giver gave; a giver that stalls, or is asked on",
        "Refused by every party that can know, across restarts; the next giver is asked; a giver gives once "
        "over a connection",
    ),
    75: (
        "Names, reasons and files of a training run that act on a page, a terminal, a table program or the "
        "next run",
        "They are text everywhere; a damaged state is refused by name, and a state is for its owner only",
    ),
    76: (
        "A host that begins rounds, or its coordinator, tells one party another step than the others, or "
        "gives it another model, so that the sum is its update alone",
        "What a party was told and given is in every key: it is in no sum with those that were told "
        "something else",
    ),
}

TEST = re.compile(r"(?:fn|def)\s+(?:test_)?(case_(\d+)_\w+)")

HEAD = """# The abuse suite

What Blindsum is tested to withstand, by number. Numbers are stable; those that are missing belong to parts
that do not exist yet. For each case this page says

* what somebody tries, and what must come of it;
* the tests that show it, which can be run by name: `cargo test case_02`;
* what these tests guard: each defence, the line it is in, and the function. Each was taken out on purpose,
  by a patch of [tools/mutants](../../tools/mutants), and tests of the case turned red. To try those of case 2
  again: `python3 tools/mutants.py 2`; all: `make mutants`.

This page is written by `python3 tools/cases.py`; `make test` fails if it is not what tests and patches say.

| case | what is tried | tests | defences |
|---:|---|---:|---:|
"""


def numbered() -> dict[int, list[tuple[str, str]]]:
    """Find the tests with a number in their name: (file, test) by case."""
    found = defaultdict(list)
    files = [*ROOT.glob("crates/**/*.rs"), *ROOT.glob("python/tests/*.py")]
    for path in sorted(file for file in files if "target" not in file.parts):
        for name, number in TEST.findall(path.read_text()):
            found[int(number)].append((str(path.relative_to(ROOT)), name))
    return found


def tests_of_cases() -> dict[int, set[tuple[str, str]]]:
    """All tests of each case: (file, test)."""
    tests = numbered()
    return {number: {*tests[number], *OTHERS.get(number, [])} for number in CASES}


def guarded(number: int, every: list[Mutant]) -> str:
    """The lines that the tests of a case guard, or why there are none."""
    if number in EXCEPTIONS:
        return f"What they guard: nothing; it {EXCEPTIONS[number]}.\n"
    rows = ""
    for mutant in every:
        if number in mutant.cases:
            function, line = mutant.place()
            where = f"`{function}` in " if function else ""
            rows += f"* {mutant.defence}:\n  `` {line} ``\n"
            rows += f"  ({where}[{mutant.file}](../../{mutant.file}))\n"
    return f"What they guard:\n\n{rows}"


def index() -> str:
    """Make the page."""
    tests, every = numbered(), mutants()
    if unknown := sorted(set(tests) - set(CASES)):
        raise SystemExit(f"tools/cases.py: tests name cases that CASES does not describe: {unknown}")
    table, page = HEAD, ""
    for number, (tried, outcome) in CASES.items():
        rows = list(tests[number])
        for file, name in OTHERS.get(number, []):
            if not re.search(rf"\b{name}\b", (ROOT / file).read_text()):
                raise SystemExit(f"tools/cases.py: {file} has no {name}")
            rows.append((file, name))
        if not rows:
            raise SystemExit(f"tools/cases.py: no test shows case {number}")
        defences = sum(number in mutant.cases for mutant in every)
        table += f"| [{number}](#case-{number}) | {tried} | {len(rows)} | {defences} |\n"
        page += f"## Case {number}\n\nTried: {tried}.\n\nExpected: {outcome}.\n\nTests:\n\n"
        by_file = defaultdict(list)
        for file, name in rows:
            by_file[file].append(f"`{name}`")
        for file, names in by_file.items():
            page += f"* [{file}](../../{file}): {', '.join(names)}\n"
        page += f"\n{guarded(number, every)}\n"
    return f"{table}\n{page.rstrip()}\n"


def main() -> int:
    """Write or check the index."""
    page = index()
    if sys.argv[1:] == ["--check"]:
        if not INDEX.exists() or INDEX.read_text() != page:
            print(f"{INDEX.relative_to(ROOT)} is out of date: run python3 tools/cases.py", file=sys.stderr)
            return 1
        return 0
    INDEX.parent.mkdir(exist_ok=True)
    INDEX.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
