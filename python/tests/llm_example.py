"""The example of a language model with LoRA: where it is, and the commands of its README."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "llm-lora"


def commands():
    """The lines of its README, without comments."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", (FOLDER / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
