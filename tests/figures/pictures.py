"""One picture or more from every builder of figures, from the tables of the builders' own tests."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from dpcl_core.events import References
from dpcl_core.figures import answer, curves, matching, reproduction, statistics, stream, theme, tokens, tradeoff
from dpcl_core.figures.picture import Picture
from dpcl_core.figures.statistics import p_values
from dpcl_core.lessons.text import Scale
from dpcl_core.runs import frames
from tests.figures import test_answer, test_reproduction, test_statistics, test_stream, test_tokens, test_watched
from tests.figures.making import accuracy
from tests.support.signatures import TOLD

ENTRIES, GROUPS, AGREEMENT = frames.entries([TOLD]), frames.prototypes([TOLD]), frames.agreement([TOLD])
REFERENCES = References(0.1, 0.4, n_tested=450.0, ceiling=0.9)
PUBLISHED = test_reproduction._frame(
    ("A", 1.0, 70.0, 1.0, 60.0, 2.0, True), ("A", math.inf, 80.0, math.nan, 84.0, math.nan, True),
    ("B", 1.0, 50.0, 3.0, math.nan, math.nan, True, True),
)  # fmt: skip
SCORES = pd.DataFrame(
    [(4.0, seed, name, value) for seed in (0, 1) for name, value in (("AA", 0.6 + 0.1 * seed), ("BWT", -0.05))],
    columns=["epsilon", "seed", "metric", "value"],
)
SPENT = pd.concat(
    [test_tokens._spent([1.0, 1.5, 1.9], [1.0] * 3), test_tokens._spent([1.0] * 3, [1.0] * 3).assign(people="in one task")]
)
MEMBERS = pd.DataFrame(
    [(1.0, 0, 60.0, 50.0), (1.0, 1, 70.0, 54.0), (math.inf, 0, 90.0, 40.0), (math.inf, 1, 92.0, 44.0)],
    columns=["epsilon", "seed", "member", "ensemble"],
)
SETTINGS = pd.DataFrame(
    [
        ("A", "one", 60.0, 55.0, 65.0, 62.0),
        ("A", "two", 70.0, 70.0, 70.0, math.nan),
        ("B", "one", math.nan, math.nan, math.nan, 50.0),
    ],
    columns=["name", "setting", "ours", "low", "high", "published"],
)
RISING = {0.5: [0.3, 0.31, 0.33], 2.0: [0.5, 0.55, 0.52], 8.0: [0.8, 0.81, 0.83]}
ANSWER = tradeoff.needed(RISING, 0.6)
EXPOSURES = {"none": [[1.0, 2.0, 3.0], [8.0, 9.0, 13.0]], "hinge": [[1.0, 1.5, 2.0], [1.0, 2.0, 3.0]]}


def _trade_off(dark: bool) -> Picture:
    runs = [curves.Series("A", accuracy(), "#0072b2", standing="claimed")]
    runs.append(curves.Series("B", accuracy(epsilons=(1.0, math.inf)), "#d55e00", "data"))
    return tradeoff.trade_off(runs, references=REFERENCES, dark=dark)


RUNS = [
    curves.Series("A", accuracy(epsilons=(1.0,)), "#0072b2", standing="claimed"),
    curves.Series("B", accuracy(epsilons=(8.0,)), "#d55e00", "data"),
]
# By the name of the builder, and a word where it has several.
PICTURES: dict[str, Callable[[bool], Picture]] = {
    "curves.diagnostics": lambda dark: curves.diagnostics(frames.anchors([TOLD]), chosen=10, dark=dark),
    "curves.signal_and_noise": lambda dark: curves.signal_and_noise(frames.statistics([TOLD]), dark=dark),
    "answer.picture": lambda dark: answer.picture(
        test_answer.table(a={1.0: [0.5, 0.6, 0.7]}, b={1.0: [0.6, 0.5, 0.72], math.inf: [0.9, 0.8, 0.85]}),
        standings={"b": "claimed"},
        audited={("b", 1.0): 2.3456},
        references=REFERENCES,
        dark=dark,
    ),
    "tokens.ledger": lambda dark: tokens.ledger(SPENT, dark=dark),
    "tokens.noise_against_tasks": lambda dark: tokens.noise_against_tasks(test_watched.NOISE, dark=dark),
    "tokens.spending": lambda dark: tokens.spending(test_watched.SPENT, dark=dark),
    "tokens.race": lambda dark: tokens.race(test_watched.RACED, dark=dark),
    "stream.strips": lambda dark: stream.strips(
        {"a": [np.arange(64.0)] * 2, "b": [np.arange(64.0), -np.arange(64.0)]}, ["0", "1"], finding="B differs.", dark=dark
    ),
    "curves.class_bars": lambda dark: curves.class_bars(
        {"now": np.array([[0.9, 0.2, 0.5], [0.7, 0.4, 0.5]]), "before": np.array([[0.8, 0.3, 0.4], [0.7, 0.4, 0.5]])},
        ("cat", "dog", "ant"),
        colours=["#0072b2", "#d55e00"],
        dark=dark,
    ),
    "curves.accuracy_over_tasks": lambda dark: curves.accuracy_over_tasks(
        accuracy(), n_tasks=4, references=REFERENCES, dark=dark
    ),
    "curves.accuracy_over_tasks, two seeds": lambda dark: curves.accuracy_over_tasks(
        accuracy(seeds=(0, 1)), n_tasks=6, standing="replay", dark=dark
    ),
    "curves.compared_over_tasks": lambda dark: curves.compared_over_tasks(RUNS, n_tasks=4, dark=dark),
    "curves.compared_over_tasks, forgetting": lambda dark: curves.compared_over_tasks(
        RUNS, n_tasks=4, of="forgetting", dark=dark
    ),
    "curves.forgetting_over_tasks": lambda dark: curves.forgetting_over_tasks(accuracy(), n_tasks=4, dark=dark),
    "statistics.paired_difference": lambda dark: statistics.paired_difference(
        test_statistics._finals(rule=lambda *at: 0.5 + 0.01 * at[1]), test_statistics._finals(), names=("A", "B"), dark=dark
    ),
    "curves.accuracy_matrix": lambda dark: curves.accuracy_matrix(accuracy(), epsilon=8.0, n_tasks=6, dark=dark),
    "curves.accuracy_matrix, many": lambda dark: curves.accuracy_matrix(
        accuracy(n_tasks=20, epsilons=(8.0,), rule=lambda *at: 0.9 - 0.01 * at[2]), epsilon=8.0, n_tasks=20, dark=dark
    ),
    "curves.forgetting_grid": lambda dark: curves.forgetting_grid(accuracy(), epsilon=8.0, n_tasks=4, dark=dark),
    "matching.confusion": lambda dark: matching.confusion(ENTRIES, ("World", "Sports"), ("World", "Sports"), dark=dark),
    "matching.matcher_bars": lambda dark: matching.matcher_bars(AGREEMENT[AGREEMENT["noise"].isna()], dark=dark),
    "matching.agreement_by_noise": lambda dark: matching.agreement_by_noise(AGREEMENT, TOLD.demanded, chosen=0.1, dark=dark),
    "statistics.members_and_ensemble": lambda dark: statistics.members_and_ensemble(MEMBERS, dark=dark),
    "tradeoff.figure": lambda dark: tradeoff.figure(
        {"A": ANSWER}, [tradeoff.sentence(ANSWER)], colours=["#0072b2"], dark=dark
    ),
    "statistics.p_value_curve": lambda dark: statistics.p_value_curve(
        p_values([0.9, 0.85, 0.7, 0.72, 0.6], [0.88, 0.8, 0.71, 0.6, 0.52]), names=("A", "B"), dark=dark
    ),
    "reproduction.over_settings": lambda dark: reproduction.over_settings(SETTINGS, what="accuracy", dark=dark),
    "curves.averages_over_tasks, listed": lambda dark: curves.averages_over_tasks(
        [run._replace(name=f"{run.name}, a method with a long name", rows=curves.mean_so_far(run.rows)) for run in RUNS],
        n_tasks=4,
        printed={"A, a method with a long name": 71.0},
        dark=dark,
    ),
    "reproduction.published_and_ours": lambda dark: reproduction.published_and_ours(PUBLISHED, what="accuracy", dark=dark),
    "reproduction.published_and_ours, references": lambda dark: reproduction.published_and_ours(
        PUBLISHED, what="accuracy", references=REFERENCES, dark=dark
    ),
    "stream.accuracy_by_scale": lambda dark: stream.accuracy_by_scale(test_stream.FOUND, chosen=1.4, chance=0.1, dark=dark),
    "matching.on_map": lambda dark: matching.on_map(ENTRIES, GROUPS, space="signature", dark=dark),
    "matching.margins": lambda dark: matching.margins(ENTRIES, dark=dark),
    "stream.stream": lambda dark: stream.stream(
        test_stream.COUNTS, homes=test_stream.HOMES, classes=test_stream.CLASSES, dark=dark
    ),
    "stream.stream, many": lambda dark: stream.stream(
        np.full((20, 30), 5), homes=[(0, 1, 2, 3)] * 20, classes=[f"class {k}" for k in range(30)], dark=dark
    ),
    "theme.nothing": lambda dark: theme.nothing("The first point appears when a model has been tested.", dark, 200),
    "tokens.true_costs": lambda dark: tokens.true_costs(test_tokens.NOMINAL, test_tokens.TRUE, chosen=10.0, dark=dark),
    "tokens.detection": lambda dark: tokens.detection(test_tokens.detection(0.497), dark=dark),
    "tokens.by_alpha": lambda dark: tokens.by_alpha(
        {"all tokens": {0.0: 0.4, 0.5: 0.7, 1.0: 0.6}, "names": {0.0: 0.5, 0.5: 0.8, 1.0: 0.9}}, chosen=0.5, dark=dark
    ),
    "tokens.retained": lambda dark: tokens.retained(frames.retained(test_tokens.SAID), dark=dark),
    "tokens.exposure": lambda dark: tokens.exposure(frames.leaks(test_tokens.SAID), dark=dark),
    "tradeoff.trade_off": _trade_off,
    "reproduction.trials": lambda dark: reproduction.trials(
        test_reproduction.a_table(0.5, math.nan, 0.4, 0.75), n_trials=20, n_validation=100, dark=dark
    ),
    "stream.bars": lambda dark: stream.bars(
        pd.DataFrame({"name": ["none", "all"], "value": [0.5, 0.9], "half": [0.1, 0.02]}),
        Scale(title="accuracy", is_share=True),
        "A bar.",
        dark=dark,
    ),
    "stream.curves": lambda dark: stream.curves(
        pd.DataFrame({"series": ["a", "a", "b", "b"], "x": [1.0, 100.0] * 2, "y": [0.0, 1.0, 0.2, 0.4], "half": [0.1] * 4}),
        Scale(title="ε", is_log=True),
        Scale(title="share", is_share=True),
        "Two lines.",
        chosen=10.0,
        dark=dark,
    ),
    "stream.token_weights": lambda dark: stream.token_weights(
        np.array([0.4, 0.6, 1.0]), {"none": np.ones(3), "turned": np.array([1.0, 1.0, -3.0])}, chosen=0.8, dark=dark
    ),
    "stream.secret_nats": lambda dark: stream.secret_nats(
        {"kept": np.array([2.3, 1.0, 0.5]), "turned": np.array([2.3, 40.0, 143.0])}, most=10.0, public=2.3, dark=dark
    ),
    "stream.code_exposure": lambda dark: stream.code_exposure([1, 16], EXPOSURES, controls=1.4, most=13.3, dark=dark),
}
