"""What commands say where there is nothing to do, or a name or number is wrong."""

import pytest

from blindsum.cli import main
from blindsum.pki import init, issue


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def said(*words):
        status = main(list(words))
        out = capsys.readouterr()
        return status, out.out, out.err

    return said


def test_a_key_without_a_passphrase_has_none_to_remove(said):
    init("ca")
    status, out, err = said("pki", "passphrase", "ca/ca.key", "--remove")
    assert (status, out) == (2, "")
    assert "key ca/ca.key: is not encrypted, there is no passphrase to remove" in err


def test_a_certificate_that_is_on_the_list_is_named_so(said):
    init("ca")
    issue("ca", "a")
    assert "revoked party a," in said("pki", "revoke", "ca", "a")[1]
    assert "was on the list already: party a," in said("pki", "revoke", "ca", "ca/a.pem")[1]


def test_a_data_set_that_is_not_there_is_named_before_what_else_is_missing(said):
    status, _, err = said("data", "nosuch")
    assert status == 2
    assert "NAME: 'nosuch' must be one of " in err
    assert "--partition: must be given: one of iid, " in said("data", "mnist")[2]


def test_a_run_to_repeat_is_named_by_its_flag(said, tmp_path):
    (tmp_path / "report.json").write_text("{}")
    status, _, err = said("simulate", "--repeat", "report.json:3")
    assert status == 2
    assert "--repeat: report.json holds one report and has no runs to choose from" in err
