"""Comparing on Runs: several runs on one axis, differences paired by seed, and settings side by side."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pandas as pd
import streamlit as st

from dpcl_core.figures import curves, statistics, theme, tradeoff
from dpcl_core.figures.curves import Series
from dpcl_core.figures.picture import Provenance, epsilon_phrase, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import measured
from dpcl_core.privacy.statement import Standing
from dpcl_core.results import Result
from dpcl_core.runs.run import Run
from pages.parts import comparison, fields, figure_card, layout, link, pecl_claim, run_panel, state, text, train_form
from pages.parts.comparison import LETTERS
from pages.parts.text import WORDS, capital, plain

_GROUPS = 6  # groups with a button
HELP = WORDS["compare"]["help"].format(search=WORDS["fields"]["search"])
FIELDS: list[link.Field[Any]] = [
    link.Field("runs", "r", "runs", link.Many(link.Text(12), comparison.MOST), ()),
    link.Field("focus", "f", "budget", link.Maybe(link.BUDGET), None),
    link.Field("first", "a", "first of the pair", link.Maybe(link.Choice(LETTERS)), None),
    link.Field("second", "b", "second of the pair", link.Maybe(link.Choice(LETTERS)), None),
    comparison.FIELD,
]


def page(codec: link.Codec) -> None:
    """The view. `codec`: of the links of the page, which have `FIELDS`."""
    view = state.View("runs", codec)
    stored = _listed() | state.store().listed((*view["runs"], *st.session_state.get(view.key("runs"), ())))
    runs = {run_id: run for run_id, run in stored.items() if comparison.has_result(run)}
    start, missing = _initial_runs(view, runs, stored)
    place = layout.heading("Runs", "Which is better, and is it real?", notices=[*view.read.notices, *missing])
    if not runs:
        with layout.card("empty", WORDS["compare"]["nothing_yet"]):
            st.page_link("pages/train.py", label="Start a run")
        example = state.example()
        run_panel.statement(example, example.spec.privacy.usual_epsilon, is_over=True)
        _trade_off({"Example": example})
        layout.actions(place, help_text=HELP)
        return
    st.session_state.setdefault(view.key("runs"), start)

    def named(run_id: str) -> str:
        run = runs[run_id]
        return f"{run.name} · {run.id[:4]} · {time.strftime('%d %b %H:%M', time.localtime(run.created))}"

    picked = st.multiselect(
        "Runs", _offered(view, runs), format_func=named, key=view.key("runs"), max_selections=comparison.MOST,
        placeholder="Pick up to six finished runs",
    )  # fmt: skip
    if len(picked) == 1:
        st.info(WORDS["compare"]["alone"])
        run = runs[picked[0]]
        layout.arrow("train", f"Open the settings of {plain(run.name)} in Train", train_form.parameters_of(run.spec))
    draw(view, picked)
    if not picked:
        st.info("Pick at least one run above. Two runs on the same data and stream can be compared seed by seed.")
    view.commit()
    layout.actions(place, is_shared=True, help_text=HELP, view=view)


def _initial_runs(view: state.View, runs: dict[str, Run], stored: dict[str, Run]) -> tuple[list[str], list[str]]:
    """The initial runs, and a notice for each run of the link that cannot be compared, or that the store does not have.

    Those of the link, else two that are compared best, else the newest. A ceiling is trained to be read beside its
    run, so only a link or a visitor opens one here.
    """
    linked = view["runs"]
    missing = [
        comparison.no_result(stored[one]) if one in stored else f"The link names run {one}, which this store does not have."
        for one in linked if one not in runs
    ]  # fmt: skip
    start = list(dict.fromkeys(run_id for run_id in linked if run_id in runs))
    if not start and not linked:
        offered = {run_id: run.spec for run_id, run in runs.items() if not measured.is_one(run.spec)}
        pair = comparison.comparable(offered)
        start = list(pair) if pair is not None else list(offered or runs)[:1]
    return start, missing


def _offered(view: state.View, runs: dict[str, Run]) -> list[str]:
    """The runs to pick from, by a search, which adds to `runs` what it finds; a button for each group puts its newest runs
    into the picker."""
    if len(runs) <= comparison.MOST:
        return list(runs)
    key, put = view.key("runs"), st.session_state.__setitem__
    with st.container(key="compare-search", horizontal=True, vertical_alignment="bottom", gap="small"):
        text = fields.search(view.key("search"))
        for name, ids in list(fields.groups(list(runs.values())).items())[:_GROUPS]:
            st.button(plain(f"{name} · {len(ids)}"), key=f"{key}-{name}", on_click=put, args=(key, ids[: comparison.MOST]))
    if not text.strip():
        return list(runs)
    kept = {run_id: runs[run_id] for run_id in cast("list[str]", st.session_state[key])}
    found = {run_id: run for run_id, run in _listed(text).items() if comparison.has_result(run)}
    runs |= found
    return list(found | kept)


def _listed(text: str = "") -> dict[str, Run]:
    """The finished runs that a search finds, as many as a page lists, in the list's order."""
    store = state.store()
    return {run.id: run for run in store.list_runs(fields.LISTED, states=("finished",), only=fields.wanted(text, store))}


def draw(view: state.View, run_ids: Sequence[str]) -> None:
    """Draws the comparison of finished runs, if there are some; the link gets them and the choices made in it."""
    view.values |= {field.name: field.default for field in FIELDS} | {"runs": tuple(run_ids)}
    if not run_ids:
        return
    results = {letter: state.run_result(state.store().get(run_id)) for letter, run_id in zip(LETTERS, run_ids, strict=False)}
    specs = {letter: result.spec for letter, result in results.items()}
    layers = {letter: f" ({plain(layer.title)})" for letter, spec in specs.items() if (layer := methods.layer(spec))}
    names = (f"**{letter}** {plain(result.name)}{layers.get(letter, '')}" for letter, result in results.items())
    st.caption(" · ".join(names))
    if apart := comparison.what_differs(specs):
        st.caption(plain(apart))
    if warning := comparison.different_tests(specs):
        st.warning(plain(warning))
    if unequal := comparison.unequal_promises(_standings(results)):
        st.warning(unequal)
    shared = sorted(set.intersection(*(set(spec.privacy.epsilons) for spec in specs.values())))
    if (chosen := _budget(view, shared)) is not None:
        pecl_claim.side_by_side([(letter, r.guarantees[chosen]) for letter, r in results.items() if chosen in r.guarantees])
        frames = {letter: result.accuracy[result.accuracy["epsilon"] == chosen] for letter, result in results.items()}
        runs = _runs(results, frames)
        words = {"claimed": ", or ε only claimed", "replay": ", or ε of the replay alone"}
        kinds = dict.fromkeys(_standings(results).values()) if math.isfinite(chosen) else ()
        dashed = "".join(words.get(kind, "") for kind in kinds)
        picture = figure_card.built(
            curves.compared_over_tasks, runs if math.isfinite(chosen) else [run._replace(standing="bound") for run in runs],
            score=_score(results), n_tasks=max(result.n_tasks for result in results.values()),
            references=comparison.shared_references([result.references for result in results.values()]),
        )  # fmt: skip
        figure_card.show(
            picture, _provenance(results), key="compared", title=f"{capital(_score(results))} on the tasks seen so far",
            note=f"ε = {epsilon_text(chosen)}{_intervals(results, 'band')}; dashes: label list{dashed}",
            table=_table(frames, results), linked=True,
        )  # fmt: skip
    else:
        st.info("These runs share no ε, so their curves cannot be compared. Their trade-offs below can.")
    views = {
        "Paired difference": lambda: _pair(view, results),
        "What privacy costs": lambda: _trade_off(results),
        comparison.TITLE: lambda: _needed(view, results),
        "Settings": lambda: _settings(results),
    }
    # A link holds a wanted accuracy only while its tab is open.
    layout.views(views, view.key("views"), comparison.TITLE if view["wanted"] is not None else None)


def _budget(view: state.View, budgets: list[float]) -> float | None:
    if not budgets:
        return None
    linked = view["focus"]
    default = linked if linked in budgets else 1.0 if 1.0 in budgets else budgets[len(budgets) // 2]
    if len(budgets) == 1:
        st.caption(f"The runs share one budget: ε = {epsilon_text(budgets[0])}.")
        return view.keep("focus", budgets[0])
    return fields.segmented(view, "focus", "Budget ε of the curves", {e: epsilon_text(e) for e in budgets}, start=default)


def _colours(results: dict[str, Result]) -> list[str]:
    """A colour of its own for each run."""
    return theme.colours_of_runs([result.spec.method for result in results.values()], text.is_dark())


def _runs(results: dict[str, Result], frames: dict[str, pd.DataFrame]) -> list[Series]:
    """The runs as figures draw them, each with its rows."""
    pairs = zip(results.items(), _colours(results), strict=True)
    return [Series(letter, frames[letter], colour, of.spec.labels, of.standing) for (letter, of), colour in pairs]


def _standings(results: dict[str, Result]) -> dict[str, Standing]:
    """The standing of each run's ε, by letter."""
    return {letter: result.standing for letter, result in results.items()}


def _score(results: dict[str, Result]) -> str:
    """The display name of the accuracy measure of these runs."""
    return " or ".join(dict.fromkeys(result.score for result in results.values()))


def _table(frames: dict[str, pd.DataFrame], results: dict[str, Result]) -> pd.DataFrame:
    """The drawn numbers for download; the value column is named after the measure if all runs share one."""
    table = pd.concat([frame.assign(run=letter) for letter, frame in frames.items()])
    name = _score(results)
    return table if " or " in name else table.rename(columns={"accuracy": name.lower().replace(" ", "_")})


def _provenance(results: dict[str, Result]) -> Provenance:
    """The provenance of several runs: shared values once, different values joined."""
    sources = [result.provenance for result in results.values()]
    first = sources[0]
    return Provenance(
        dataset=" | ".join(dict.fromkeys(source.dataset for source in sources)),
        n_train=first.n_train if len({source.n_train for source in sources}) == 1 else None,
        method=" | ".join(dict.fromkeys(source.method for source in sources)),
        labels=first.labels if len({source.labels for source in sources}) == 1 else "label lists differ",
        epsilons=tuple(sorted({epsilon for source in sources for epsilon in source.epsilons})),
        delta=first.delta if len({source.delta for source in sources}) == 1 else None,
        n_seeds=tuple(dict.fromkeys(n for source in sources for n in source.n_seeds)),
        runs=tuple(run for source in sources for run in source.runs),
        is_example=any(source.is_example for source in sources),
        is_seeded=any(source.is_seeded for source in sources),
        standings=tuple(_standings(results).values()),
        spent=" | ".join(f"{letter}: {spent}" for letter, result in results.items() if (spent := result.provenance.spent)),
    )


def _intervals(results: dict[str, Result], drawn_as: str) -> str:
    """What the intervals are drawn as, where a run has enough seeds for one."""
    has_any = any(len(result.spec.seeds) >= statistics.MIN_SEEDS for result in results.values())
    return f"; {drawn_as}: 95 % interval over seeds" if has_any else ""


def _trade_off(results: dict[str, Result]) -> None:
    frames = {letter: result.accuracy for letter, result in results.items()}
    picture = figure_card.built(
        tradeoff.trade_off, _runs(results, frames), score=_score(results),
        references=comparison.shared_references([result.references for result in results.values()]),
    )  # fmt: skip
    figure_card.show(
        picture, _provenance(results), key="compared-cost",
        title=f"Final {_score(results)} and forgetting against the budget",
        note=f"dots: trained models{_intervals(results, 'bars')}", table=_table(frames, results),
    )  # fmt: skip


def _needed(view: state.View, results: dict[str, Result]) -> None:
    """Draws the ε that a wanted accuracy needs, for each run."""
    if warning := comparison.different_tests({letter: result.spec for letter, result in results.items()}):
        st.warning(plain(warning))
    bounded = {letter: result for letter, result in results.items() if result.standing != "none"}
    if unbounded := [letter for letter in results if letter not in bounded]:
        st.info(f"{' and '.join(unbounded)}: {comparison.NO_BOUND}")
    answered = {letter: result for letter, result in bounded.items() if any(map(math.isfinite, result.finals))}
    if noiseless := [letter for letter in bounded if letter not in answered]:
        st.info(f"{' and '.join(noiseless)}: {comparison.NO_BUDGET}")
    if not answered:
        return
    runs = {}
    for letter, result in answered.items():  # with what the ledger accounts for, where ε are bounds
        accounted = {epsilon: given.epsilon for epsilon, given in result.guarantees.items()}
        is_bound = result.standing == "bound"
        runs[letter] = comparison.Budgets(result.finals, result.standing, accounted=accounted if is_bound else {})
    colours = [colour for letter, colour in zip(results, _colours(results), strict=True) if letter in answered]
    comparison.panel(view, runs, colours=colours, provenance=_provenance(answered), score=_score(answered))


def _pair(view: state.View, results: dict[str, Result]) -> None:
    """Draws the paired difference of two runs, or the reason why they are not comparable."""
    if len(results) < 2:
        st.caption("Pick a second run above.")
        return
    left, right = st.columns(2)
    letters = {letter: letter for letter in results}
    with left:
        first = fields.select(view, "first", "First", letters)
    with right:
        second = fields.select(view, "second", "Second", {letter: letter for letter in letters if letter != first})
    pair = {first: results[first], second: results[second]}
    if refusal := comparison.different_tests({letter: result.spec for letter, result in pair.items()}):
        st.warning(f"{plain(refusal)} No difference is drawn.")
        return
    means = (curves.mean_so_far(result.accuracy) for result in pair.values())  # of which the last task's are compared
    one, other = (of[of["after_task"] == of["after_task"].max()][["epsilon", "seed", "value"]] for of in means)
    n_tested = min((n for result in pair.values() if (n := result.references.n_tested) is not None), default=None)
    picture = figure_card.built(statistics.paired_difference, one, other, names=(first, second), n_tested=n_tested)
    table = one.merge(other, on=["epsilon", "seed"], suffixes=(f"_{first}", f"_{second}"))
    anew = comparison.with_enough_seeds({letter: result.spec for letter, result in pair.items()})
    figure_card.show(
        picture, replace(_provenance(pair), n_seeds=(table["seed"].nunique(),)), key="difference",
        title=f"{first} minus {second}, final {_score(pair)}", table=table,
        note=f"ticks: single seeds; {'dot: mean' if anew else 'dot and bar: mean and 95 % interval'}",
    )  # fmt: skip
    for letter, spec in anew.items():
        label = f"Open the settings of {letter} with {len(spec.seeds)} seeds in Train"
        layout.arrow("train", label, train_form.parameters_of(spec))
    verdicts = statistics.paired(one, other, (first, second), n_tested=n_tested)
    for epsilon, verdict in sorted(verdicts.items()) if len(verdicts) > 1 and not anew else ():
        st.markdown(f"- {capital(epsilon_phrase(epsilon))}: {verdict.sentence}")


def _settings(results: dict[str, Result]) -> None:
    rows, n_equal = comparison.differences({letter: result.spec for letter, result in results.items()})
    if rows:
        st.dataframe(rows, hide_index=True, key="settings-diff", alt=f"{len(rows)} settings that differ between the runs")
    else:
        st.markdown("The runs have the same settings.")
    st.caption(f"{n_equal} other settings are the same in all runs.")
