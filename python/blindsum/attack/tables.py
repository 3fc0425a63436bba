"""The tables of a result, for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blindsum.attack.membership import CONFIDENCE, Game, Rate
from blindsum.attack.results import SIGMAS, Attacked, AttackResult, Held
from blindsum.texts import counted

SHOWN_RATE = 0.05
"""The rate of false positives that tables show; the others are in the JSON."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a title, with a note for the reader."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(result: AttackResult) -> list[Table]:
    """All tables of a result, in their order."""
    found = [_held(result), _sums(result), _reach(result)]
    return [*found, _games(result)] if result.games else found


def _held(result: AttackResult) -> Table:
    settings = result.settings
    note = (
        f"Attacks on random words have a similarity of {result.chance:.2f} ± {result.chance_deviation:.2f}. "
        f"Better than chance is a mean that is {SIGMAS:g} standard deviations above."
    )
    title = (
        f"what a server holds of one party: {counted(settings.parties, 'party')}, "
        f"{counted(settings.images, 'image')} each"
    )
    header = ["protocol", "who looks", "similarity", "PSNR in dB", "images found", "the attack is"]
    return Table(title, note, header, [_held_row(one) for one in result.held])


def _held_row(one: Held) -> list[str]:
    if not one.vectors:
        return [one.protocol, one.server, "", "", "", one.verdict]
    images = f"{one.recognised} of {one.images}"
    return [one.protocol, one.server, f"{one.correlation:.2f}", f"{one.psnr:.1f}", images, one.verdict]


def _sums(result: AttackResult) -> Table:
    note = (
        "The mean goes to every party, under every protocol. Found images are those that the attacker would "
        "pick out of the whole data set; in brackets, how many of as many other images it would pick out."
    )
    header = ["mean of", "noise multiplier", "similarity", "images found"]
    rows = [
        [
            counted(one.parties, "party"),
            f"{one.multiplier:g}" if one.multiplier else "no noise",
            f"{one.correlation:.2f}",
            _found(one),
        ]
        for one in result.sums
    ]
    return Table("what the released mean tells", note, header, rows)


def _reach(result: AttackResult) -> Table:
    steps = sorted({one.steps for one in result.reach})
    images = sorted({one.images for one in result.reach})
    cells = {(one.images, one.steps): one for one in result.reach}
    header = ["images of the party", *(f"after {counted(count, 'local step')}" for count in steps)]
    rows = [[str(count), *(_found(cells[count, step]) for step in steps)] for count in images]
    note = (
        "One image is found after any number of steps. Several are found after one step, if they are few. "
        "In brackets, how many of as many other images the attacker would pick out."
    )
    return Table("images found in plain updates", note, header, rows)


def _found(one: Attacked) -> str:
    return f"{one.recognised} of {one.total} ({one.by_chance:.1f})"


def _games(result: AttackResult) -> Table:
    percent = f"{100 * SHOWN_RATE:g} %"
    header = [
        "mean of",
        "noise",
        "the attacker",
        "AUC",
        "in theory",
        f"TPR at {percent}",
        "noise allows",
        "ε, δ allow",
    ]
    note = (
        f"{result.games[0].trials} rounds with a party of one image, as many without it. "
        f"Intervals are for {100 * CONFIDENCE:g} %. AUC 0.5 is guessing. TPR: parties that are recognised if "
        f"{percent} of absent ones are taken for present. In theory: the best AUC against the noise of all "
        "parties. The noise that the job guarantees allows the first TPR, and up to the second one where the "
        f"absent ones are so few that more than {percent} may be taken for present."
    )
    rows = [_game_row(game) for game in result.games]
    return Table("membership inference on the released mean", note, header, rows)


def _game_row(game: Game) -> list[str]:
    rate = shown(game)
    return [
        counted(game.parties, "party"),
        f"{game.multiplier:g}" if game.multiplier else "no noise",
        game.attacker,
        f"{game.auc:.3f} ({game.low:.3f}–{game.high:.3f})",
        "" if game.expected is None else f"{game.expected:.3f}",
        f"{rate.true:.2f} ({rate.low:.2f}–{rate.high:.2f})",
        "" if rate.gaussian is None else f"{rate.gaussian:.2f}–{rate.gaussian_high:.2f}",
        "" if rate.allowed is None else f"{rate.allowed:.2f}",
    ]


def shown(game: Game) -> Rate:
    """The rates of a game that tables show."""
    return next(rate for rate in game.rates if rate.false == SHOWN_RATE)
