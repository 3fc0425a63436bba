"""A job that takes more memory than its process may have is refused with the number, before it takes any."""

import json
import subprocess
import sys
import textwrap

import pytest

import blindsum as bs


def limited(code, *arguments, room=2 << 30):
    """Run code in a process that may take so many bytes of address space more once Blindsum is imported."""
    limit = """
    import json, resource, sys
    import blindsum as bs
    room, *arguments = json.loads(sys.argv[1])
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    bs.JobSpec(protocol="plain", parties=3, dim=1)
    resource.setrlimit(resource.RLIMIT_AS, (taken + room,) * 2)
    """
    program = textwrap.dedent(limit) + textwrap.dedent(code)
    command = [sys.executable, "-c", program, json.dumps([room, *arguments])]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


SIMULATE = """
spec = bs.JobSpec.from_settings(list(arguments[0].items()))
try:
    bs.simulate(spec)
except bs.MemoryLimitError as error:
    assert isinstance(error, MemoryError) and isinstance(error, bs.BlindsumError)
    print(error)
else:
    print("done")
"""

LARGE = [
    {"protocol": "plain", "dim": 400_000_000},
    {"protocol": "secagg", "dim": 400_000_000, "parties": 10},
    {"protocol": "secagg+", "dim": 200_000_000, "parties": 1000},
    {"protocol": "fssa", "dim": 100_000_000, "parties": 9},
    {"protocol": "pss", "dim": 100_000_000, "parties": 9},
    {"protocol": "mpc3", "dim": 100_000_000, "parties": 8},
    {"protocol": "flashe", "dim": 300_000_000},
    {"protocol": "flashe", "dim": 300_000_000, "density": 0.1, "min_contributors": 1},
    {"protocol": "plain", "dim": 150_000_000, "encoding": "fixed64"},
    {"protocol": "plain", "dim": 150_000_000, "encoding": "integers", "bits": 64},
]


@pytest.mark.parametrize("fields", LARGE, ids=lambda fields: f"{fields['protocol']}-{fields['dim']}")
@pytest.mark.parametrize("room", [1 << 30, 4 << 30])
def test_a_simulation_that_does_not_fit_is_refused(fields, room):
    done = limited(SIMULATE, {"parties": 3} | fields, room=room)
    assert done.returncode == 0, done.stderr
    assert "a simulation with parties = " in done.stdout
    assert f"dim = {fields['dim']} takes about " in done.stdout
    assert "ulimit -v" in done.stdout


@pytest.mark.parametrize("protocol", ["plain", "secagg", "fssa", "flashe"])
@pytest.mark.parametrize("dim", [300_000, 3_000_000])
def test_a_simulation_that_is_not_refused_ends(protocol, dim):
    done = limited(SIMULATE, {"protocol": protocol, "parties": 3, "dim": dim}, room=1 << 30)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize(
    ("protocol", "parties"), [("secagg", 2000), ("secagg+", 5000), ("fssa", 1500), ("pss", 1500)]
)
def test_many_parties_with_small_vectors_are_refused_where_they_do_not_fit(protocol, parties):
    fields = {"protocol": protocol, "parties": parties, "dim": 10}
    done = limited(SIMULATE, fields, room=300 << 20)
    assert done.returncode == 0, done.stderr
    assert f"a simulation with parties = {parties} and dim = 10 takes about " in done.stdout


def test_many_parties_take_no_more_than_a_job_says():
    code = """
    def kilobytes(what):
        lines = (line.split() for line in open("/proc/self/status"))
        return next(int(words[1]) for words in lines if words[0] == what + ":")

    spec = bs.JobSpec(protocol="secagg", parties=250, dim=10)
    before = kilobytes("VmRSS")
    bs.simulate(spec)
    print((kilobytes("VmHWM") - before) * 1024, spec.memory["simulation"])
    """
    done = limited(code, room=8 << 30)
    assert done.returncode == 0, done.stderr
    held, said = map(int, done.stdout.split())
    # The threads of a process and its code come to as much, whatever the job.
    assert held - (25 << 20) <= said <= 3 * held


def test_a_job_says_how_much_it_takes(capsys, tmp_path):
    from blindsum.cli import main

    spec = bs.JobSpec(protocol="secagg", parties=3, dim=1_000_000)
    larger = spec.replace(dim=2_000_000)
    assert set(spec.memory) == {"simulation", "coordinator", "party"}
    for task, needed in spec.memory.items():
        assert 4_000_000 < needed < larger.memory[task] <= 2 * needed
    assert spec.replace(parties=30).memory["simulation"] > spec.memory["simulation"]
    job = tmp_path / "job.json"
    job.write_text(spec.to_json())
    assert main(["spec", str(job)]) == 0
    assert f"{spec.memory['simulation']} in a simulation" in capsys.readouterr().out


def test_a_coordinator_refuses_what_does_not_fit(place):
    code = """
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=200_000_000)
    try:
        bs.Coordinator(spec, identity=arguments[0] + "/agg", ca=arguments[0])
    except bs.MemoryLimitError as error:
        print(error)
    """
    done = limited(code, str(place.folder))
    assert done.returncode == 0, done.stderr
    assert "a coordinator with parties = 3 and dim = 200000000 takes about" in done.stdout


def test_a_party_refuses_what_does_not_fit(place):

    spec = place.spec(parties=1, dim=20_000_000)
    place.identity("small")
    code = """
    folder, url, policy = arguments
    try:
        bs.join(url, job="job", identity=folder + "/small", ca=folder, policy=bs.Policy(**policy))
    except bs.MemoryLimitError as error:
        print(error)
    """
    with place.coordinator(spec) as coordinator:
        url = "https://localhost:" + coordinator.address.rpartition(":")[2]
        policy = {
            name: list(rule) if isinstance(rule, tuple) else rule for name, rule in place.any_job.items()
        }
        done = limited(code, str(place.folder), url, policy, room=700 << 20)
    assert done.returncode == 0, done.stderr
    assert "a party with parties = 1 and dim = 20000000 takes about" in done.stdout
