"""The notebook of Flower is executed as a reader would, in a kernel of its own: `make flower`."""

import ast
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "flower" / "federation.ipynb"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the last lines of cells gave, in order."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
    client.execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    return [ast.literal_eval(one.data["text/plain"]) for one in outputs if "data" in one]


def test_the_notebook_is_stored_without_what_its_cells_gave():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert len([cell for cell in notebook.cells if cell.cell_type == "code"]) == 10
    nbformat.validate(notebook)


def test_the_server_sees_the_digits_of_a_node_and_then_their_mean(shown):
    sizes, plain, digits, secure, (replies, largest), accuracies = shown
    assert sum(sizes) == 1500
    assert digits == [(node, node + 5) for node in range(5)]
    assert replies == 1
    assert largest < 0.1
    assert len(plain) == len(secure) == 6
    assert plain[-1] > 0.8
    assert secure == pytest.approx(plain, abs=0.01)
    assert accuracies == {"plain": plain[-1], "secure": secure[-1]}
