"""The audit trail: what a coordinator writes, and what of a change of the file is found."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import blindsum as bs
from blindsum import audit, pki
from blindsum.cli import main
from blindsum.coordinator import stored_rounds


def leave_in_round_2(place, coordinator):
    with place.join(coordinator, "b") as session:
        for rnd in session.rounds():
            if rnd.number == 2:
                return
            rnd.submit(np.zeros(4))
            rnd.result()


def raised(error):
    raise error


@pytest.fixture(scope="module")
def trail(place, tmp_path_factory):
    """The trail of a job of two rounds, the second without a sum, and of a coordinator that starts twice."""
    folder = tmp_path_factory.mktemp("audit")
    ca = folder / "ca"
    shutil.copytree(place.folder, ca)
    place.identity("a"), place.identity("b"), place.identity("revoked")
    for name in ("a", "b", "revoked"):
        shutil.copy(place.folder / f"{name}.pem", ca)
    pki.revoke(ca, [ca / "revoked.pem"])
    path, spec = folder / "audit.jsonl", place.spec(rounds=2, min_parties=2)
    options = {"store": folder / "job.sqlite", "revoked": ca / "crl.pem", "audit": path}
    with place.coordinator(spec, **options) as coordinator:
        with pytest.raises(bs.NetworkError), place.join(coordinator, "revoked", give_up_after=0.1):
            pass
        leaver = threading.Thread(target=leave_in_round_2, args=(place, coordinator))
        leaver.start()
        with place.join(coordinator, "a") as session, pytest.raises(bs.RoundAborted):
            for rnd in session.rounds(raised):
                rnd.submit(np.ones(4))
                rnd.result()
        leaver.join()
    with place.coordinator(spec, **options):
        pass
    return path


def test_everything_that_happens_has_a_line(trail, place):
    found = list(audit.entries(trail))
    events = [entry["event"] for entry in found]
    assert events[0] == "job-opened"
    assert events[-1] == "stopped"
    assert events.count("job-opened") == events.count("started") == events.count("stopped") == 2
    refused = next(entry for entry in found if entry["event"] == "handshake-refused")
    assert refused["name"] == "revoked"
    assert "revoked" in refused["reason"]
    joined = {entry["name"]: entry for entry in found if entry["event"] == "joined"}
    assert set(joined) == {"a", "b"}
    first, second = (entry for entry in found if entry["event"] == "round-ended")
    assert (first["state"], first["roster"], first["survivors"]) == ("done", ["a", "b"], ["a", "b"])
    assert len(first["result"]) == 64
    assert first["round"] == 1
    assert (second["state"], second["survivors"]) == ("aborted", [])
    assert "b" in second["lost"]
    assert second["reason"]
    assert {entry["name"] for entry in found if entry["event"] == "left"} == {"a", "b"}
    assert [entry["seq"] for entry in found] == list(range(1, len(found) + 1))


def test_it_is_verified_with_the_hash_that_was_noted(trail, tmp_path):
    whole = audit.verify(trail)
    assert whole.entries == len(trail.read_bytes().splitlines())
    assert whole.torn == 0
    assert whole.head == hashlib.sha256(trail.read_bytes().splitlines()[-1]).hexdigest()
    assert audit.verify(trail, whole.head.upper()) == whole
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(trail.read_bytes().splitlines(True)[:-1]))
    assert audit.verify(cut).entries == whole.entries - 1
    with pytest.raises(bs.AuditError, match="no line has the hash") as error:
        audit.verify(cut, whole.head)
    assert error.value.line is None
    assert error.value.path == str(cut)
    with pytest.raises(bs.ConfigError, match="64 hexadecimal digits"):
        audit.verify(trail, "abc")


def test_half_a_line_is_left_out(trail, tmp_path):
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(trail.read_bytes() + b'{"seq":')
    assert (audit.verify(torn).torn, audit.verify(torn).head) == (7, audit.verify(trail).head)
    assert list(audit.entries(torn)) == list(audit.entries(trail))


def long_trail(path, size):
    """Writes a trail of so many bytes at least."""
    prev, seq = audit.ZEROS, 0
    with open(path, "wb") as file:
        while file.tell() < size:
            seq += 1
            entry = {"seq": seq, "time": "2026-11-27 00:00:00 UTC", "event": "stopped", "prev": prev}
            line = json.dumps(entry).encode()
            prev = hashlib.sha256(line).hexdigest()
            file.write(line + b"\n")


def test_where_the_trail_cannot_be_written_the_coordinator_stops_and_nothing_is_lost(
    place, partner, tmp_path
):
    trail, blocks = tmp_path / "audit.jsonl", 4096
    # A file may have so many blocks of 512 bytes: much for the store, and a few more entries for the trail.
    long_trail(trail, 512 * blocks - 2500)
    spec = place.spec(rounds=0, join_deadline=60.0)
    (tmp_path / "job.json").write_text(spec.to_json())
    store = tmp_path / "job.sqlite"
    words = [
        *(sys.executable, "-m", "blindsum", "serve", "--job", tmp_path / "job.json", "--store", store),
        *("--identity", place.folder / "agg", "--ca", place.folder / "ca.pem", "--listen", "127.0.0.1:0"),
        *("--audit", trail, "--json"),
    ]
    limited = ["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", *map(str, words)]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = json.loads(process.stdout.readline())["address"]
        parties = [
            partner(place, SimpleNamespace(address=address, servers=()), name, np.ones(4)) for name in "ab"
        ]
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    last = json.loads(out.splitlines()[-2])
    assert last["state"] == "stopped"
    assert "audit.jsonl" in err
    assert "no round begins any more" in err
    for party in parties:
        with pytest.raises(bs.NetworkError):
            party.wait()
    kept = stored_rounds(store, "job")
    done = [report["number"] for report in kept if report["state"] == "done"]
    assert done
    assert len(parties[0].means) == len(done)
    # What the trail lacks is added once there is room again.
    before = {entry["round"] for entry in audit.entries(trail) if entry["event"] == "round-ended"}
    with place.coordinator(spec, store=store, audit=trail):
        pass
    ended = [entry for entry in audit.entries(trail) if entry["event"] == "round-ended"]
    if before:
        assert {entry["round"] for entry in ended} >= set(done)
        assert all(entry.get("late", False) == (entry["round"] not in before) for entry in ended)


@pytest.mark.parametrize("at", [0, 1, 3, -2])
@pytest.mark.parametrize("change", ["letter", "gone", "twice", "swapped", "rubbish"])
def test_any_change_is_found_with_its_line(trail, tmp_path, at, change):
    lines = trail.read_bytes().splitlines(True)
    at %= len(lines)
    match change:
        case "letter":
            lines[at] = lines[at].replace(b"UTC", b"utc", 1)
        case "gone":
            del lines[at]
        case "twice":
            lines.insert(at, lines[at])
        case "swapped":
            lines[at : at + 2] = reversed(lines[at : at + 2])
        case "rubbish":
            lines[at] = b"[]\n"
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(b"".join(lines))
    with pytest.raises(bs.AuditError) as error:
        audit.verify(changed)
    assert error.value.line in (at + 1, at + 2)
    with pytest.raises(bs.AuditError):
        list(audit.entries(changed))


def test_a_coordinator_does_not_go_on_with_a_changed_trail(trail, place, tmp_path):
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(trail.read_bytes().replace(b'"a"', b'"z"', 1))
    with (
        pytest.raises(bs.ConfigError, match=r"audit: .*line [0-9]+: .*name a new file"),
        place.coordinator(place.spec(), audit=changed),
    ):
        pass
    store = tmp_path / "job.sqlite"
    with (
        pytest.raises(bs.ConfigError, match=r"audit: .* is the store"),
        place.coordinator(place.spec(), store=store, audit=store),
    ):
        pass


def status_of(*words):
    return main([str(word) for word in words])


def test_the_command_verifies_and_shows(trail, tmp_path, capsys):
    assert status_of("audit", "verify", trail) == 0
    out = capsys.readouterr().out
    head = audit.verify(trail).head
    assert "every line is as it was written" in out
    assert head in out
    assert status_of("audit", "verify", trail, "--head", head, "--json") == 0
    assert json.loads(capsys.readouterr().out)["head"] == head
    assert status_of("audit", "verify", trail, "--head", "0" * 64) == 1
    assert "no line has the hash" in capsys.readouterr().err
    assert status_of("audit", "verify", tmp_path / "none.jsonl") == 1
    assert "give the file of `blindsum serve --audit`" in capsys.readouterr().err
    assert status_of("audit", "show", trail, "--event", "round-ended", "--name", "b") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2
    assert "round-ended job job round 1" in shown[0]
    assert "survivors: a b" in shown[0]
    assert status_of("audit", "show", trail, "--json", "--since", "2999") == 0
    assert capsys.readouterr().out == ""
    assert status_of("audit", "show", trail, "--job", "other") == 0
    for wrong, said in ((("--since", "yesterday"), "must be a date"), (("--event", "rounds"), "round-ended")):
        with pytest.raises(SystemExit):
            status_of("audit", "show", trail, *wrong)
        assert said in capsys.readouterr().err


def test_every_kind_of_entry_is_known_and_on_the_page(trail):
    assert {entry["event"] for entry in audit.entries(trail)} <= set(audit.EVENTS)
    root = Path(__file__).resolve().parents[2]
    page, code = (root / "docs/audit.md").read_text(), (root / "crates/net/src/audit/entry.rs").read_text()
    body = code[code.index("pub(crate) enum Entry") : code.index("/// Somebody at the other end")]
    kinds = re.findall(r"^    ([A-Z]\w+)(?: \{|,|\()", body, re.MULTILINE)
    assert {re.sub(r"(?<!^)([A-Z])", r"-\1", kind).lower() for kind in kinds} == set(audit.EVENTS)
    assert all(f"`{event}`" in page for event in audit.EVENTS)
