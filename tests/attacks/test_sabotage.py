"""The sabotage table: every method that says "proved" against every fault, and what turns red.

What is drawn is held against what is written down, through the learner itself: any fault in how much noise is drawn, how
often, for which charge and from where turns `trouble` into words. Faults in clipping and divisors have tests of their own,
named here by what they are written in. A method of the catalogue without a row turns this red.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcl_core.methods import catalog
from dpcl_core.methods.schedule import ROUNDING
from dpcl_core.privacy import noise
from dpcl_core.privacy.ledger import Ledger
from tests.attacks import small_plays, spy

ROOT = Path(__file__).resolve().parents[2]
PROVED = [name for name, card in catalog.CARDS.items() if card.guarantee == "proved"]
_SUM, _LIST = math.hypot(1, 0.5), math.sqrt(1.5)  # bounds of a client's vector, and of its list
_OF_TEXTS = 6.0  # texts in a step on average: half of twelve
_IMAGES = small_plays.NOMINAL / 2

# By method: what a multiplier of the ledger is multiplied by, and how many draws a charge stands for.
UNITS: Mapping[str, tuple[tuple[float, ...], int]] = {
    "cosine": ((1.0,), 1),
    "peft-ensemble": ((1.0,), 1),  # sums are in units of the clipping norm
    "naive": ((1.0,), 1),
    "non-cl": ((1.0,), 1),
    "dp-agem": (((1 + ROUNDING) / _IMAGES, (1 + ROUNDING) / 4), 1),  # own batch, replayed one
    "dp-coeff-memory": ((math.sqrt(3), math.sqrt(1.5)), 4),  # features, their classes, products on the diagonal and off it
    "independent-laplace": ((), 1),
    "lm-seqft": (((1 + ROUNDING) / _OF_TEXTS,), 1),
    "lm-er": (((1 + ROUNDING) / _OF_TEXTS, (1 + ROUNDING) / 7.2), 1),  # own texts, and with kept ones
    "lm-ewc": (((1 + ROUNDING) / _OF_TEXTS, (1 + ROUNDING) / 12), 1),  # steps, and squares of all texts
    "lm-gem": (((1 + ROUNDING) / _OF_TEXTS, (1 + ROUNDING) / 12), 1),  # steps and references
    "lm-olora": (((1 + ROUNDING) / _OF_TEXTS,), 1),
    "lm-mtl": (((1 + ROUNDING) / _OF_TEXTS,), 1),
    "pecl": ((0.5 * (1 + ROUNDING) / _OF_TEXTS, 1.0), 1),  # steps, clipped to a half, and mean scores
    "cslr-server-head": ((_SUM,), 1),
    "cslr-central": ((_SUM, 1.0), 1),
    "local-list": ((_LIST,), 1),
    "label-means": ((_SUM,), 1),
    "dp-stat-share": ((_SUM, 1.0), 1),
    "dp-fedavg": ((1.0,), 1),
    "fedcil-dp": ((math.sqrt(2),), 2),  # generator and classifier, each half of the budget
}


class Changed:
    """A source of noise whose every addition goes through `change(add, clean, std)`."""

    def __init__(self, source: Any, change: Callable[[Callable[..., Any], Any, float], Any]) -> None:
        self._source, self._change = source, change

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self._source, name)
        if name in ("added", "added32", "laplace_added"):
            return lambda clean, std: self._change(drawn, clean, std)
        if name == "additions32":
            return lambda size, std, count: lambda clean: self._change(self._source.added32, clean, std)
        return drawn


def in_learners(patch: pytest.MonkeyPatch, change: Callable[[Any, Any, str], Any]) -> None:
    """Every learner gets its noise by way of `change(source, cell, purpose)`."""
    honest = noise.noise_of
    for name, module in list(sys.modules.items()):
        if name.startswith("dpcl_core.methods") and hasattr(module, "noise_of"):
            patch.setattr(module, "noise_of", lambda *args: change(honest(*args), *args[1:]))


def halved(patch: pytest.MonkeyPatch) -> None:
    half = lambda add, clean, std: add(clean, std / 2)  # noqa: E731
    in_learners(patch, lambda source, cell, purpose: Changed(source, half))


def shared(patch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, Any] = {}

    def once(add: Any, clean: Any, std: float) -> Any:
        key = np.shape(clean), std
        if key not in kept:
            kept[key] = add(np.zeros_like(clean), std)
        return clean + kept[key]

    in_learners(patch, lambda source, cell, purpose: Changed(source, once))


def left_out(patch: pytest.MonkeyPatch) -> None:
    """Every second release goes out as it is, as references or replays might."""
    count = iter(range(10**9))
    clear = lambda add, clean, std: add(clean, std) if next(count) % 2 else clean  # noqa: E731
    in_learners(patch, lambda source, cell, purpose: Changed(source, clear))


class Forgetful(Ledger):
    """Forgets the first thing that it is told."""

    n_told = 0

    def spend(self, *args: Any, **named: Any) -> None:
        self.n_told += 1
        if self.n_told > 1:
            Ledger.spend(self, *args, **named)


def uncharged(patch: pytest.MonkeyPatch) -> None:
    """The first thing that a run costs is not written down."""
    patch.setattr(small_plays, "Ledger", Forgetful)


def recorded_noise(patch: pytest.MonkeyPatch) -> None:
    in_learners(patch, lambda source, cell, purpose: noise.SeededNoise(cell, purpose))


def recorded_coins(patch: pytest.MonkeyPatch) -> None:
    honest = noise.Batches.__init__
    patch.setattr(noise.Batches, "__init__", lambda self, rate, seed, *args, **named: honest(self, rate, 7, *args, **named))


FAULTS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "noise halved": halved,
    "noise shared": shared,
    "noise left out": left_out,
    "uncharged": uncharged,
    "recorded noise": recorded_noise,
    "recorded coins": recorded_coins,
}
WITHOUT_COINS = ("cosine", "dp-coeff-memory", "independent-laplace", "label-means", "cslr-server-head", "local-list")
# Texts are slow to play: what all of them share (`Trainee`) is sabotaged in two of them.
SABOTAGED = [
    (method, fault)
    for method in PROVED
    for fault in FAULTS
    if not (fault == "recorded coins" and method in WITHOUT_COINS)
    and (not method.startswith("lm-") or fault == "noise halved" or method == "lm-gem")
    and not (method == "independent-laplace" and fault in ("noise halved", "noise shared"))
]
ELSEWHERE = {  # what the spy cannot see: the scale of noisy copies
    ("independent-laplace", "noise halved"): "tests/privacy/test_local.py::"
    "test_noise_is_laplace_of_the_scale_that_two_records_can_differ_by",
    ("independent-laplace", "noise shared"): "tests/privacy/test_local.py::"
    "test_differences_of_two_copies_are_not_free_of_noise_and_seeded_ones_repeat",
}
CLIPPING = {
    "cosine": "tests/privacy/test_mechanisms.py::test_removing_any_record_changes_one_class_by_at_most_one",
    "heads": "tests/attacks/test_heads.py::test_too_little_noise_and_missing_clipping_are_called_errors",
    "networks": "tests/methods/test_gradient_sums.py::test_one_example_changes_a_sum_by_its_bound_at_most_whatever_it_holds",
    "coefficients": "tests/privacy/test_coefficients.py::test_no_neighbours_found_are_farther_apart_than_the_sensitivity",
    "local": "tests/privacy/test_local.py::test_no_two_records_are_farther_apart_than_the_scale_allows_for",
    "clients": "tests/privacy/test_client_sums.py::test_one_client_moves_a_sum_by_the_bound_at_most",
}
CLIPPED_BY: Mapping[str, str] = {
    "cosine": "cosine",
    **dict.fromkeys(("peft-ensemble", "naive", "non-cl"), "heads"),
    "dp-agem": "networks",
    "dp-coeff-memory": "coefficients",
    "independent-laplace": "local",
    **{name: "networks" for name in PROVED if name.startswith("lm-") or name == "pecl"},
    **{name: "clients" for name in PROVED if catalog.card(name).scenarios == ("federated",)},
}


def found(method: str, fault: Callable[[pytest.MonkeyPatch], None] | None) -> str:
    """What does not fit together in a play of the method under this fault."""
    asked = small_plays.spec(method)
    catalog.maker(method)  # loads what a fault is put into
    with spy.watching() as seen, pytest.MonkeyPatch.context() as patch:
        if fault is not None:
            fault(patch)
        _, ledger = small_plays.played(asked)
    return spy.trouble(seen, ledger, *UNITS[method])


def test_every_method_that_says_proved_has_a_row() -> None:
    assert set(UNITS) == set(small_plays.PARAMS) == set(CLIPPED_BY) == set(PROVED)


@pytest.mark.parametrize("method", PROVED)
def test_what_a_learner_draws_is_what_its_ledger_says(method: str) -> None:
    assert found(method, None) == ""


@pytest.mark.parametrize(("method", "fault"), SABOTAGED)
def test_sabotage_is_found(method: str, fault: str) -> None:
    assert found(method, FAULTS[fault]) != ""


@pytest.mark.parametrize("named", sorted({*CLIPPING.values(), *ELSEWHERE.values()}))
def test_tests_that_the_table_names_are_there(named: str) -> None:
    file, _, name = named.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def table() -> str:
    """The table as text, made of what is tested above."""
    lines = [
        "# What turns red when a method is sabotaged",
        "",
        "Made by `python -m tests.attacks.test_sabotage`; a test holds it against the tests themselves.",
        "",
        "* **spy**: `test_sabotage_is_found` plays the method's learner and holds each noise drawn against its ledger.",
        "* **shared code**: the method trains by the code of `lm-gem`, in which the spy finds this fault.",
        *(f"* **{name}**: `{test}`." for name, test in CLIPPING.items()),
        *(f"* **{fault} test**: `{test}`." for (_, fault), test in ELSEWHERE.items()),
        "* –: the method has no such coins.",
        "",
        "A divisor that counts who is there shows as noise of a size that no public number gives: fewer examples are played "
        "than the public number of them.",
        "",
        "| method | " + " | ".join(FAULTS) + " | clipping missing |",
        "| --- |" + " --- |" * (len(FAULTS) + 1),
    ]
    for method in PROVED:
        cells = [_cell(method, fault) for fault in FAULTS]
        lines.append(f"| `{method}` | " + " | ".join(cells) + f" | {CLIPPED_BY[method]} |")
    return "\n".join(lines) + "\n"


def _cell(method: str, fault: str) -> str:
    if (method, fault) in SABOTAGED:
        return "spy"
    if fault == "recorded coins" and method in WITHOUT_COINS:
        return "–"
    return f"{fault} test" if (method, fault) in ELSEWHERE else "shared code"


def test_the_table_in_the_docs_is_this_one() -> None:
    assert (ROOT / "docs" / "sabotage.md").read_text(encoding="utf-8") == table()


if __name__ == "__main__":
    (ROOT / "docs" / "sabotage.md").write_text(table(), encoding="utf-8")
