"""Certificates for a trial, and the file in which the simulator's sites and server find them.

In a deployment each owner of a site makes a key (docs/certificates.md), and writes a file for that machine.
"""

import argparse
import json
from pathlib import Path

from blindsum import pki


def main():
    """Make a CA, certificates for the server and four sites, and local/blindsum.json of the simulator."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    workspace = parser.parse_args().workspace.absolute()
    folder = workspace / "pki"
    pki.init(folder)
    pki.issue(folder, "server", hosts=["127.0.0.1"])
    for number in range(1, 5):
        pki.issue(folder, f"site-{number}")
    local = workspace / "digits" / "local"
    local.mkdir(parents=True)
    settings = {
        "identity": f"{folder}/{{site}}",
        "ca": str(folder),
        "coordinator_identity": f"{folder}/server",
    }
    (local / "blindsum.json").write_text(json.dumps(settings, indent=4) + "\n")


if __name__ == "__main__":
    main()
