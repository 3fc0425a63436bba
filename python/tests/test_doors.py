"""Names of files, keys and hosts that come in: the same at every door, and refused in a line."""

import argparse
import json
import re
import subprocess
from importlib import import_module

import numpy as np
import pytest
from command_lines import JOB, refused

import blindsum as bs
from blindsum import coordinator, pki
from blindsum.cli import SUBCOMMANDS, Parser, main
from blindsum.cli.files import named

# --- names of files


def options_of(parser, path=()):
    """Every option of a command and of those below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from options_of(below, (*path, name))
        else:
            yield path, action


def every_option():
    for name in SUBCOMMANDS:
        parser = Parser(prog=f"blindsum {name}")
        import_module(f"blindsum.cli.{name}").add(parser)
        yield from options_of(parser, (name,))


FILES = {"FILE", "DIR", "PREFIX", "FOLDER", "JOB"}


def test_every_option_that_names_a_file_refuses_an_empty_name():
    found = [(path, action) for path, action in every_option() if action.metavar in FILES]
    assert len(found) > 40
    for path, action in found:
        assert action.type is named, f"blindsum {' '.join(path)} {action.option_strings or action.metavar}"
    # And there are no names of files beside these.
    for path, action in every_option():
        if action.type is None and action.option_strings and action.nargs != 0:
            assert not re.search(r"\b(file|folder|path)\b", action.metavar or "", re.I), (path, action)


@pytest.mark.parametrize("value", ["", " ", "\t\n"])
@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--job", "{}", "--ca", "x"],
        ["serve", "--job", "x", "--ca", "x", "--store", "{}"],
        ["serve", "--job", "x", "--ca", "x", "--state-dir", "{}"],
        ["join", "https://x", "--job", "x", "--train", "a:b", "--ca", "{}"],
        ["join", "https://x", "--job", "x", "--train", "a:b", "--ca", "x", "--state-dir", "{}"],
        ["join", "https://x", "--job", "x", "--train", "a:b", "--ca", "x", "--out", "{}"],
        ["status", "--store", "{}"],
        ["pki", "init", "{}"],
        ["spec", "{}"],
        ["demo", "--out", "{}"],
    ],
    ids=" ".join,
)
def test_commands_refuse_empty_names(words, value, capsys):
    err = refused(capsys, *[word.format(value) for word in words])
    assert "must name a file or folder, not be empty" in err


@pytest.mark.parametrize("seconds", ["x", -1, float("nan"), None])
def test_how_long_a_party_tries_is_a_number_of_seconds(place, seconds):
    own = {"identity": place.identity("a"), "ca": place.folder / "ca.pem"}
    with pytest.raises(bs.ConfigError, match=r"^give_up_after: "):
        bs.join("https://localhost:1", job="job", give_up_after=seconds, **own)


@pytest.mark.parametrize("value", ["", " "])
def test_python_refuses_empty_names(value, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = place.spec()
    good = {"identity": place.folder / "agg", "ca": place.folder}

    def join(**options):
        own = {"identity": place.identity("a"), "ca": place.folder / "ca.pem"}
        bs.join("https://localhost:1", job="job", give_up_after=1.0, **(own | options))

    def server(**options):
        own = {"identity": place.folder / "server-1", "ca": place.folder, "state_dir": "s"}
        bs.Server(spec, servers=["https://a", "https://b", "https://c"], place=1, **(own | options))

    doors = [
        *[
            (lambda o=o: bs.Coordinator(spec, **(good | {o: value})), o)
            for o in ("identity", "ca", "store", "results")
        ],
        *[(lambda o=o: bs.Coordinator(spec, **good, **{o: value}), o) for o in ("revoked",)],
        (lambda: bs.Coordinator(spec, **good, membership="etcd://x", membership_identity=value), "identity"),
        *[(lambda o=o: join(**{o: value}), o) for o in ("identity", "ca", "revoked", "state_dir")],
        *[
            (lambda o=o: server(**{o: value}), o)
            for o in ("identity", "ca", "revoked", "state_dir", "results")
        ],
        (lambda: coordinator.stored_jobs(value), "store"),
        (lambda: coordinator.stored_rounds(value, "job"), "store"),
        (lambda: coordinator.stored_model(value, "job", 0), "store"),
        (lambda: coordinator.stored_faults(value, "job"), "store"),
        (lambda: coordinator.back_up(value, "x"), "store"),
        (lambda: pki.init(value), "folder"),
        (lambda: pki.issue(value, "a"), "ca"),
        (lambda: pki.issue(place.folder, "a", out=value), "out"),
        (lambda: pki.request("a", value), "out"),
        (lambda: pki.sign(place.folder, value), "request"),
        (lambda: pki.revoke(value, []), "ca"),
        (lambda: pki.revoke(place.folder, [value]), "certificate"),
        (lambda: pki.show(value), "file"),
        (lambda: pki.Identity.find(value), "identity"),
    ]
    for door, field in doors:
        with pytest.raises(bs.ConfigError) as raised:
            door()
        assert raised.value.field == field
        assert "must name a file or folder, not be empty" in raised.value.rule
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [":memory:", "file:x.db", "file:x?mode=memory", "FILE::memory:?cache=shared"]
)
def test_a_store_is_a_file(name, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good = {"identity": place.folder / "agg", "ca": place.folder}
    for store in (name, tmp_path / name):
        with pytest.raises(bs.ConfigError) as raised:
            bs.Coordinator(place.spec(), **good, store=store)
        assert raised.value.field == "store"
        assert "must be the name of a file" in raised.value.rule
    (tmp_path / "job.toml").write_text('protocol = "plain"\nparties = 2\ndim = 4\n')
    words = ["--ca", place.folder / "ca.pem", "--identity", place.folder / "agg", "--listen", "127.0.0.1:0"]
    err = refused(capsys, "serve", "--job", "job.toml", *words, "--store", name)
    assert err.startswith("blindsum: error: --store: ")
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


def test_what_is_written_has_the_name_that_was_asked_for(place, processes, tmp_path):
    (tmp_path / "job.toml").write_text('job = "job"\nprotocol = "plain"\nparties = 2\ndim = 4\nrounds = 1\n')
    ca = ["--ca", place.folder / "ca.pem"]
    words = ["serve", "--json", "--job", "job.toml", *ca, "--identity", place.folder / "agg"]
    server = processes(*words, "--listen", "127.0.0.1:0", "--store", "s.db", "--out", "final.bin")
    url = f"https://localhost:{json.loads(server.stdout.readline())['address'].rpartition(':')[2]}"
    join = ["join", url, "--job", "job", *ca, "--train", "training:light", *place.take_any]
    parties = [processes(*join, "--identity", place.identity(name), "--out", f"{name}.x") for name in "ab"]
    for process in [*parties, server]:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    for name in ("final.bin", "a.x", "b.x"):
        assert np.load(tmp_path / name) == pytest.approx(np.full(4, 0.5), abs=1e-4)
    assert not list(tmp_path.glob("*.npy"))


# --- PEM

LEGACY = """\
-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,00

AAAA
-----END RSA PRIVATE KEY-----
"""


def handed_around(text):
    """The same PEM as it looks after it went through other programs."""
    lines = text.splitlines()
    body = "".join(lines[1:-1])
    return {
        "plain": text.encode(),
        "mark": b"\xef\xbb\xbf" + text.encode(),
        "text before": b"Bag Attributes\n    friendlyName: gr\xf6\xdfe\n\n" + text.encode(),
        "empty lines": b"\n\n" + text.encode() + b"\n\n",
        "blanks": text.replace("\n", " \t\n").encode(),
        "indented": text.replace("-----BEGIN", "  -----BEGIN").encode(),
        "CRLF": text.replace("\n", "\r\n").encode(),
        "one line": f"{lines[0]}\n{body}\n{lines[-1]}".encode(),
    }


FORMS = list(handed_around("a\nb\nc"))


@pytest.mark.parametrize("form", FORMS)
def test_every_role_reads_the_same_files(form, place, partner, tmp_path):
    """Coordinator and parties, with all of their files written in this form."""
    for name in ("agg", "ca", *"ab"):
        place.identity(name)
        for ending in (".pem", ".key"):
            text = (place.folder / f"{name}{ending}").read_text()
            (tmp_path / f"{name}{ending}").write_bytes(handed_around(text)[form])
    spec = place.spec(rounds=1)
    files = {"identity": tmp_path / "agg", "ca": tmp_path / "ca.pem"}
    with bs.Coordinator(spec, **files, limits={"reconnect_grace": 0.5}) as running:
        url = f"https://localhost:{running.address.rpartition(':')[2]}"

        class Here:
            @staticmethod
            def join(_coordinator, name):
                policy = bs.Policy(**place.any_job)
                own = {"identity": tmp_path / name, "ca": tmp_path / "ca.pem"}
                return bs.join(url, job="job", policy=policy, give_up_after=5.0, **own)

        parties = [partner(Here, running, name, np.full(4, 0.5)) for name in "ab"]
        for party in parties:
            assert len(party.wait()) == 1
    # And the CA, in its own folder.
    assert pki.issue(tmp_path, "c").certificate.is_file()
    assert pki.revoke(tmp_path, [tmp_path / "a.pem"]).is_file()
    assert pki.show(tmp_path / "a.pem")["names"] == ["a"]


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def test_keys_of_other_forms_say_what_to_do(place, tmp_path):
    plain = place.identity("p").with_suffix(".key")
    certificate = place.folder / "p.pem"
    locked = tmp_path / "locked.key"
    openssl("pkcs8", "-topk8", "-in", plain, "-out", locked, "-passout", "pass:x")
    legacy = tmp_path / "legacy.key"
    legacy.write_text(LEGACY)
    wide = tmp_path / "wide.key"
    wide.write_bytes(plain.read_text().encode("utf-16"))
    none = tmp_path / "none.key"
    none.write_text("")
    for key, part in (
        (locked, "openssl pkcs8 -topk8 -nocrypt"),
        (legacy, "is encrypted in OpenSSL"),
        (wide, "save it as UTF-8"),
        (none, 'must hold a section "PRIVATE KEY"'),
        (certificate, "and has CERTIFICATE"),
    ):
        bad = pki.Identity(certificate, key)
        with pytest.raises(bs.IdentityError, match=re.escape(part)) as party:
            bs.join("https://localhost:1", job="job", identity=bad, ca=place.folder, give_up_after=1.0)
        with pytest.raises(bs.IdentityError, match=re.escape(part)) as server:
            bad = pki.Identity(place.folder / "agg.pem", key)
            bs.Coordinator(place.spec(), identity=bad, ca=place.folder)
        for raised in (party, server):
            assert str(key) in str(raised.value)


def test_a_key_of_openssl_for_an_elliptic_curve_is_read(place, tmp_path):
    pki.issue(place.folder, "curve", out=tmp_path, algorithm="p256")
    openssl("ec", "-in", tmp_path / "curve.key", "-out", tmp_path / "own.key")
    (tmp_path / "own.pem").write_text((tmp_path / "curve.pem").read_text())
    assert "EC PRIVATE KEY" in (tmp_path / "own.key").read_text()
    shown = pki.show(tmp_path / "own.key")
    assert shown["key_fingerprint"] == pki.show(tmp_path / "own.pem")["key_fingerprint"]


def test_a_list_that_is_cut_short_says_so(place, tmp_path):
    pki.init(tmp_path / "ca")
    pki.issue(tmp_path / "ca", "agg", hosts=["localhost"])
    cut = pki.revoke(tmp_path / "ca", [])
    cut.write_text(cut.read_text().partition("-----END")[0])
    with pytest.raises(bs.IdentityError, match=r'crl.pem: section "X509 CRL" has no end'):
        bs.Coordinator(place.spec(), identity=tmp_path / "ca/agg", ca=tmp_path / "ca", revoked=cut)


def test_show_knows_every_kind_of_file(tmp_path, capsys):
    pki.init(tmp_path / "ca")
    pki.request("hospital-a", tmp_path)
    pki.sign(tmp_path / "ca", tmp_path / "hospital-a.csr")
    pki.revoke(tmp_path / "ca", [tmp_path / "hospital-a.pem"])
    shown = {ending: pki.show(tmp_path / f"hospital-a{ending}") for ending in (".csr", ".pem", ".key")}
    kinds = [one["kind"] for one in shown.values()]
    assert kinds == ["signing request", "certificate", "private key"]
    assert len({one["key_fingerprint"] for one in shown.values()}) == 1
    assert shown[".csr"]["names"] == shown[".pem"]["names"] == ["hospital-a"]
    assert set(shown[".key"]) == {"kind", "encrypted", "key", "key_fingerprint"}
    lists = pki.show(tmp_path / "ca/crl.pem")
    assert (lists["kind"], lists["serials"]) == ("revocation list", [shown[".pem"]["serial"]])
    for file in ("hospital-a.csr", "hospital-a.key", "hospital-a.pem", "ca/crl.pem"):
        assert main(["pki", "show", str(tmp_path / file)]) == 0
        assert "kind" in capsys.readouterr().out
        assert main(["pki", "show", str(tmp_path / file), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == pki.show(tmp_path / file)
    (tmp_path / "x.pem").write_text("nothing")
    assert "has none of the sections" in refused(capsys, "pki", "show", tmp_path / "x.pem")


def test_what_a_request_asks_for_is_said_readably(tmp_path):
    pki.init(tmp_path / "ca")
    words = ["-newkey", "ed25519", "-nodes", "-keyout", tmp_path / "h.key", "-out", tmp_path / "h.csr"]
    openssl("req", "-new", *words, "-subj", "/CN=h", "-addext", "subjectAltName=DNS:h,DNS:i")
    with pytest.raises(
        bs.IdentityError, match=r"asks for DNS:h, DNS:i, must ask for DNS:h as its only subjectAltName"
    ):
        pki.sign(tmp_path / "ca", tmp_path / "h.csr")
    openssl("req", "-new", *words, "-subj", "/CN=h", "-addext", "subjectAltName=DNS:h")
    assert pki.sign(tmp_path / "ca", tmp_path / "h.csr").is_file()


# --- hosts, addresses, levels


def test_brackets_of_an_address_are_not_a_name(tmp_path):
    pki.init(tmp_path)
    pki.issue(tmp_path, "agg", hosts=["[::1]", "localhost"])
    assert pki.show(tmp_path / "agg.pem")["names"] == ["::1", "localhost"]
    spec = bs.JobSpec(protocol="secagg", parties=3, dim=1)
    with bs.Coordinator(spec, identity=tmp_path / "agg", ca=tmp_path, listen="[::1]:0") as server:
        assert server.hosts == ("::1", "localhost")
        assert server.address.startswith("[::1]:")


@pytest.mark.parametrize(
    ("host", "part"),
    [("bad host", "DNS name"), ("bücher.example", "xn--"), ("a:1", "without a port"), ("", "DNS name")],
)
def test_a_host_that_nobody_can_connect_to_is_refused(host, part, tmp_path):
    pki.init(tmp_path)
    with pytest.raises(bs.IdentityError, match=re.escape(part)):
        pki.issue(tmp_path, "agg", hosts=[host])
    assert not (tmp_path / "agg.pem").exists()


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("https://agg.example/path", "no path"),
        ("https://agg.example?x=1", "no path"),
        ("https://me:s3cret@agg.example", "without user and password"),
        ("https://agg.example:99999", "port"),
        ("https://bücher.example", "punycode"),
    ],
)
def test_nothing_of_a_url_is_dropped(url, part, place, capsys):
    own = {"identity": place.identity("a"), "ca": place.folder / "ca.pem"}
    with pytest.raises(bs.ConfigError, match=part) as raised:
        bs.join(url, job="job", **own)
    assert "s3cret" not in str(raised.value)
    with pytest.raises(bs.ConfigError, match=part):
        bs.Server(
            place.spec(protocol="mpc3", parties=3),
            servers=[url, "https://127.0.0.2:1", "https://127.0.0.3:1"],
            place=1,
            identity=place.folder / "server-1",
            ca=place.folder,
            state_dir=place.folder / "s",
        )
    words = ["--job", "job", "--ca", own["ca"], "--identity", own["identity"], "--train", "os.path:join"]
    assert part in refused(capsys, "join", url, *words)


def test_an_address_to_listen_on_is_checked(place):
    good = {"identity": place.folder / "agg", "ca": place.folder}
    for listen, part in (("::1:0", "brackets"), ("bad host:1", "host name"), ("localhost", "HOST:PORT")):
        with pytest.raises(bs.ConfigError, match=part):
            bs.Coordinator(place.spec(), **good, listen=listen)


@pytest.mark.parametrize("level", ["x", "", "blindsum_net", "warn,y"])
def test_a_level_of_the_log_is_one_of_six(level, tmp_path, capsys):
    (tmp_path / "job.toml").write_text(JOB)
    words = ["serve", "--job", tmp_path / "job.toml", "--ca", "x", "--identity", "x", "--log", level]
    err = refused(capsys, *words)
    assert "off, error, warn, info, debug, trace" in err
    err = refused(capsys, "join", "https://x", "--job", "x", "--ca", "x", "--train", "a:b", "--log", level)
    assert "off, error, warn, info, debug, trace" in err
