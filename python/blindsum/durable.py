"""What a crash of the machine must not take away."""

from __future__ import annotations

import os
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder down to the disk: of files that were made, renamed or removed there.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
