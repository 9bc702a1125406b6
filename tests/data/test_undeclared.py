"""Labels that nobody declared: candidates for a list learned under DP, and nothing where they are not on it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.data import catalog, outline
from dpcl_core.data.card import Caps
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import Learner
from dpcl_core.scenarios import central
from dpcl_core.scenarios.stream import Examples, Table
from dpcl_core.spec import RunSpec
from tests.data.making import picture, write
from tests.support.asserting import includes, refusal_of
from tests.support.tiers import quick

LABELS = [row % 4 for row in range(120)]


def own(data_dir: Path, extra: Sequence[int], schema: str = "") -> None:
    """Four classes in the test part; training rows of these and of `extra` labels."""
    images = [picture(row) for row in range(160)]
    write(data_dir / "mine", "test", image=images[120:], label=LABELS[:40])
    more = [picture(200 + place % 50) for place in range(len(extra))]
    write(data_dir / "mine", "train", image=images[:120] + more, label=[*LABELS, *extra])
    (data_dir / "mine" / "schema.toml").write_text(schema, encoding="utf-8")


def asked(method: str = "cosine", **changes: object) -> RunSpec:
    return checks.parse({
        "method": method, "data": {"dataset": "own:mine", "backbone": "pixels"},
        "scenario": {"kind": "class-incremental", "tasks": 2}, "labels": "dp-learned",
        "privacy": {"epsilons": [8.0], "delta": 1e-4, "noise": "seeded"},
        "params": {} if method == "cosine" else {"epochs": 1, "sample_rate": 0.5}, "seeds": [0], **changes,
    })  # fmt: skip


def test_tasks_that_do_not_divide_the_labels_name_those_of_the_test_part_alone(data_dir: Path) -> None:
    """A label of private rows alone is not said; one that a schema lists is public, as is that the test part lacks it."""
    uneven = {"scenario": {"kind": "class-incremental", "tasks": 3}}
    sentences = []
    for extra in ([], [7] * 30):
        own(data_dir, extra)
        sentences.append(str(refusal_of(checks.check_run, asked(**uneven))))
    assert sentences[0] == sentences[1]
    includes(sentences[0], "must divide the 4 classes evenly", "classes are the labels of the public test part (0, 1, 2, 3)")
    own(data_dir, [4] * 30, 'classes = ["a", "b", "c", "d", "rare"]')
    with pytest.raises(BadInput, match=r"must divide the 5 classes evenly .*; the test part has no row of rare$"):
        checks.check_run(asked(labels="prior-const", **uneven))


def played(spec: RunSpec) -> tuple[list[dict[str, object]], Learner]:
    """What a run says, without its seconds and how often training says how far it is, and its learner."""
    learners: list[Learner] = []
    maker = methods.maker(spec.method)

    def make(*given: object) -> Learner:
        learners.append(maker(*given))  # type: ignore[arg-type]
        return learners[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "maker", lambda _: make)
        events: list[Event] = list(engine.run(spec))
    assert isinstance(events[-1], CellFinished)
    said = [{key: value for key, value in to_json(one).items() if key != "seconds"} for one in events]
    return [one for one in said if one.get("phase") != "training" or one["done"] == one["total"]], learners[0]


@pytest.mark.parametrize("method", quick(1, ["cosine", "peft-ensemble", "non-cl"]))
def test_a_label_that_many_have_is_released_though_nobody_declared_it(method: str, data_dir: Path) -> None:
    """Of 300 people at epsilon 0.8 a label is named with chance 1; one of 2 people with chance 1e-4 at most."""
    spec = asked(method)
    (cell,) = spec.cells()
    shapes = []
    for extra in ([], [77] * 300, [77] * 300 + [99, 99, 5]):
        own(data_dir, extra)
        said, learner = played(spec)
        found = learner.released(cell)
        shapes.append((found["labels"].shape, [one for one in said if one["event"] == "Progress"]))
        rows = found["sums" if method == "cosine" else "weights"]
        assert (len(rows), rows[4:].any()) == (len(found["labels"]), len(rows) > 4)
    home = int(Table(nothing(), nothing(), (), undeclared=("77",)).homes(2, 0)[0])
    sees = 5 if method != "peft-ensemble" or home == 1 else 4  # a member alone knows its own task
    assert [shape for shape, _ in shapes] == [(4,), (sees,), (sees,)]
    assert shapes[0][1] == shapes[1][1] == shapes[2][1]


def nothing() -> Examples:
    return Examples(np.empty((0, 1)), np.empty(0, dtype=np.int64))


@pytest.mark.parametrize("method", quick(1, ["cosine", "peft-ensemble", "non-cl"]))
@pytest.mark.parametrize("extra", [[77], [5, 77, 2**40], [-1, -(2**40)]])
def test_a_label_that_is_not_released_changes_nothing_at_all(method: str, extra: list[int], data_dir: Path) -> None:
    """Under seeded noise accuracies and all else are the same numbers; none of the chances to name it is above 1e-4."""
    own(data_dir, [])
    before, _ = played(asked(method))
    own(data_dir, extra)
    assert played(asked(method))[0] == before


def test_where_a_schema_names_the_classes_there_are_no_others(data_dir: Path) -> None:
    spec = asked()
    own(data_dir, [77] * 3)
    assert load_dataset(spec.data, undeclared=True).undeclared == ("77",)
    assert (load_dataset(spec.data).undeclared, len(load_dataset(spec.data).train)) == ((), 120)
    own(data_dir, [77] * 3, 'classes = ["0", "1", "2", "3"]')
    assert load_dataset(spec.data, undeclared=True).undeclared == ()
    assert len(load_dataset(spec.data, undeclared=True).train) == 120


def test_a_subset_keeps_undeclared_rows_by_their_own_coins(data_dir: Path) -> None:
    """Each with the chance of a class of mean size, 10 of 40; which other labels there are changes none of them."""
    kept = []
    for extra in ([77] * 50, [77] * 50 + [5]):
        own(data_dir, extra)
        (whole,) = catalog.outlines(catalog.card("own:mine"))
        assert isinstance(whole, outline.Outline)
        thinned = whole.opened().thinned(Caps(10))
        names = [(*whole.classes, *whole.undeclared)[label] for label in thinned.train.labels]
        kept.append({row for row, name in zip(thinned.train.rows.tolist(), names, strict=True) if name == "77"})
    assert kept[0] == kept[1]
    assert 1 <= len(kept[0]) <= 40  # of 50 at 1/4: outside with chance 6e-7


@pytest.mark.parametrize("name", ["class-incremental", "split", "i-blurry", "si-blurry"])
def test_an_undeclared_label_moves_no_other(name: str) -> None:
    """Its task follows from its own name: whatever other labels come or go, every row stays where it was."""
    strays = ("Ada", "Bea", "Cyd", "zoë \ud800")

    def homes(names: tuple[str, ...]) -> dict[str, int]:
        labels = np.array([*LABELS, *range(4, 4 + len(names))])
        everything = Examples(np.arange(len(labels), dtype=np.float64)[:, None], labels)
        tested = Examples(everything.table[:40], np.array(LABELS[:40]))
        table = Table(everything, tested, tuple("abcd"), n_people=160, undeclared=names)
        spec = checks.parse({"scenario": {"kind": name, "tasks": 2}})
        found = {}
        for task in central.open_stream(spec.scenario, table, 3).tasks:
            assert all(label < 4 for label in task.prior)
            called = (*(f"row {row}" for row in range(len(LABELS))), *names)
            found.update({called[int(row)]: task.index for row in task.train.inputs[:, 0]})
        return found

    everyone = homes(strays)
    assert len(everyone) == len(LABELS) + len(strays)
    for place in range(len(strays)):
        fewer = homes((*strays[:place], *strays[place + 1 :]))
        assert fewer == {name: task for name, task in everyone.items() if name != strays[place]}
    many = Table(nothing(), nothing(), (), undeclared=tuple(map(str, range(2000)))).homes(4, 3)
    assert (np.abs(np.bincount(many, minlength=4) - 500) < 110).all()  # 5.6 standard deviations of a fair coin
