"""The answer to a question: its finding in a sentence, from the final scores of all its runs.

One run is fixed in advance as the one the others are compared with: the preset's first. Differences are paired by seed, with
intervals that hold together with 95 % (Bonferroni), because naming the best of many afterwards would flatter it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from dpcl_core.events import References
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted, epsilon_label, epsilon_phrase, minus, run_label
from dpcl_core.figures.statistics import MIN_SEEDS, PRINTED, interval, points_text
from dpcl_core.later import pd
from dpcl_core.privacy.numerics import root, student_quantile
from dpcl_core.privacy.statement import Standing, at_least

_MOST_LISTED = 3  # runs whose forgetting a sentence lists one by one


class Amount(NamedTuple):
    """What a picture shows beside final scores: its name, and its unit ("%", "points", "bits", "ε")."""

    name: str
    unit: str

    @property
    def scale(self) -> float:
        return 100.0 if self.unit in ("%", "points") else 1.0


def focus(table: pd.DataFrame) -> float:
    """The budget compared at: of those that the first row's run has, that of the most runs; of several, the finite one
    nearest to 1. No noise only where no two runs share a finite one. Columns: run, epsilon."""
    own = table.loc[table["run"] == table["run"].iloc[0], "epsilon"]
    counts = table[table["epsilon"].isin(own)].groupby("epsilon")["run"].nunique()
    shared = [epsilon for epsilon in counts.index if math.isfinite(epsilon) and counts[epsilon] > 1]
    distance = {e: abs(math.log(e)) if math.isfinite(e) else math.inf for e in counts.index}
    return float(min(shared or counts.index, key=lambda e: (-counts[e], distance[e])))


def finding(
    table: pd.DataFrame, *, score: str = "accuracy", standings: Mapping[str, Standing] | None = None,
    forgetting: pd.DataFrame | None = None,
) -> str:  # fmt: skip
    """The finding: the first run's score against the others' at one budget, or of a single run against its largest budget.

    Columns: run, epsilon, seed, value (in [0, 1]); the first row's run is the one compared with. `forgetting`: the table of
    `forgotten`, where that is a part of the question.
    """
    lost = "" if forgetting is None else forgotten(forgetting, standings=standings)
    return f"{_compared(table, score, standings or {})} {lost}".rstrip()


def _compared(table: pd.DataFrame, score: str, standings: Mapping[str, Standing]) -> str:
    if table.empty:
        return "No run has finished yet."
    first, epsilon = str(table["run"].iloc[0]), focus(table)
    others = [str(name) for name in table["run"].unique() if name != first]
    scores = {name: _scores(table, name, epsilon) for name in (first, *others)}
    kind = standings.get(first, "bound")
    start = f"{capital(epsilon_phrase(epsilon, kind))}, {_named(first, kind)} ends at {_level(scores[first])} {score}"
    if not others:
        budgets = sorted(map(float, table["epsilon"].unique()))
        if budgets == [epsilon]:
            return f"{start} ({counted(len(scores[first]), 'seed')})."
        return f"{start}; {_against_budget(table, first, scores[first], epsilon, budgets, kind)}."
    if not (have := {name: values for name, values in scores.items() if name != first and values}):
        return f"{start}; no other run has this budget."
    return f"{start}; {_against_runs(scores[first], have, standings)}."


def forgotten(table: pd.DataFrame, *, standings: Mapping[str, Standing] | None = None) -> str:
    """What the runs have forgotten, at the budget that `finding` compares at; of a single run at another one, too.

    Of many runs those that forget least and most are named beside the first.
    Columns as in `finding`; value: mean loss of the earlier tasks since the best they were, in [0, 1]. Empty if unknown.
    """
    if table.empty:
        return ""
    first, epsilon, names = str(table["run"].iloc[0]), focus(table), [str(name) for name in table["run"].unique()]
    kind = (standings or {}).get(first, "bound")
    if len(names) > 1:
        known = {name: values for name in names if (values := _scores(table, name, epsilon))}
        said = {name: f"{_named(name)} {_lost(values)}" for name, values in known.items()}
        lost = ", ".join(said.values())
        if len(known) > _MOST_LISTED:
            others = sorted((name for name in known if name != first), key=lambda name: fmean(known[name].values()))
            lost = f"{said[first]}; of {len(others)} other runs least {said[others[0]]}, most {said[others[-1]]}"
        return f"Forgotten of the earlier tasks, since each one's best, {epsilon_phrase(epsilon, kind)}: {lost}."
    budgets = sorted(map(float, table["epsilon"].unique()))
    shown = dict.fromkeys([epsilon, budgets[-1] if budgets[-1] != epsilon else budgets[0]])
    lost = ", ".join(f"{_lost(_scores(table, first, one))} {epsilon_phrase(one, kind)}" for one in shown)
    return f"Forgotten of the earlier tasks, since each one's best: {lost}."


def picture(
    table: pd.DataFrame, *, score: str = "accuracy", standings: Mapping[str, Standing] | None = None,
    forgetting: pd.DataFrame | None = None, audited: Mapping[tuple[str, float], float] | None = None,
    references: References | None = None, amount: Amount | None = None, dark: bool = False,
) -> Picture:  # fmt: skip
    """All runs in one picture: a row for each run and budget, its seeds as faint marks, the mean with its 95 % interval.

    Columns and `forgetting` as in `finding`. A mark is hollow where the budget is only claimed or the replay's alone
    (`standings`).
    `audited`: by run and budget, the epsilon that an attack has shown to be exceeded. `amount`: what the values are where
    they are no final scores.
    """
    if table.empty:
        return theme.nothing("The picture appears when the first run has finished.", dark, 200)
    of = amount or Amount(f"final {score}", "%")
    kinds, bounds = standings or {}, audited or {}
    rows, levels = list(table.groupby(["run", "epsilon"], sort=False)), theme.levels(references)
    heights = [-float(place) for place in range(len(rows))]
    top = _height(max(0, len(levels) - 1))
    x = {**theme.percent_axis(title=of.name), "tickangle": 0}
    if of.unit != "%":
        ends = (
            min(0.0, 1.1 * of.scale * float(table["value"].min())),
            max(1.0, 1.15 * of.scale * float(table["value"].max())),
        )
        x = {"title": f"{of.name}, {of.unit}", "range": ends, "zeroline": True, "tickangle": 0}
    y = {"tickvals": heights, "showticklabels": False, "zeroline": False, "range": [heights[-1] - 0.6, top + 0.1]}
    chart = theme.Chart(dark, round(94 + 40 * (len(rows) + top - _height(0))), x, y, margin=(12, 16, 16, 44))
    above = {"xref": "paper", "xanchor": "left", "yanchor": "bottom", "align": "left"}
    for ((run, epsilon), group), height in zip(rows, heights, strict=True):
        values, kind = (of.scale * group["value"]).tolist(), kinds.get(run, "bound")
        colour = theme.colour_of_epsilon(epsilon, dark)
        shown = f", audited: at least {at_least(bounds[run, epsilon])}" if (run, epsilon) in bounds else ""
        name, known = f"{run}, {epsilon_label(epsilon, kind)}{shown}", interval(values)
        chart.text(name, 0, height + 0.2, size=12, **above)  # above its marks: beside them a narrow screen has no room
        seeds = {"color": chart.ink.soft, "size": 6, "symbol": "line-ns-open"}
        chart.marks(values, [height] * len(values), None, seeds, cliponaxis=False)
        symbol = "circle" if kind == "bound" or math.isinf(epsilon) else "diamond-open"
        marker = {"color": colour, "size": 10, "symbol": symbol, "line": {"width": 2, "color": colour}}
        bar = theme.error_bars([known.half_width], colour, 2)
        chart.marks([known.mean], [height], name, marker, f"{name}: %{{x:.1f}} {of.unit}", error_x=bar, cliponaxis=False)
    pieces = [(1.2, 0.6), *((height + 0.15, height - 0.4) for height in heights)]
    for number, (name, level) in enumerate(levels.items()):  # one above the other: side by side they may collide
        chart.level_name(f"{name} {100 * level:.0f} %", 100 * level, _height(number))
        chart.upright_level(100 * level, pieces, cliponaxis=False)
    if amount is not None:
        return chart.picture(_amounts(table, amount, kinds))
    return chart.picture(finding(table, score=score, standings=standings, forgetting=forgetting))


def _amounts(table: pd.DataFrame, amount: Amount, standings: Mapping[str, Standing]) -> str:
    """Every run at the budget that `finding` compares at: mean and interval; of a single run all its budgets."""
    is_alone = table["run"].nunique() == 1
    rows = table if is_alone else table[table["epsilon"] == focus(table)]
    said = []
    for (run, epsilon), group in rows.groupby(["run", "epsilon"], sort=False):
        known = interval((amount.scale * group["value"]).tolist())
        ends = (
            "" if known.low is None or known.high is None or amount.unit == "ε" else f" [{known.low:.1f}, {known.high:.1f}]"
        )
        phrase = epsilon_phrase(float(epsilon), standings.get(run, "bound"))
        said.append(f"{phrase if is_alone else _named(str(run))} {minus(f'{known.mean:.1f} {amount.unit}{ends}')}")
    where = "" if is_alone else f", {epsilon_phrase(focus(table), standings.get(str(table['run'].iloc[0]), 'bound'))}"
    return f"{capital(amount.name)}{where}: {'; '.join(said)}."


def _height(place: int) -> float:
    """The height of the name of a level above all rows, in rows; `place` 0 is the lowest."""
    return 1.4 + 0.5 * place


def _against_budget(
    table: pd.DataFrame, name: str, values: Mapping[int, float], epsilon: float, budgets: list[float], kind: Standing
) -> str:
    other = budgets[-1] if budgets[-1] != epsilon else budgets[0]
    more = _scores(table, name, other)
    text = f"{epsilon_phrase(other, kind)} at {_level(more)}"
    if (difference := _difference(more, values, 1)) is None:
        return f"{text}; {_too_few(len(more.keys() & values.keys()))} to tell them apart"
    mean, half, n = difference
    if abs(mean) <= half:
        return f"{text}; {_too_few(n)} to tell them apart"
    return f"{text}, a difference of {_points(mean, half)} ({counted(n, 'seed')}, paired)"


def _against_runs(
    values: Mapping[int, float], others: Mapping[str, Mapping[int, float]], standings: Mapping[str, Standing]
) -> str:
    """How many of the others are better, worse, or cannot be told apart; the most different one by name."""
    differences = {name: _difference(theirs, values, len(others)) for name, theirs in others.items()}
    clear = {name: one for name, one in differences.items() if one is not None and abs(one[0]) > one[1]}
    seeds = min((one[2] for one in differences.values() if one is not None), default=0)
    parts = []
    for word, sign in (("better", 1), ("worse", -1)):
        if group := {name: one for name, one in clear.items() if one[0] * sign > 0}:
            most = max(group, key=lambda name: abs(group[name][0]))
            named = f"{_named(most, standings.get(most, 'bound'))} by {_points(*group[most][:2])}"
            few = named if len(group) == 1 else f"{len(group)} runs, above all {named}"
            parts.append(f"{word}: {few}")
    if unclear := [name for name in others if name not in clear]:
        only = _named(unclear[0], standings.get(unclear[0], "bound"))
        which = only if len(unclear) == 1 else f"the {len(unclear)} others"
        parts.append(f"{_too_few(seeds or len(values))} to tell it from {which}")
    # A page that compares two of them alone has a narrower interval, and may find what is unclear here.
    together = f" (intervals that hold for all {len(others)} comparisons at once)" if len(others) > 1 else ""
    return "; ".join(parts) + together


def _too_few(n_seeds: int) -> str:
    return f"{counted(n_seeds, 'seed')} {'is' if n_seeds == 1 else 'are'} too few"


def _named(name: str, standing: Standing = "bound") -> str:
    """A run's title within a sentence: in quotation marks, because titles have commas of their own."""
    return run_label(f"“{name}”", standing)


def _scores(table: pd.DataFrame, name: str, epsilon: float) -> dict[int, float]:
    rows = table[(table["run"] == name) & (table["epsilon"] == epsilon)]
    return {int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)}


def _difference(first: Mapping[int, float], second: Mapping[int, float], n_compared: int) -> tuple[float, float, int] | None:
    """Mean of first - second in points, the half width of its interval, and the shared seeds; None with fewer than three.

    The interval is never narrower than the sentence can print (`statistics`).
    """
    points = [100 * (first[seed] - second[seed]) for seed in sorted(first.keys() & second.keys())]
    if len(points) < MIN_SEEDS:
        return None
    factor = student_quantile(len(points) - 1, 1 - 0.05 / (2 * n_compared))
    return fmean(points), max(PRINTED, factor * stdev(points) / math.sqrt(len(points))), len(points)


def _points(mean: float, half: float) -> str:
    return f"{abs(mean):.1f} points [{points_text(abs(mean) - half)}, {abs(mean) + half:.1f}]"


def _lost(values: Mapping[int, float]) -> str:
    return minus("{:.1f} points{}".format(*_mean_and_range(values, -math.inf, math.inf)))


def _level(values: Mapping[int, float]) -> str:
    return "{:.1f} %{}".format(*_mean_and_range(values, 0.0, 100.0))


def _mean_and_range(values: Mapping[int, float], least: float, most: float) -> tuple[float, str]:
    """The mean in percent, and its interval in brackets, within what is possible; empty with too few seeds."""
    known = interval([100 * value for value in values.values()])
    if known.low is None or known.high is None:
        return known.mean, ""
    return known.mean, f" [{max(least, known.low):.1f}, {min(most, known.high):.1f}]"


# Where a run ended between chance, the untrained network and the ceiling: in words, and whether it can be told from chance.
#
# The rule: a budget is told from chance if both parts hold, each with probability `ALPHA` at most for a run that only
# guesses.
#
# * Over test examples: the mean score over seeds is more than n examples give by luck. For independent examples with scores
#   in
#   [0, 1], each weighted by 1/n at most, whose mean has expectation p or less, P(mean >= q) <= exp(-n KL(q || p)) for q > p
#   (Hoeffding 1963, Theorem 1; unequal weights enter by convexity). Seeds share the test examples and do not multiply them:
#   an
#   example counts once, with its mean score over seeds.
# * Over seeds, from three on: Student's one-sided t on their final scores. It counts the luck of noise, order and batches,
#   which can make a model right or wrong on all examples of a class together. With fewer seeds that luck is not counted, and
#   the sentence says how few there are.
#
# Entity F1 is no mean over examples: only the second part applies to it, and nothing is said of fewer than three seeds.


ALPHA = 0.01
CEILING = "all at once without noise"
_SAME = 5e-4  # scores that print alike


def lucky(chance: float, n_tested: float) -> float:
    """The mean score that guessing exceeds on n test examples with probability `ALPHA` at most; 1 if n is too small."""
    wanted = math.log(1 / ALPHA) / n_tested
    if chance <= 0:
        return 0.0  # whoever is never right by luck is told from chance by one right answer
    if chance >= 1 or _divergence(1.0, chance) <= wanted:
        return 1.0
    return root(lambda mean: _divergence(mean, chance) - wanted, chance, 1.0)


def is_told_from_chance(values: Sequence[float], references: References) -> bool | None:
    """Whether the final scores of one budget, one per seed, are better than chance by the rule; None: cannot be judged."""
    n, mean = len(values), fmean(values)
    if references.n_tested is None and n < MIN_SEEDS:
        return None
    if references.n_tested is not None and mean <= lucky(references.chance, references.n_tested):
        return False
    if n < MIN_SEEDS:
        return True
    margin = student_quantile(n - 1, 1 - ALPHA) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean - margin > references.chance


def sentence(
    epsilon: float, values: Sequence[float], references: References, *, score: str = "accuracy", standing: Standing = "bound"
) -> str:
    """One sentence: where the run ended at this budget, between which scores. `values`: final scores, one per seed."""
    mean, seeds = fmean(values), "" if len(values) >= MIN_SEEDS else f" ({counted(len(values), 'seed')})"
    at = capital(epsilon_phrase(epsilon, standing))
    return f"{at} the run ends at {_percent(mean)} {score}{seeds}: {levels(references)}{_share(mean, references)}."


def levels(references: References) -> str:
    """What guessing, the untrained network and learning all at once give, as far as they are known, for a sentence."""
    chance, untrained, ceiling = references.chance, references.untrained, references.ceiling
    known = [f"guessing gives {_percent(chance)}"]
    if untrained is not None and abs(untrained - chance) < _SAME:
        known = [f"guessing, which is all that the untrained network can do, gives {_percent(chance)}"]
    elif untrained is not None:
        known.append(f"the untrained network {_percent(untrained)}")
    if ceiling is not None:
        known.append(f"{CEILING} {_percent(ceiling)}")
    return " and ".join(known) if len(known) < 3 else f"{known[0]}, {known[1]} and {known[2]}"


def warning(
    finals: Mapping[float, Sequence[float]], references: References, *, score: str = "accuracy", standing: Standing = "bound"
) -> str:
    """The budgets that cannot be told from chance, with the rule; empty if there are none. `finals`: scores by budget."""
    lost = {epsilon: v for epsilon, v in finals.items() if is_told_from_chance(v, references) is False}
    if not lost:
        return ""
    budgets = " and ".join(
        f"{epsilon_phrase(epsilon, standing)} ({_percent(fmean(values))})" for epsilon, values in sorted(lost.items())
    )
    n = max(map(len, lost.values()))
    tested = "" if references.n_tested is None else f"{references.n_tested:,.0f} test examples and "
    return (
        f"It may be guessing {budgets}. Guessing gives {_percent(references.chance)} {score}: by {tested}"
        f"{counted(n, 'seed')}, a guesser is mistaken for more at most once in {1 / ALPHA:.0f} times."
    )


def _share(mean: float, references: References) -> str:
    """How much of the way to the ceiling, or how it compares with the untrained network, as the end of the sentence."""
    untrained, ceiling = references.untrained, references.ceiling
    floor = max(references.chance, untrained or 0.0)
    if untrained is not None and untrained - references.chance >= _SAME and mean < untrained - _SAME:
        return ", so it ends below the untrained network"
    if ceiling is None or ceiling <= floor + _SAME:
        return ""
    if mean >= ceiling - _SAME:
        return ", so it reaches the ceiling"
    return f", so it covers {max(0.0, (mean - floor) / (ceiling - floor)):.0%} of the way to the ceiling".replace("%", " %")


def _percent(value: float) -> str:
    return f"{round(100 * value, 6):.1f} %"  # 65.25 and 65.25000000000001 print alike


def _divergence(q: float, p: float) -> float:
    """Kullback-Leibler divergence of coins with these probabilities of heads, in nats."""
    return sum(here * math.log(here / there) for here, there in ((q, p), (1 - q, 1 - p)) if here > 0)
