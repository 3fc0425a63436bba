"""The notebook of examples/ is executed, as a reader would: its cells in order, in a kernel of its own."""

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "comparing.ipynb"


def read():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after its cells, and the folder that it ran in."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = read()
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook, folder


def shown(notebook, kind):
    """What the last lines of cells gave, of one kind."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    results = [one for cell in cells for one in cell.outputs if "data" in one]
    return [one.data[kind] for one in results if kind in one.data]


def test_the_notebook_is_stored_without_what_its_cells_gave():
    assert all(not cell.get("outputs") for cell in read().cells)
    nbformat.validate(read())


def test_cells_show_tables_and_a_picture(executed):
    notebook, _ = executed
    assert not [
        one for cell in notebook.cells for one in cell.get("outputs", ()) if one.output_type == "stream"
    ]
    spec, result, table = shown(notebook, "text/html")
    assert "blindsum.JobSpec" in spec
    assert "blindsum.SimulationResult" in result
    assert "exact" in result
    assert "18 of 18 runs" in table
    assert "parties: must be at least 3 (is 2)" in table
    (picture,) = shown(notebook, "image/svg+xml")
    assert "secagg+" in picture


def test_the_run_is_the_same_again(executed):
    notebook, folder = executed
    *_, sent, again = shown(notebook, "text/plain")
    assert again == "(True, ())"
    assert "('fssa', 20)" in sent
    assert {"grid.json", "runs.csv", "summary.md"} <= {
        path.name for path in (folder / "comparison").iterdir()
    }
