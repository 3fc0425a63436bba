"""The notebook of your own model is executed as a reader would, in a kernel of its own."""

from pathlib import Path

import nbclient
import nbformat
import pytest

from blindsum.coordinator import stored_rounds

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "own-model.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after its cells, and the folder that it ran in."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook, folder


def test_the_notebook_is_stored_without_what_its_cells_gave():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    nbformat.validate(notebook)


def test_cells_show_the_model_the_job_the_run_and_the_result(executed):
    notebook, _ = executed
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    assert not [one for one in outputs if one.output_type == "stream"]
    vector, spec, live, record, best, by_hand, result, stored = (one.data["text/html"] for one in outputs)
    assert "blindsum.ModelVector" in vector
    assert "fedavgm" in spec
    # What follows the rounds stays at the last one; a later display of the same replaces it.
    assert "blindsum.TrainingRound" in live
    assert "accuracy, plain" in live
    assert "6 of 6 with a sum" in record
    assert "<th" in best
    assert "4 of 4 with a sum" in by_hand
    assert "blindsum.RoundResult" in result
    assert "loss" in result
    assert "4 of 4 with a sum" in stored


def test_the_run_leaves_a_report_and_the_job_a_store(executed):
    _, folder = executed
    page = (folder / "report.html").read_text()
    assert "<html" in page
    assert "accuracy" in page
    losses = [one["metrics"]["loss"]["value"] for one in stored_rounds(folder / "digits.sqlite", "digits")]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 4
