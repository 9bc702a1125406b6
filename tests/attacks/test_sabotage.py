"""The sabotage table: every method that says "proved" against every fault, and what turns red.

What is drawn is held against what is written down, through the learner itself: any fault in how much noise is drawn, how
often, for which charge and from where turns `trouble` into words. Faults in clipping and divisors have tests of their own,
named here by what they are written in. A method of the catalogue without a row turns this red.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcl_core.methods import catalog
from dpcl_core.privacy import noise
from dpcl_core.privacy.ledger import Ledger
from tests.attacks import releases, small_plays, test_charges, test_one_run_audits, test_sensitivity, test_shared_sabotage
from tests.attacks.mutants import Changed, in_learners, noise_of_all_tasks, scaled_noise
from tests.attacks.units import IN_ROUNDS, IN_STEPS, PROVED, UNITS

ROOT = Path(__file__).resolve().parents[2]


def shared_over_seeds(patch: pytest.MonkeyPatch) -> None:
    """What a seed's release number k gets, all other seeds' get: the play knows one seed, whose twin is played before it."""
    told: dict[Any, list[Any]] = {}

    def repeated(source: Any, cell: Any, purpose: str) -> Any:
        kept, places = told.setdefault((cell.epsilon, purpose), []), iter(range(10**9))

        def again(add: Any, clean: Any, std: float, step: int) -> Any:
            if (place := next(places)) == len(kept):
                kept.append(add(np.zeros_like(clean), std))
            return clean + kept[place]

        return Changed(source, again)

    in_learners(patch, repeated)


def replays_clean(patch: pytest.MonkeyPatch) -> None:
    """What is read again of earlier tasks goes out as it is."""
    clear = lambda add, clean, std, step: clean  # noqa: E731

    def made(source: Any, cell: Any, purpose: str) -> Any:
        return Changed(source, clear) if purpose.startswith(("replay", "reference")) else source

    in_learners(patch, made)


def left_out(patch: pytest.MonkeyPatch) -> None:
    """Every second release goes out as it is, as references or replays might."""
    count = iter(range(10**9))
    clear = lambda add, clean, std, step: add(clean, std) if next(count) % 2 else clean  # noqa: E731
    in_learners(patch, lambda source, cell, purpose: Changed(source, clear))


class Forgetful(Ledger):
    """Forgets the first thing that it is told."""

    n_told = 0

    def spend(self, *args: Any, **named: Any) -> None:
        self.n_told += 1
        if self.n_told > 1:
            Ledger.spend(self, *args, **named)


class OfOwnTasks(Ledger):
    """Charges nobody for what is read of earlier tasks."""

    def spend(self, event: Any, *, task: int, people_of: Any = None, **named: Any) -> None:
        if people_of is None or task in people_of:
            Ledger.spend(self, event, task=task, people_of=None if people_of is None else (task,), **named)


def batches_seeded(patch: pytest.MonkeyPatch) -> None:
    """`Trainer._batches` takes the run's seed in a release, too."""
    made = lambda self, seed, work, epsilon=None: noise.Batches(self._params.sample_rate, seed)  # noqa: E731
    patch.setattr("dpcl_core.methods.features.trainer.Trainer._batches", made)


def recorded_coins(patch: pytest.MonkeyPatch) -> None:
    honest = noise.Batches.__init__
    patch.setattr(noise.Batches, "__init__", lambda self, rate, seed, *args, **named: honest(self, rate, 7, *args, **named))


FAULTS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "noise halved": lambda patch: scaled_noise(patch, "dpcl_core.methods", 0.5),
    "noise shared over tasks": lambda patch: noise_of_all_tasks(patch, "dpcl_core.methods", is_by_step=False),
    "noise shared over seeds": shared_over_seeds,
    "noise left out": left_out,
    "replays clean": replays_clean,
    "uncharged": lambda patch: patch.setattr(small_plays, "Ledger", Forgetful),
    "replays uncharged": lambda patch: patch.setattr(small_plays, "Ledger", OfOwnTasks),
    "recorded noise": lambda patch: in_learners(patch, lambda source, *of: noise.SeededNoise(*of)),
    "recorded coins": recorded_coins,
    "seeded `_batches`": batches_seeded,
}
READING_AGAIN = ("dp-agem", "lm-er", "lm-gem")  # with charges for people of earlier tasks
ONLY: Mapping[str, tuple[str, ...]] = {  # faults that only these methods can have
    "recorded coins": (*IN_STEPS, *IN_ROUNDS),
    "seeded `_batches`": ("peft-ensemble", "naive", "non-cl"),
    "replays clean": ("dp-agem", "lm-gem"),  # lm-er replays in the same sum, under the same noise
    "replays uncharged": READING_AGAIN,
}
ELSEWHERE = {  # what the spy cannot see: the scale of noisy copies
    ("independent-laplace", "noise halved"): "tests/privacy/test_local.py::"
    "test_noise_is_laplace_of_the_scale_that_two_records_can_differ_by",
}
_GROUP = "tests/privacy/test_group.py"
_COINS, _RESTS = "tests/scenarios/test_federated.py", "tests/scenarios/test_catalog.py"
_AUDITS, _DOORS = "tests/attacks/test_learner_audits.py", "tests/test_neighbours.py"
_OWN, _TEXTS = "tests/backbones/test_own_networks.py", "tests/methods/features/test_text_adapters.py"
# Of methods on data, streams and networks that were opened to them later.
OPENED = {
    "too little noise, clients on photographs and tables": f"{_AUDITS}::test_a_fault_is_called_an_error",
    "too little noise, Lifelong DP on features of texts": f"{_AUDITS}::test_a_fault_is_called_an_error",
    "too little noise, a language model on a blurred stream": f"{_AUDITS}::test_a_fault_is_called_an_error",
    "too little noise, a language model on one class against the rest": f"{_AUDITS}::test_a_fault_is_called_an_error",
    "one more of a class brings another of the rest": f"{_COINS}::test_one_row_less_moves_no_other",
    "an undeclared label's number says whose rest it is": f"{_RESTS}::"
    "test_an_undeclared_label_is_of_the_rest_whatever_its_number",
    "more words of a sentence count than are accounted": f"{_GROUP}::"
    "test_a_sentence_that_no_client_holds_is_the_unit_and_moves_a_sum_by_its_words_that_count",
    "the answers of other tasks compete": f"{_RESTS}::test_only_the_two_answers_of_the_task_compete",
    "too little noise or no clipping, adapters on texts": f"{_AUDITS}::test_a_fault_is_called_an_error",
    "each layer of an adapter is clipped alone": f"{_TEXTS}::test_clipping_one_layer_after_the_other_is_found",
    "the batch's mean in place of each example's gradient": f"{_OWN}::"
    "test_gradients_of_the_batch_s_mean_in_place_of_each_example_s_are_found",
    "a layer of one's own network mixes examples": f"{_OWN}::test_a_layer_that_mixes_examples_is_refused_by_name",
    "what is kept of a text follows the texts beside it": f"{_TEXTS}::"
    "test_what_is_kept_of_a_text_depends_on_that_text_alone",
    "something outside the releases follows private rows": f"{_DOORS}::"
    "test_through_every_new_door_the_terminal_and_all_files_are_the_same",
}
SABOTAGED = [
    (method, fault)
    for method in PROVED
    for fault in FAULTS
    if method in ONLY.get(fault, PROVED) and (method, fault) not in ELSEWHERE
]


def found(method: str, fault: Callable[[pytest.MonkeyPatch], None] | None) -> str:
    """What does not fit together in a play of the method under this fault."""
    asked = small_plays.spec(method)
    catalog.maker(method)  # loads what a fault is put into
    with releases.watching() as seen, pytest.MonkeyPatch.context() as patch:
        small_plays.without_gradients(patch)
        if fault is not None:
            fault(patch)
        if fault is shared_over_seeds:
            small_plays.played(replace(asked, seeds=(1,)))
            seen.forget()
        _, ledger = small_plays.played(asked)
    if method in READING_AGAIN and not any(entry.task == 1 and 0 in entry.people_of for entry in ledger.entries):
        return "nobody is charged for what is read again: the first task's people, while the second is learned"
    return releases.trouble(seen, ledger, *UNITS[method])


def test_every_method_that_says_proved_has_a_row() -> None:
    assert set(UNITS) == set(small_plays.PARAMS) == set(PROVED)
    assert set(test_sensitivity.FAULTS["clipping missing"]) == set(PROVED)


@pytest.mark.parametrize("method", PROVED)
def test_what_a_learner_draws_is_what_its_ledger_says(method: str) -> None:
    assert found(method, None) == ""


@pytest.mark.parametrize(("method", "fault"), SABOTAGED)
def test_sabotage_is_found(method: str, fault: str) -> None:
    assert found(method, FAULTS[fault]) != ""


@pytest.mark.parametrize("named", sorted({*ELSEWHERE.values(), *OPENED.values()}))
def test_tests_that_the_table_names_are_there(named: str) -> None:
    file, _, name = named.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def table() -> str:
    """The table as text, made of what is tested above."""
    columns = [*FAULTS, *test_charges.HAVING, *test_sensitivity.FAULTS]
    lines = [
        "# What turns red when a method is sabotaged",
        "",
        "Made by `python -m tests.attacks.test_sabotage`; a test holds it against the tests themselves.",
        "",
        "* **spy**: `test_sabotage_is_found` plays the method's learner with the fault in it, and holds each noise that is "
        "drawn against its ledger.",
        "* **charges**: `test_charges` finds in neighbours' plays which releases read a person, at which rate and with "
        "which noise, and holds them against what the ledger charges that person. The fault is in each charge of the "
        "method in turn, or in each of its samplers. Methods are played with other settings, too: adapters, learned lists, "
        "noisy copies, releases in rounds, another division of the budget.",
        "* **neighbours**: `test_sabotage_of_clipping_and_divisors_is_found` plays the learner with the fault in it on two "
        "neighbours with the same noise and coins, and holds what one person moves against its ledger.",
        *(f"* **{fault} test**: `{test}`." for (_, fault), test in ELSEWHERE.items()),
        "* –: the method has nothing of the kind: no coins, no charge for a replay, no batch, no steps on what was divided.",
        "",
        "Noise left out: every second release goes out as it is. Uncharged: the first thing that a run costs is not written "
        "down; any charge left out: each entry in turn. Others charged: an entry names other people than it read. "
        "Realised divisor: steps, rates or divisors from how many examples there are.",
        "",
        "| method | " + " | ".join(columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for method in PROVED:
        lines.append(f"| `{method}` | " + " | ".join(_cell(method, fault) for fault in columns) + " |")
    lines += [
        "",
        "## Noise that is remembered over tasks",
        "",
        "`test_shared_sabotage` plays the cosine learner with remembered noise, also broken off and resumed. It holds all "
        "that leaves against an accountant of its own: independent Gaussians, and how far one person moves each.",
        "",
        *test_shared_sabotage.table(),
        "",
        "## Audits in one training, over tasks",
        "",
        "`test_one_run_audits` plays models that go on from task to task, with the same people in each. The first task is "
        "as it should be, so only scores from every task's release can tell.",
        "",
        *test_one_run_audits.table(),
        "",
        "## Lists that are given to learners",
        "",
        "`test_shared_sabotage` holds what a client's leaving changes of what is counted, and what a run with learned lists "
        "has in its ledger, against what was asked for.",
        "",
        *test_shared_sabotage.list_table(),
        "",
        "## Methods on data, streams and networks that were opened to them later",
        "",
        "| fault | found by |",
        "| --- | --- |",
        *(f"| {fault} | `{named.partition('::')[2]}` |" for fault, named in OPENED.items()),
    ]
    return "\n".join(lines) + "\n"


def _cell(method: str, fault: str) -> str:
    if (method, fault) in SABOTAGED:
        return "spy"
    if method in test_charges.HAVING.get(fault, ()):
        return "charges"
    if method in test_sensitivity.FAULTS.get(fault, ()):
        return "neighbours"
    return f"{fault} test" if (method, fault) in ELSEWHERE else "–"


def test_the_table_in_the_docs_is_this_one() -> None:
    assert (ROOT / "docs" / "sabotage.md").read_text(encoding="utf-8") == table()


if __name__ == "__main__":
    (ROOT / "docs" / "sabotage.md").write_text(table(), encoding="utf-8")
