"""Figures of the papers, drawn from our runs: curves over tasks, p values, and final results by setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcl_core.figures.picture import Picture, epsilon_label
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import comparison, questions
from dpcl_core.papers.claims import Form
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Figure, Ordering, Paper

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.figures.curves import Series

_MOST_LINES = 8  # that one figure shows; with more, one budget at a time
_NO_CURVES = "Recorded with the last task alone, so without a curve: "


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its numbers; `note`: which runs it lacks, and why."""

    picture: Picture
    table: pd.DataFrame
    note: str


def shown_runs(form: Form, figure: Figure) -> dict[str, Measured]:
    """The runs of a figure with results, by label."""
    named = [run for _, points in figure.points for _, run in points]
    return {label: form.runs[label] for label in figure.runs or named or tuple(form.specs) if label in form.runs}


def budgets(form: Form, figure: Figure) -> tuple[float, ...]:
    """The budgets of which a figure shows one at a time; empty where it shows all of them together."""
    every = [sorted({model.epsilon for model in run.models}) for run in shown_runs(form, figure).values()]
    is_split = not figure.has_tests and (bool(figure.points) or sum(map(len, every)) > _MOST_LINES)
    return tuple(sorted({epsilon for own in every if len(own) > 1 for epsilon in own})) if is_split else ()


def tests(form: Form, figure: Figure) -> tuple[Ordering, ...]:
    """The comparisons of which a figure of p values shows one at a time: those whose sides have curves."""
    orderings = [judged.ordering for judged in form.judged if judged.ordering.test is not None]
    return tuple(one for one in orderings if comparison.mean_curves(one, form.runs) is not None) if figure.has_tests else ()


def draw(
    paper: Paper, form: Form, figure: Figure, *, epsilon: float | None = None, test: Ordering | None = None,
    dark: bool = False,
) -> Drawn:  # fmt: skip
    """One of the paper's figures from the form's runs. `epsilon`: one of `budgets`; `test`: one of `tests`."""
    if figure.has_tests:
        return _p_values(form, test, dark)
    what = comparison.quantity(figure.metric, form.specs.values())
    if figure.points:
        return _over_settings(paper, form, figure, epsilon, what, dark)
    return _over_tasks(paper, form, figure, epsilon, dark)


def _over_tasks(paper: Paper, form: Form, figure: Figure, epsilon: float | None, dark: bool) -> Drawn:
    import pandas as pd

    from dpcl_core.figures import curves, theme

    lines: list[Series] = []
    printed, missing = dict[str, float](), dict[str, None]()
    titles = questions.question_names(form.specs)
    for label, run in shown_runs(form, figure).items():
        own = sorted({model.epsilon for model in run.models})
        for budget in own:
            if epsilon is not None and budget != epsilon and (len(own) > 1 or math.isfinite(budget)):
                continue
            name = titles[label] if len(own) == 1 or epsilon is not None else f"{titles[label]}, {epsilon_label(budget)}"
            rows = _curve(run, budget, figure.metric)
            if rows.empty:
                missing[titles[label]] = None
                continue
            lines.append(_line(name, rows, len(lines), run, dark))
            value = comparison.printed_value(paper, form.experiment, run.spec, budget, figure.metric)
            if value is not None:
                printed[lines[-1].name] = value
    note = f"{_NO_CURVES}{'; '.join(missing)}." if missing else ""
    if not lines:
        return Drawn(
            theme.nothing(note or "None of these runs has been carried out here yet.", dark, 160), pd.DataFrame(), ""
        )
    n_tasks = max(int(line.rows["after_task"].max()) + 1 for line in lines)
    references = questions.references_beside(form.experiment.preset(form.size), form.specs, form.runs, figure.metric)
    picture = curves.averages_over_tasks(
        lines, n_tasks=n_tasks, of="accuracy" if figure.metric == "AA" else "forgetting",
        score=comparison.quantity("AA", form.specs.values()), printed=printed, references=references, dark=dark,
    )  # fmt: skip
    return Drawn(picture, pd.concat([line.rows.assign(run=line.name) for line in lines]), note)


def _line(name: str, rows: pd.DataFrame, place: int, run: Measured, dark: bool) -> Series:
    from dpcl_core.figures import curves, theme

    standing = methods.standing(run.spec) if math.isfinite(run.models[0].epsilon) else "bound"
    line = curves.Series(name, rows, theme.colour_of_series(place, dark), run.spec.labels, standing)
    return line._replace(name=line.label)


def _curve(run: Measured, epsilon: float, metric: str) -> pd.DataFrame:
    """Columns seed, after_task (from 0), value (in [0, 1]); empty where the record has the last task alone."""
    import pandas as pd

    rows = [rest for of, *rest in run.curve_rows(metric) if of == epsilon]
    return pd.DataFrame(rows, columns=["seed", "after_task", "value"])


def _p_values(form: Form, test: Ordering | None, dark: bool) -> Drawn:
    from dpcl_core.figures import statistics, theme

    curves = None if test is None else comparison.mean_curves(test, form.runs)
    if test is None or curves is None:
        picture = theme.nothing("No run with a curve belongs to the paper's tests.", dark, 160)
        return Drawn(picture, statistics.p_values([0, 0], [0, 0]), "")
    table = statistics.p_values(*curves)
    titles = questions.question_names(form.specs)
    names = titles[test.first.run], titles[test.second.run]
    return Drawn(statistics.p_value_curve(table, names=names, dark=dark), table, statistics.CAVEAT)


def _over_settings(paper: Paper, form: Form, figure: Figure, epsilon: float | None, what: str, dark: bool) -> Drawn:
    import pandas as pd

    from dpcl_core.figures import reproduction

    rows = [
        (name, setting, *_result(paper, form, run, epsilon, figure.metric))
        for name, points in figure.points
        for setting, run in points
        if run in form.specs
    ]
    columns = ["name", "setting", "ours", "low", "high", "published"]
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[2:], "float64"))
    return Drawn(reproduction.over_settings(table, what=what, dark=dark), table, _without(form, figure))


def _result(
    paper: Paper, form: Form, label: str, epsilon: float | None, metric: str
) -> tuple[float | None, float | None, float | None, float | None]:
    """Our mean, both ends of its interval, and the printed number, in percent."""
    from dpcl_core.figures.statistics import interval

    run, spec = form.runs.get(label), form.specs[label]
    budget = spec.privacy.epsilons[0] if epsilon is None or len(spec.privacy.epsilons) == 1 else epsilon
    values = [] if run is None else [100 * value for value in run.by_seed(budget, metric).values()]
    printed = comparison.printed_value(paper, form.experiment, spec, budget, metric)
    if not values:
        return None, None, None, printed
    known = interval(values)
    ends = (known.mean if known.low is None else known.low, known.mean if known.high is None else known.high)
    return known.mean, *ends, printed


def _without(form: Form, figure: Figure) -> str:
    wanted: Sequence[str] = [run for _, points in figure.points for _, run in points]
    names: Mapping[str, str] = questions.question_names(form.specs)
    lacking = [names[run] for run in wanted if run in form.specs and run not in form.runs]
    return f"Not recorded: {'; '.join(lacking)}." if lacking else ""
