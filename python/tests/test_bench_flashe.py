"""What flashe is compared with computes sums, and its tables say what is measured and what is not."""

import importlib

import numpy as np
import pytest

from benches import command as bench
from benches import flashe, flashe_jobs, flashe_page
from benches.he import schemes
from benches.he.measure import CANDIDATES, CIPHERTEXTS, Candidate, HeCost, measure, measure_here
from benches.provenance import Run
from benches.rows import Row, number
from blindsum import _native
from blindsum.errors import BlindsumError

CHECK_BYTES = 16
MODULES = {"pypaillier": "paillier"}


class Clear:
    """Ciphertexts are the values themselves."""

    per_ciphertext = 4
    error = 0

    def encrypt(self, values, _rank):
        return [values[first : first + 4] for first in range(0, len(values), 4)]

    def add(self, vectors):
        return [sum(pieces) + self.error for pieces in zip(*vectors, strict=True)]

    def decrypt(self, ciphertexts, count):
        return np.concatenate(ciphertexts)[:count]

    def size(self, ciphertext):
        return ciphertext.nbytes


def loads(module):
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


@pytest.fixture
def clear(monkeypatch):
    scheme = Clear()
    monkeypatch.setitem(CANDIDATES, "clear", Candidate("in the clear", "nothing", lambda: scheme))
    return scheme


@pytest.mark.parametrize("name", CANDIDATES)
def test_every_installed_library_adds_ten_vectors(name):
    needs = CANDIDATES[name].needs
    cost = measure_here(name, 3, 0.0)
    if not loads(MODULES.get(needs, needs)):
        assert cost is None
    else:
        assert cost.measured == cost.numbers == 3
        assert cost.ciphertext_bytes >= 3 * schemes.SUM_BITS / 8
        assert min(cost.encrypt_s, cost.decrypt_s, cost.add_s) > 0


def test_a_wrong_sum_is_no_measurement(clear):
    clear.error = schemes.TERMS
    with pytest.raises(ArithmeticError, match="in the clear: a sum is wrong by 10"):
        measure_here("clear", 10, 0.0)


def test_long_vectors_are_measured_in_part_and_multiplied(clear):
    short, long = (measure_here("clear", ciphertexts * 4, 0.0) for ciphertexts in (CIPHERTEXTS, 1000))
    assert (short.measured, short.extrapolated) == (CIPHERTEXTS * 4, False)
    assert (long.measured, long.extrapolated) == (CIPHERTEXTS * 4, True)
    assert long.ciphertext_bytes == 1000 * 4 * 8
    # A last ciphertext that is not full costs what a full one costs.
    assert measure_here("clear", 4001, 0.0).ciphertext_bytes == 1001 * 4 * 8


def test_a_process_of_its_own_measures():
    cost = measure("numpy", 1000, 0.0)
    assert (cost.ciphertext_bytes, cost.measured) == (4000, 1000)
    with pytest.raises(BlindsumError, match="KeyError"):
        measure("rot13", 1000, 0.0)


@pytest.mark.parametrize("lanes", [1, 3, 102])
def test_packed_integers_add_lane_by_lane(lanes):
    values = np.random.default_rng(lanes).integers(0, 1 << schemes.VALUE_BITS, (schemes.TERMS, 205))
    totals = [
        sum(integers) for integers in zip(*(schemes._packed(row, lanes) for row in values), strict=True)
    ]
    assert max(totals).bit_length() <= lanes * schemes.SUM_BITS
    assert schemes._unpacked(totals, lanes, 205).tolist() == values.sum(axis=0).tolist()


def test_our_own_ciphertext_has_the_bytes_of_the_packed_words_and_a_check(monkeypatch):
    monkeypatch.setattr(flashe, "SECONDS", 0.0)
    cost = flashe.ours(1001)
    assert cost.ciphertext_bytes == -(-1001 * 20 // 8) + CHECK_BYTES
    with pytest.raises(BlindsumError, match="rank"):
        _native.flashe_times(10, 20, True, 3, [3], 0.0)


def test_masks_are_counted_as_theorem_2_says():
    point = flashe.sweep_point(20, 0.3, 64, sets=2000, timed=1)
    assert point.survivors == 14
    assert point.double_expected == pytest.approx(2 * 14 * 7 / 20 + 2)
    assert point.double_masks == pytest.approx(point.double_expected, rel=0.01)
    assert point.single_masks == point.single_expected == 15
    assert min(point.double_ms, point.single_ms) > 0
    # All but two parties, one of them the last: runs 0..2 and 4..4, and two masks to encrypt.
    assert _native.flashe_masks(6, [0, 1, 2, 4]) == (6, 5)


def test_sparse_traffic_is_that_of_plain_and_a_check(monkeypatch):
    monkeypatch.setattr(flashe, "SECONDS", 0.0)
    monkeypatch.setattr(flashe, "MODELS", {"small": 5000})
    costs = [HeCost(CANDIDATES["phe"].title, 10, 10, 5120, 1.0, 1.0, 1.0)]
    (line,) = flashe.sparse(costs)
    assert (line.kept, line.dense_bytes) == (500, 12_500)
    # Most distances between coordinates fit a byte; a bitmap would take 625.
    assert 500 < line.mask_bytes < 520
    assert line.plain_bytes == line.mask_bytes + 1250
    assert line.flashe_bytes == line.plain_bytes + CHECK_BYTES
    assert line.paillier_bytes == line.mask_bytes + 500 * 512
    # Somebody of ten keeps 65 % of the coordinates.
    assert 0.6 * 12_500 < line.sum_bytes < 0.7 * 12_500
    # Each of 500 words alone: one mask to encrypt, and for all 5,000 one to decrypt.
    assert line.single_masks == 500 + 5000
    assert line.double_masks == pytest.approx(2 * 500 + 2 * (5000 - 9 * 50), rel=0.02)
    assert min(line.permute_ms, line.encrypt_ms, line.add_ms, line.decrypt_ms) > 0
    assert flashe.sparse([])[0].paillier_bytes is None
    with pytest.raises(BlindsumError, match="coordinate"):
        _native.flashe_sparse(10, 20, [[0, 10]], 0.0)


def test_rounds_of_processes_are_compared_with_those_of_plain():
    wall, up = flashe_jobs.beside_plain(lambda _text: None, parties=3, dim=1000, count=1, times=1)
    assert wall.measured > 0
    # Vectors of 2,250 bytes, TLS and HTTP/2 around them, and a check of 16 bytes.
    assert 1.0 < up.measured < 1.1


def test_sparse_jobs_are_compared_with_dense_ones():
    jobs = flashe_jobs.sparse_jobs(
        lambda _text: None, parties=3, dim=20_000, densities=(0.1,), count=1, times=1
    )
    plain, dense, sparse = jobs
    assert [(job.density, job.cost.protocol) for job in jobs] == [
        (1, "plain"),
        (1, "flashe"),
        (0.1, "flashe"),
    ]
    assert list(sparse.cost.stages) == ["mask", "upload"]
    # 2,000 words of 18 bits, their places at one byte each or a little more, and what surrounds them.
    assert 4500 + 2000 < sparse.cost.up_bytes < 10_000 < dense.cost.up_bytes
    # The places of all three, and the words of 5,420 coordinates.
    assert 3 * 2000 + 12_000 < sparse.cost.down_bytes < 25_000
    table = flashe_page.tables(flashe.Measured(jobs=jobs))[-1]
    assert [row[0] for row in table.rows] == ["plain, dense", "flashe, dense", "flashe, 0.1"]
    assert table.rows[2][7] == number(sparse.cost.up_bytes / plain.cost.up_bytes)
    assert table.rows[0][3] == table.rows[1][4] == "1"
    assert "3 processes × 20,000 coordinates" in table.note


def test_the_page_says_what_is_extrapolated_and_what_is_absent():
    ours = HeCost(flashe.OURS, 16_384, 16_384, 40_976, 1e-5, 1e-5, 1e-5)
    slow = HeCost("Paillier", 16_384, 64, 2**23, 200.0, 100.0, 0.5)
    found = flashe.Measured([Row("work", "ms", 2, 1, note="why")], [ours, slow], ["tenseal"])
    found.sweep = [flashe.SweepPoint(20, 10, 13.0, 13.0, 11.0, 11.0, 0.9, 0.8)]
    page = bench._flashe_markdown(found, {"origin": Run.begin(["blindsum"]).row})
    assert "| work | ≤ 1 ms | 2 ms | 0.5 (missed) |" in page
    assert "* work: why." in page
    assert "| Paillier | ~ 8 MiB | ~ 200 s | ~ 100 s | ~ 500 ms | 205 | 20,000,000 |" in page
    assert "Times marked ~ are those of 16 ciphertexts, multiplied." in page
    assert "Absent here: tenseal." in page
    assert "| 20 | 0.5 | 0.9 | 0.8 | single | single |" in page
    assert "[flashe-dropout.csv](flashe-dropout.csv) has all 1 rows." in page
    assert "Sparse" not in page
    assert "65,536 numbers" not in page


def test_long_tables_are_files_beside_the_page():
    survivors = (20, 18, 10, 8)
    found = flashe.Measured(
        sweep=[flashe.SweepPoint(20, left, 9.9, 11.0, 21.0, 21.0, 1.0, 20 / left) for left in survivors]
    )
    masks, dropout = [table for table in flashe_page.tables(found) if table.file]
    assert [row[1] for row in masks.few] == ["20", "18", "10"]
    assert "at most 10% away" in masks.note
    assert [line.split(",")[1] for line in dropout.csv.splitlines()] == ["dropout", "0", "0.1", "0.5", "0.6"]
    assert [row[1] for row in dropout.few] == ["0", "0.1", "0.5"]
    assert "| 20 | 0.6 |" not in dropout.markdown


def test_single_masking_is_said_to_be_faster_from_where_it_is():
    times = [(20, 1.0, 2.0), (10, 1.0, 0.9), (4, 1.0, 0.5)]
    found = flashe.Measured(
        sweep=[flashe.SweepPoint(20, left, 1.0, 1.0, 1.0, 1.0, *both) for left, *both in times]
    )
    dropout = flashe_page.tables(found)[-1]
    assert dropout.note.endswith("from these dropouts on: 0.5 (20 parties).")


def test_steps_cover_the_tables(monkeypatch):
    monkeypatch.setattr(flashe, "measure", lambda _name, _numbers: None)
    monkeypatch.setattr(flashe, "beside_plain", lambda _on_text: [Row("rounds", "", 1.0, 1.05)])
    monkeypatch.setattr(flashe, "sparse_jobs", lambda _on_text: [])
    monkeypatch.setattr(flashe, "NUMBERS", (64,))
    monkeypatch.setattr(flashe, "SWEEP_PARTIES", (10,))
    monkeypatch.setattr(flashe, "SWEEP_DIM", 64)
    monkeypatch.setattr(flashe, "SECONDS", 0.0)
    found = flashe.Measured()
    for _name, work in flashe.steps(found):
        work(lambda _text: None)
    assert [row.unit for row in found.rows] == ["ms"] * 3 + [""]
    assert set(found.absent) == {candidate.needs for candidate in CANDIDATES.values()}
    assert [point.survivors for point in found.sweep] == list(range(10, 0, -1))
    assert [ahead.lost for ahead in found.ahead] == [0, 2] * len(flashe.MODELS)
    titles = [table.title for table in flashe_page.tables(found)]
    assert titles[0] == "Targets"
    assert any("Theorem 2" in title for title in titles)
    assert any("Sparse" in title for title in titles)
