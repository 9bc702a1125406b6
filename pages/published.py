"""Published numbers page: a paper's numbers beside ours, and which of its claims our runs reproduce."""

from __future__ import annotations

import streamlit as st

from dpcl_core import presets
from dpcl_core.figures.picture import span
from dpcl_core.papers import catalog, comparison, questions
from dpcl_core.papers.comparison import METRICS
from dpcl_core.papers.paper import SIZES, Experiment, Paper, Size
from dpcl_core.spec import RunSpec
from pages.parts import fields, figure_card, layout, link, published_cards, state, text
from pages.parts.figure_card import show
from pages.parts.layout import actions, heading
from pages.parts.published_content import Content, Key, content, drawn, opening_form
from pages.parts.state import View
from pages.parts.text import plain

HELP = """Hollow marks: the paper's numbers. Filled marks: ours, from your own finished run of the same preset if there is
one, else from the last recorded run. Thin lines: what guessing, the untrained network and, where recorded, learning all
tasks at once without noise give on our data. The reasons below the table say why the two differ. A claim is found or not
found only if the 95 % interval of its paired difference decides. Two runs that only guess decide nothing, nor do records
of two editions of the code."""
# Below the title of a figure without a table in the paper; by whether the experiment is ours.
_NO_TABLE = {False: "published only as plots: no numbers to draw", True: "our own experiment, not the paper's"}
FORMS = {"small": "small", "bundled": "larger", "full": "as published"}
_FIRST = next(iter(catalog.PAPERS.values()))
CODEC = link.Codec(
    [
        link.Field("paper", "p", "paper", link.Choice(tuple(catalog.PAPERS)), _FIRST.name),
        link.Field(
            "experiment", "x", "experiment",
            link.Choice(tuple(experiment.name for paper in catalog.PAPERS.values() for experiment in paper.experiments)),
            _FIRST.experiments[0].name,
        ),
        link.Field("size", "z", "form", link.Choice(("", *SIZES)), ""),  # empty: the one that an experiment opens on
        link.Field("metric", "q", "quantity", link.Choice(tuple(METRICS)), "AA"),
    ]
)  # fmt: skip


@state.guarded
def page() -> None:
    """The page."""
    state.store()
    view = View("published", lambda _: CODEC)
    shown = catalog.paper(st.session_state.get(view.key("paper"), view["paper"]))  # the heading is drawn before the choice
    place = heading("Published numbers", f"{plain(shown.title)}: do its results come out here?", notices=view.read.notices)
    paper, experiment, size, metric, specs = _choices(view)
    linked_size = "" if size == opening_form(paper, experiment) else size
    key, found = content(paper, experiment, size)
    layout.markdown(experiment.question)
    published_cards.findings(key, found)
    _picture(key, found, metric, comparison.quantity(metric, specs.values()))
    published_cards.numbers(key, metric, found)
    if experiment.has_match_rates:
        published_cards.match_rates(found.runs)
    published_cards.earlier(paper, experiment, found.rows, found.runs, found.provenance())
    text.button()
    published_cards.runs(key, found)
    values = {"paper": paper.name, "experiment": experiment.name, "size": linked_size, "metric": metric}
    view.commit(values, CODEC)
    actions(place, is_shared=True, help_text=HELP, view=view)


def _choices(view: View) -> tuple[Paper, Experiment, Size, str, dict[str, RunSpec]]:
    with st.container(key="published-choices", horizontal=True, vertical_alignment="bottom", gap="medium"):
        titles = {name: paper.title for name, paper in catalog.PAPERS.items()}
        paper = catalog.paper(fields.select(view, "paper", "Paper", titles, width=260))
        titles = {one.name: one.title for one in paper.experiments}
        experiment = catalog.experiment(paper, fields.select(view, "experiment", "Experiment", titles, width=260))
        forms = list(experiment.sizes)
        start = view["size"] if view["size"] in forms else opening_form(paper, experiment)
        presets_of = {size: experiment.preset(size) for size in forms}
        durations = questions.durations([*presets_of.values()], state.store())
        labels = {size: _form(size, durations[name].seconds) for size, name in presets_of.items()}
        size = st.segmented_control(
            "Form", forms, default=start, format_func=labels.__getitem__, key=f"{view.key('size')}-{experiment.name}",
            required=True, help="Small: a part of the data. Larger: more of it, and a network that comes with pip.",
        )  # fmt: skip
        size = start if size is None else size
        specs = presets.variants(experiment.preset(size))
        metrics = experiment.metrics
        looked_at = str(view["metric"]) if view["metric"] in metrics else metrics[0]
        metric = looked_at
        if len(metrics) > 1:
            metric = st.segmented_control(
                "Quantity", metrics, default=looked_at, format_func=lambda name: comparison.quantity(name, specs.values()),
                key=f"{view.key('metric')}-{paper.name}", required=True,
            )  # fmt: skip
    return paper, experiment, size, str(metric or looked_at), specs


def _form(size: Size, seconds: float | None) -> str:
    """What the control says of a form: how long its runs take, as the gallery of questions has it, where that is known."""
    return FORMS[size] if seconds is None else f"{FORMS[size]}: about {span(seconds)}"


def _picture(key: Key, found: Content, metric: str, quantity: str) -> None:
    from dpcl_core.figures import reproduction

    experiment = found.experiment
    frame, references = drawn(key, metric, found)
    n_doubtful = sum(row.is_doubtful for row in found.of_metric(metric))
    note = f"{found.paper.title}, {experiment.place}" if experiment.table else _NO_TABLE[experiment.is_ours]
    show(
        figure_card.kept(reproduction.published_and_ours)(frame, what=quantity, references=references, dark=text.is_dark()),
        found.provenance(),
        key="reproduction", title=f"{experiment.title}: {quantity}", table=frame, linked=True,
        note=note + (f"; not drawn: {n_doubtful} doubtful number" if n_doubtful else ""),
    )  # fmt: skip


if __name__ == "__main__":
    page()
