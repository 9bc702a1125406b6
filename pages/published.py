"""Published numbers page: a paper's numbers beside ours, and which of its claims our runs reproduce."""

from __future__ import annotations

import streamlit as st

from dpcl_core import presets
from dpcl_core.figures.picture import span
from dpcl_core.papers import catalog, comparison, questions
from dpcl_core.papers.paper import SIZES, Experiment, Paper, Size
from dpcl_core.spec import RunSpec
from pages.parts import fields, figure_card, layout, link, published_cards, state, text
from pages.parts.layout import actions, heading
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
        link.Field("metric", "q", "quantity", link.Choice(tuple(comparison.METRICS)), "AA"),
    ]
)  # fmt: skip


@state.guarded
def page() -> None:
    """The page."""
    state.store()
    view = state.View("published", lambda _: CODEC)
    shown = catalog.paper(st.session_state.get(view.key("paper"), view["paper"]))  # the heading is drawn before the choice
    place = heading("Published numbers", f"{plain(shown.title)}: do its results come out here?", notices=view.read.notices)
    paper, experiment, size, metric, specs = _choices(view)
    linked_size = "" if size == published_cards.opening_form(paper, experiment) else size
    key, found = published_cards.content(paper, experiment, size)
    layout.markdown(experiment.question)
    published_cards.findings(key, found)
    _picture(key, found, metric, comparison.quantity(metric, specs.values()))
    published_cards.draw_numbers(key, metric, found)
    if experiment.has_match_rates:
        published_cards.match_rates(found.form.runs)
    published_cards.earlier(paper, experiment, found.rows, found.form.runs, found.provenance())
    text.button()
    published_cards.runs(key, found)
    values = {"paper": paper.name, "experiment": experiment.name, "size": linked_size, "metric": metric}
    view.commit(values, CODEC)
    actions(place, is_shared=True, help_text=HELP, view=view)


def _choices(view: state.View) -> tuple[Paper, Experiment, Size, str, dict[str, RunSpec]]:
    with st.container(key="published-choices", horizontal=True, vertical_alignment="bottom", gap="medium"):
        titles = {name: paper.title for name, paper in catalog.PAPERS.items()}
        paper = catalog.paper(fields.select(view, "paper", "Paper", titles, width=260))
        titles = {one.name: one.title for one in paper.experiments}
        experiment = catalog.experiment(paper, fields.select(view, "experiment", "Experiment", titles, width=260))
        presets_of: dict[Size, str] = {size: experiment.preset(size) for size in experiment.sizes}
        durations = questions.durations([*presets_of.values()], state.store())
        # A form with how long its runs take, as the gallery of questions has it, where that is known.
        known = {size: durations[name].seconds for size, name in presets_of.items()}
        labels = {size: FORMS[size] + ("" if n is None else f": about {span(n)}") for size, n in known.items()}
        start = None if view["size"] in labels else published_cards.opening_form(paper, experiment)
        help_text = "Small: a part of the data. Larger: more of it, and a network that comes with pip."
        key = f"{view.key('size')}-{experiment.name}"
        size = fields.segmented(view, "size", "Form", labels, start=start, key=key, help=help_text)
        specs = presets.variants(experiment.preset(size))
        metric = experiment.metrics[0]
        if len(experiment.metrics) > 1:
            titles = {name: comparison.quantity(name, specs.values()) for name in experiment.metrics}
            metric = fields.segmented(view, "metric", "Quantity", titles, key=f"{view.key('metric')}-{paper.name}")
    return paper, experiment, size, metric, specs


def _picture(key: published_cards.Key, found: published_cards.Content, metric: str, quantity: str) -> None:
    from dpcl_core.figures import reproduction

    experiment = found.form.experiment
    frame, references = published_cards.figure_numbers(key, metric, found)
    n_doubtful = sum(row.is_doubtful for row in found.of_metric(metric))
    note = f"{found.paper.title}, {experiment.place}" if experiment.table else _NO_TABLE[experiment.is_ours]
    figure_card.show(
        figure_card.kept_builder(reproduction.published_and_ours)(
            frame, what=quantity, references=references, dark=text.is_dark()
        ),
        found.provenance(),
        key="reproduction", title=f"{experiment.title}: {quantity}", table=frame, linked=True,
        note=note + (f"; not drawn: {n_doubtful} doubtful number" if n_doubtful else ""),
    )  # fmt: skip


if __name__ == "__main__":
    page()
