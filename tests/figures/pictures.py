"""One picture or more from every builder of figures, from the tables of the builders' own tests."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from dpcl_core.events import References
from dpcl_core.figures import answer, curves, matching, reproduction, statistics, stream, theme, tokens, tradeoff
from dpcl_core.figures.picture import Picture
from dpcl_core.lessons.text import Scale
from dpcl_core.runs import frames
from tests.figures import test_builders, test_reproduction, test_statistics
from tests.figures.making import accuracy
from tests.support.signatures import TOLD

REFERENCES = References(0.1, 0.4, n_tested=450.0, ceiling=0.9)
PUBLISHED = test_reproduction._frame(
    ("A", 1.0, 70.0, 1.0, 60.0, 2.0, True), ("A", math.inf, 80.0, math.nan, 84.0, math.nan, True),
    ("B", 1.0, 50.0, 3.0, math.nan, math.nan, True, True),
)  # fmt: skip
SPENT = pd.concat([
    test_builders._spent(of, [1.0] * 3).assign(people=people)
    for of, people in (([1.0, 1.5, 1.9], "in every task"), ([1.0] * 3, "in one task"))
])
SETTINGS = pd.DataFrame([
    ("A", "one", 60.0, 55.0, 65.0, 62.0), ("A", "two", 70.0, 70.0, 70.0, math.nan),
    ("B", "one", math.nan, math.nan, math.nan, 50.0),
], columns=["name", "setting", "ours", "low", "high", "published"])  # fmt: skip
RISING = {0.5: [0.3, 0.31, 0.33], 2.0: [0.5, 0.55, 0.52], 8.0: [0.8, 0.81, 0.83]}
ANSWER = tradeoff.needed(RISING, 0.6)
RUNS = [
    curves.Series("A", accuracy(epsilons=(1.0,)), "#0072b2", standing="claimed"),
    curves.Series("B", accuracy(epsilons=(8.0,)), "#d55e00", "data"),
]
LISTED = [run._replace(name=f"{run.name}, a method with a long name", rows=curves.mean_so_far(run.rows)) for run in RUNS]
BUDGETS = [
    curves.Series("A", accuracy(), "#0072b2", standing="claimed"),
    curves.Series("B", accuracy(epsilons=(1.0, math.inf)), "#d55e00", "data"),
]
CLASSES = {"now": np.array([[0.9, 0.2, 0.5], [0.7, 0.4, 0.5]]), "before": np.array([[0.8, 0.3, 0.4], [0.7, 0.4, 0.5]])}
BETTER = test_statistics._finals(rule=lambda *at: 0.5 + 0.01 * at[1])
SEVERAL = test_statistics.table(a={1.0: [0.5, 0.6, 0.7]}, b={1.0: [0.6, 0.5, 0.72], math.inf: [0.9, 0.8, 0.85]})
STRIPS = {"a": [np.arange(64.0)] * 2, "b": [np.arange(64.0), -np.arange(64.0)]}
SHARE = Scale(title="share", is_share=True)
CURVES = statistics.p_values(test_statistics.RISING, test_statistics.FALLING)
BARS = pd.DataFrame({"name": ["none", "all"], "value": [0.5, 0.9], "half": [0.1, 0.02]})
ALPHAS = {"all tokens": {0.0: 0.4, 0.5: 0.7, 1.0: 0.6}, "names": {0.0: 0.5, 0.5: 0.8, 1.0: 0.9}}
LINES = pd.DataFrame({"series": [*"aabb"], "x": [1.0, 100.0] * 2, "y": [0.0, 1.0, 0.2, 0.4], "half": [0.1] * 4})
THIRTY = [f"class {k}" for k in range(30)]
LONG_LIFE = accuracy(n_tasks=20, epsilons=(8.0,), rule=lambda *at: 0.9 - 0.01 * at[2])


Draw = Callable[[bool], Picture]  # by whether it is dark


def _of(build: Callable[..., Picture], *given: object, word: str = "", **more: object) -> tuple[str, Draw]:
    """A builder's name, with a word where it has several pictures, and its picture."""
    name = f"{build.__module__.rpartition('.')[2]}.{build.__name__}"
    return f"{name}, {word}" if word else name, lambda dark: build(*given, dark=dark, **more)


PICTURES: dict[str, Draw] = dict(
    [
        _of(curves.diagnostics, frames.anchors([TOLD]), chosen=10),
        _of(curves.signal_and_noise, frames.statistics([TOLD])),
        _of(answer.picture, SEVERAL, standings={"b": "claimed"}, audited={("b", 1.0): 2.3456}, references=REFERENCES),
        _of(tokens.ledger, SPENT),
        _of(tokens.noise_against_tasks, test_builders.NOISE),
        _of(tokens.spending, test_builders.SPENT),
        _of(tokens.race, test_builders.RACED),
        _of(stream.strips, STRIPS, ["0", "1"], finding="B differs."),
        _of(curves.class_bars, CLASSES, ("cat", "dog", "ant"), colours=["#0072b2", "#d55e00"]),
        _of(curves.accuracy_over_tasks, accuracy(), n_tasks=4, references=REFERENCES),
        _of(curves.accuracy_over_tasks, accuracy(seeds=(0, 1)), n_tasks=6, standing="replay", word="two seeds"),
        _of(curves.compared_over_tasks, RUNS, n_tasks=4),
        _of(curves.compared_over_tasks, RUNS, n_tasks=4, of="forgetting", word="forgetting"),
        _of(curves.forgetting_over_tasks, accuracy(), n_tasks=4),
        _of(statistics.paired_difference, BETTER, test_statistics._finals(), names=("A", "B")),
        _of(curves.accuracy_matrix, accuracy(), epsilon=8.0, n_tasks=6),
        _of(curves.accuracy_matrix, LONG_LIFE, epsilon=8.0, n_tasks=20, word="many"),
        _of(curves.forgetting_grid, accuracy(), epsilon=8.0, n_tasks=4),
        _of(matching.confusion, test_builders.ENTRIES, ("World", "Sports"), ("World", "Sports")),
        _of(matching.matcher_bars, test_builders.AGREEMENT[test_builders.AGREEMENT["noise"].isna()]),
        _of(matching.agreement_by_noise, test_builders.AGREEMENT, TOLD.demanded, chosen=0.1),
        _of(statistics.members_and_ensemble, test_statistics.MEMBERS),
        _of(tradeoff.figure, {"A": ANSWER}, [tradeoff.sentence(ANSWER)], colours=["#0072b2"]),
        _of(statistics.p_value_curve, CURVES, names=("A", "B")),
        _of(reproduction.over_settings, SETTINGS, what="accuracy"),
        _of(curves.averages_over_tasks, LISTED, n_tasks=4, printed={LISTED[0].name: 71.0}, word="listed"),
        _of(reproduction.published_and_ours, PUBLISHED, what="accuracy"),
        _of(reproduction.published_and_ours, PUBLISHED, what="accuracy", references=REFERENCES, word="references"),
        _of(stream.accuracy_by_scale, test_builders.FOUND, chosen=1.4, chance=0.1),
        _of(matching.on_map, test_builders.ENTRIES, test_builders.GROUPS, space="signature"),
        _of(matching.margins, test_builders.ENTRIES),
        _of(stream.stream, test_builders.COUNTS, homes=test_builders.HOMES, classes=test_builders.CLASSES),
        _of(stream.stream, np.full((20, 30), 5), homes=[(0, 1, 2, 3)] * 20, classes=THIRTY, word="many"),
        _of(tokens.true_costs, test_builders.NOMINAL, test_builders.TRUE, chosen=10.0),
        _of(tokens.detection, test_builders.detection(0.497)),
        _of(tokens.by_alpha, ALPHAS, chosen=0.5),
        _of(tokens.retained, frames.retained(test_builders.SAID)),
        _of(tokens.exposure, frames.leaks(test_builders.SAID)),
        _of(tradeoff.trade_off, BUDGETS, references=REFERENCES),
        _of(reproduction.trials, test_reproduction.a_table(0.5, math.nan, 0.4, 0.75), n_trials=20, n_validation=100),
        _of(stream.bars, BARS, Scale(title="accuracy", is_share=True), "A bar."),
        _of(stream.curves, LINES, Scale(title="ε", is_log=True), SHARE, "Two lines.", chosen=10.0),
        _of(stream.token_weights, np.array([0.4, 0.6, 1.0]), test_builders.PULLS, chosen=0.8),
        _of(stream.secret_nats, test_builders.NATS, most=10.0, public=2.3),
        _of(stream.code_exposure, [1, 16], test_builders.EXPOSURES, controls=1.4, most=13.3),
    ]
)
PICTURES["theme.nothing"] = lambda dark: theme.nothing("The first point appears when a model has been tested.", dark, 200)
