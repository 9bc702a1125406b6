"""Form fields for the list of labels: its origin, the share of ε for a learned list, and the public names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import streamlit as st

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.privacy import group
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import PrivacySpec
from pages.parts.claims import privacy_bar
from pages.parts.shell.setting_names import LABELS, TITLES
from pages.parts.shell.view import View


def setting(view: View, card: MethodCard, *, reads_lists: bool) -> str:
    """Draws the choice of the list's origin, among those the method allows; returns it.

    `reads_lists`: whether the stream reads each task's list from its examples.
    """
    labels, linked = [name for name in LABELS if name in card.labels], str(view["labels"])
    chosen = st.radio(
        TITLES["labels"], labels, labels.index(linked) if linked in labels else 0,
        format_func=lambda name: LABELS[name][0], captions=[LABELS[name][1] for name in labels],
        key=f"{view.key('labels')}-{len(labels)}",  # a new key for other choices, else the browser keeps the old one
        help="Where the classifier's list of labels comes from.",
    )  # fmt: skip
    if linked not in labels:
        st.caption(f"{card.title} does not go with “{LABELS[linked][0]}”.")
    if chosen == "data" or (chosen == "prior" and reads_lists):
        privacy_bar.not_dp("Labels from the data: no bound holds, whatever ε is. For contrast only.")
    return str(chosen)


def rarest(raw: Mapping[str, object]) -> str:
    """A sentence: how many people a label needs for an even chance of being listed, at the smallest and the largest ε.

    Rows where a person has several: their budget is a row's. Empty where no list is learned.
    """
    try:
        spec = checks.parse(raw)
        facts = datasets.facts_of(spec.data)
        n_tasks = scenarios.check(spec.scenario, facts.n_classes, facts.sources)
    except BadInput:
        return ""  # reported where the form is checked
    finite = sorted(epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon))
    if spec.labels != "dp-learned" or not finite:
        return ""
    rows = datasets.card(spec.data.dataset).rows_per_unit
    people = "people" if rows == 1 else "rows"
    ends = {finite[0], finite[-1]}
    needed = {epsilon: _people_needed(spec.privacy, epsilon, rows, n_tasks, facts.n_train) for epsilon in sorted(ends)}
    counts = [
        f"{f'more {people} than there are' if n is None else f'{n} {people}'} (ε = {epsilon_text(epsilon)})"
        for epsilon, n in needed.items()
    ]
    return f"A label is as likely listed as not when it has {' or '.join(counts)} in a task."


@st.cache_data(max_entries=200, show_spinner=False)
def _people_needed(privacy: PrivacySpec, epsilon: float, rows: int, n_tasks: int, at_most: int) -> int | None:
    from dpcl_core.privacy.labels import people_to_be_named  # loads the accountant, which takes a second

    of_row = group.for_a_row(privacy, rows)
    return people_to_be_named(of_row, of_row.epsilons[privacy.epsilons.index(epsilon)], n_tasks, at_most)


def share(view: View, chosen: str) -> float:
    """Draws and returns the share of ε for a learned list."""
    start = cast(float, view["label_share"])
    if chosen != "dp-learned":
        return start
    return st.number_input(
        TITLES["privacy.label_share"], 0.001, 0.999, start, 0.05, key=view.key("label_share"), format="%g",
        help="A larger share lists rarer labels. A smaller share leaves less noise on the training.",
    )  # fmt: skip


def public(view: View, chosen: str, dataset: str) -> tuple[str, ...] | None:
    """The class names that the link assumes public; None: all names, or a setting without public names."""
    start = cast("tuple[str, ...] | None", view["public_labels"])
    if chosen in ("data", "dp-learned"):
        return None
    names = _class_names(dataset=dataset)
    return tuple(name for name in start or () if name in names) or None if names else start


def public_field(view: View, chosen: str, dataset: str, start: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Draws and returns the class names assumed public, from `start` on."""
    names = _class_names(dataset=dataset)
    if chosen in ("data", "dp-learned") or not names:
        return start
    picked = st.multiselect(
        TITLES["public_labels"], names, default=list(start or ()), key=view.key("public_labels"),
        placeholder="all classes", help="Examples of other classes are dropped. Empty: all classes.",
    )  # fmt: skip
    return tuple(picked) or None


@st.cache_data(ttl=300, show_spinner=False)
def _class_names(dataset: str) -> tuple[str, ...]:
    try:
        return datasets.facts(dataset).classes or ()
    except BadInput:
        return ()
