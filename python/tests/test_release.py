"""What tools/release.py writes beside what it builds. A whole release is tried by ``make release``."""

import base64
import csv
import hashlib
import zipfile

import check_release
import pytest
import release

INFO = "blindsum-0.1.0.dist-info"
SBOM = f"{INFO}/sboms/blindsum-python.cyclonedx.json"


@pytest.fixture
def built(tmp_path):
    """A wheel as maturin builds one: its SBOM has paths of this machine."""
    content = {
        "blindsum/_native.abi3.so": b"\x7fELF",
        SBOM: f'{{"bom-ref": "path+file://{release.ROOT}/crates/python#0.1.0"}}'.encode(),
    }
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in content.items())
    content[f"{INFO}/RECORD"] = f"{record}{INFO}/RECORD,,\n".encode()
    path = tmp_path / "built" / "blindsum-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def test_a_wheel_names_no_path_of_this_machine_and_its_record_is_right(built, tmp_path):
    wheel = tmp_path / built.name
    release.without_paths(built, wheel)
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    assert content[SBOM] == b'{"bom-ref": "path+file:///blindsum/crates/python#0.1.0"}'
    rows = list(csv.reader(content[f"{INFO}/RECORD"].decode().splitlines()))
    assert [row[0] for row in rows] == list(content)
    for name, hashed, length in rows[:-1]:
        assert (hashed, int(length)) == (f"sha256={digest(content[name])}", len(content[name]))


def test_builds_name_no_path_of_this_machine():
    flags = release.environment("aarch64")
    assert f"--remap-path-prefix={release.ROOT}=/blindsum" in flags["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
    assert f"-ffile-prefix-map={release.ROOT}=/blindsum" in flags["CFLAGS_aarch64_unknown_linux_gnu"]


@pytest.fixture
def dist(tmp_path, monkeypatch):
    """A folder of two files and their checksums."""
    for module in (release, check_release):
        monkeypatch.setattr(module, "DIST", tmp_path)
    files = [tmp_path / name for name in ("blindsum-0.1.0.whl", "blindsumd-0.1.0-x86_64-linux")]
    for file in files:
        file.write_text(file.name)
    release.write_sums(files)
    return tmp_path


def test_checksums_are_those_of_all_files(dist):
    names = ["blindsum-0.1.0.whl", "blindsumd-0.1.0-x86_64-linux"]
    assert [file.name for file in check_release.check_sums()] == names


def test_a_changed_file_and_one_without_a_checksum_are_found(dist):
    (dist / "blindsum-0.1.0.whl").write_text("changed")
    with pytest.raises(check_release.CheckError, match=r"blindsum-0.1.0.whl: its checksum is"):
        check_release.check_sums()
    (dist / "blindsum-0.1.0.cdx.json").write_text("{}")
    with pytest.raises(check_release.CheckError, match="does not list what is in dist"):
        check_release.check_sums()


def test_files_of_an_earlier_release_go_and_others_stay(dist, capsys):
    (dist / "notes.txt").write_text("mine")
    release.clear()
    assert [file.name for file in dist.iterdir() if file.is_file()] == ["notes.txt"]
    assert capsys.readouterr().out.count("of an earlier release") == 3
