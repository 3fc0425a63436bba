"""Models in .npy files, as command lines name them."""

from __future__ import annotations

from typing import Any


def model_in(path: str, option: str) -> Any:
    """The array in a file.

    Parameters
    ----------
    path
        A file as :func:`numpy.save` writes it.
    option
        The option that names it, for error messages.

    Raises
    ------
    blindsum.ConfigError
        The file cannot be read, or holds no array of numbers.
    """
    import numpy as np

    from blindsum.errors import ConfigError
    from blindsum.os_errors import unreadable

    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise ConfigError(option, f"{path} {unreadable(error)}") from error
    except MemoryError as error:
        rule = "says that it holds more numbers than fit into memory"
        raise ConfigError(option, f"{path} {rule}; give a model of the job's dim") from error
    except (ValueError, EOFError) as error:
        raise ConfigError(option, f"{path} is no .npy file of numbers, as numpy.save writes them") from error
