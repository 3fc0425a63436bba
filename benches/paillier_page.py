"""The page of what Paillier's scheme costs."""

from __future__ import annotations

from benches.paillier import PEER_HEADER, Measured, peer_cells
from benches.rows import HEADER as ROW_HEADER
from blindsum.cli.console import markdown_table

HEADER = [*ROW_HEADER[:-1], "best of the others"]


def absent(found: Measured) -> str:
    """What could not be measured here."""
    return f"Not installed, and not measured: {', '.join(found.absent)}. `make bench` installs what there is."


def markdown(found: Measured, origin: str) -> str:
    """The whole page; ``origin`` says where the numbers come from."""
    missed = [row for row in found.rows if row.ratio is not None and row.ratio < 1]
    lines = [
        "# `blindsum bench paillier`",
        "",
        "Written by `blindsum bench paillier`. A ratio below 1 is a target that is missed.",
        "",
        origin,
        "* One thread, and for others one core.",
        "* Values have 16 bits. Rates are of values: a ciphertext of 2048 bits has 93 of ours in lanes of 22",
        "  bits, for 40 parties. Others have 20 bits for ten parties, or one value in a ciphertext.",
        "* *Add 10* adds ten vectors and counts nine additions. *Read* takes bytes and checks them.",
        "* Ours and HEU draw exponents of 1024 bits. HEU reads its tables at places that depend on",
        "  them, ours all of a table each time, so that nobody sees which entry counts.",
        "",
        markdown_table(HEADER, [row.cells for row in found.rows]),
        "",
        "Missed: " + ", ".join(row.work for row in missed) + "." if missed else "None is missed.",
        "",
        "## Others",
        "",
        markdown_table(PEER_HEADER, [peer_cells(peer) for peer in found.peers]),
    ]
    if found.absent:
        lines += ["", absent(found)]
    return "\n".join(lines) + "\n"
