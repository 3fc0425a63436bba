"""Orders to a job, checked before they are sent: errors name the argument, its value and its rule."""

from __future__ import annotations

import json
from typing import Any

from blindsum import checks
from blindsum.errors import ConfigError

DEADLINES = ("join_deadline", "stage_deadline", "input_deadline")

VALUES: dict[str, tuple[str, ...]] = {
    "drain": ("within",),
    "pause": (),
    "resume": (),
    "extend": ("rounds", *DEADLINES),
    "end": (),
    "ban": ("party", "seconds"),
    "unban": ("party",),
}
"""Every order, with the arguments that it may have."""


def command_of(command: object, values: dict[str, object]) -> str:
    """An order with its values, as JSON; ``None`` leaves a value out.

    Raises
    ------
    blindsum.ConfigError
        There is no such order, it has no such argument, or a value breaks its rule.
    """
    if not isinstance(command, str) or command not in VALUES:
        raise ConfigError("command", f"{command!r} must be one of {', '.join(VALUES)}")
    own = VALUES[command]
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in own:
            has = f"it has {', '.join(own)}" if own else "it has none"
            raise ConfigError(name, f"is no argument of {command}, {has}: leave it out")
    if "party" in own and "party" not in given:
        raise ConfigError("party", "is missing: name the party, as its certificate does")
    checked = {name: _checked(name, value) for name, value in given.items()}
    if "seconds" in checked:
        checked["for"] = checked.pop("seconds")
    return json.dumps({"command": command, **checked})


def _checked(name: str, value: object) -> Any:
    if name == "party":
        return checks.line(name, value)
    if name == "rounds":
        whole = checks.whole_number(value)
        if whole is None or not 0 <= whole <= checks.ROUNDS:
            rule = f"must be a whole number from 0 (without end) to {checks.ROUNDS}"
            raise ConfigError(name, f"{value!r} {rule}")
        return whole
    seconds = checks.seconds(name, value)
    if seconds == 0:
        raise ConfigError(name, f"{value!r} must be above 0 and at most 1000000 seconds: raise it")
    return seconds
