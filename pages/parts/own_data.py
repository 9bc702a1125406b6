"""The visitor's own data on this computer: a run on them, and deleting them with everything made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Final

import streamlit as st
from pydantic import ValidationError

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake, own, schema
from dpcl_core.data.card import HELD_OUT
from dpcl_core.errors import BadInput, DataMissing, first_of
from dpcl_core.runs import administration, charges
from dpcl_core.spec import ScenarioSpec, updated, validated
from pages.parts import layout, state, train_form, visitor
from pages.parts.text import plain

STAYS = """The number of looks stays, with keyed digests of rows of the public test part: it goes on if the same rows come
back under any name."""

_EPSILON: Final = "ε of all runs together"
_BUDGET: Final = """Looks count against it, and a run that would exceed it is refused. It holds for every copy and schema of
these rows. A budget that is raised is a new promise."""

_EDITED: Final = "own-edited"
_DONE: Final = "own-kept"


def edited() -> str | None:
    """The kept data whose schema the visitor changes, if any."""
    name: str | None = st.session_state.get(_EDITED)
    if name is not None and not (visitor.is_mine(name) and intake.was_taken_in(name)):
        del st.session_state[_EDITED]  # deleted in another window
        return None
    return name


def folder(name: str) -> Path:
    """Draws whose schema is changed, with the way out; gives the folder of the data."""
    title = plain(datasets.called(name))
    st.markdown(
        f"**The schema of {title}.** A change makes another dataset of the same rows: {title} and its runs stay "
        "as they are, and looks at either count for both."
    )
    st.button("Leave it as it is", key="own-leave", on_click=lambda: st.session_state.pop(_EDITED, None))
    return intake.kept(name)[0]


def done(name: str, before: str | None, scenario: ScenarioSpec) -> None:
    """Remembers what was just kept, with the scenario chosen for it; `before`: the data of which it is another schema."""
    st.session_state.pop(_EDITED, None)
    st.session_state[_DONE] = name, before, scenario


def is_new() -> bool:
    """Whether the visitor has kept data a moment ago."""
    return _DONE in st.session_state


def listing() -> None:
    """Draws what was just kept, and the visitor's own datasets, each with its schema, links and buttons."""
    names = [name for name in visitor.mine(own.names()) if intake.was_taken_in(name)]
    name, before, scenario = st.session_state.get(_DONE, (None, None, None))
    if name in names:
        beside = "" if before is None else f" Runs on {plain(datasets.called(before))} stay as they are."
        st.success(f"Kept as {plain(datasets.called(name))}.{beside}")
        _start(name, scenario, "Set up a run with this stream →")
    if not names:
        return
    st.header("On this computer", anchor=False)
    for name in names:
        with layout.card(f"own-{name.removeprefix('own:')}"):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"**{plain(datasets.called(name))}**, in a terminal {plain(name)}", width="stretch")
                _start(name)
                st.button("Change the schema", key=f"edit-{name}", on_click=_edit, args=(name,))
                if visitor.may_delete(name):
                    _budget(name)
                    _delete(name)
            if said := _in_words(name):
                st.caption(plain(said))


def _in_words(name: str) -> str:
    """The schema of kept data; what is wrong with it, which must not hide the others' buttons."""
    try:
        return schema.in_words(intake.kept(name)[1])
    except BadInput as trouble:
        return str(trouble)


def _edit(name: str) -> None:
    st.session_state[_EDITED] = name
    st.session_state.pop(_DONE, None)


def _start(name: str, scenario: ScenarioSpec | None = None, label: str = "Set up a run →") -> None:
    """Draws the link to Train with settings that fit the data, and with this scenario if one is chosen."""
    try:
        raw = presets.settings(name)
        spec = checks.parse(raw if scenario is None else {**raw, "scenario": asdict(scenario)})
    except (BadInput, DataMissing) as trouble:
        st.caption(plain(str(trouble)))
        return
    st.page_link("pages/train.py", label=f":primary[{label}]", query_params=train_form.parameters_of(spec))


def _budget(name: str) -> None:
    """Draws the budget for all runs on these rows, with what is left of it, and the buttons that declare and remove it."""
    key = name.removeprefix("own:")
    box = layout.popover("Budget", f"budget-{key}")
    if box is None:
        return
    with box:
        found = charges.budgets_of(state.store(), name)
        for one in found:
            st.markdown(plain(one.sentence(datasets.called(name))))
        epsilon = st.number_input(_EPSILON, 0.01, value=found[0].epsilon if found else 4.0, key=f"budget-{key}-epsilon")
        st.caption(_BUDGET)
        chosen: dict[str, float | None] = {"Declare": epsilon, **({"Remove": None} if found else {})}
        for label, declared in chosen.items():
            if st.button(label, key=f"budget-{key}-{label}"):
                charges.declare(state.store(), name, declared)
                st.rerun()


def _delete(name: str) -> None:
    key = name.removeprefix("own:")
    with st.popover("Delete"):
        n_runs = len(administration.runs_on(state.store(), name))
        st.markdown(
            f"Deletes {plain(datasets.called(name))}, all results on it ({n_runs} run{'s' * (n_runs != 1)}), and the "
            "features kept on this computer; those of other data are computed again when they are needed."
        )
        st.caption(STAYS)
        if st.button("Delete all of it", key=f"delete-{key}", type="primary"):
            try:
                administration.purge(state.store(), name)
            except BadInput as refused:
                st.error(plain(str(refused)))
                return
            finally:  # the runs, and some of the files, may be gone
                for kind in catalog.COMPUTED:
                    catalog.clean(kind)
            st.rerun()


# The form of the public schema: what the columns are, and what is public about them.


_ROLES = {
    "target": ("Target", "The column to predict; its values are the labels."),
    "text": ("Text", "The column of texts to learn from; no other column is a feature then."),
    "source": ("Source", "Where a row comes from, such as a site: tasks can follow it."),
    "person": ("Person", "Who a row belongs to. The person is protected then, not the row."),
    "time": ("Time", "A column of dates: tasks can follow the months."),
}
_USUAL = {"target": ("label", "labels", "target", "class", "y"), "text": ("text", "sentence", "review")}
_NONE = "none"
_FIRST_LINES = {"names": "names the columns", "data": "is a row of data"}
UNCLEAR = schema.Schema(title="unclear")


def form(columns: Sequence[str], features: Sequence[str], start: schema.Schema, of: str) -> schema.Schema:
    """Draws the form for a file with these columns, of which `features` can be described; gives the schema.

    `start`: what the form says at first. `of`: names the file, for each has a form of its own. Raises BadInput for a value
    that is not allowed.
    """
    key = sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    said: dict[str, object] = asdict(start)
    if columns:
        roles = {role: _role(role, columns, start, key) for role in _ROLES}
        said["columns"] = roles
        if roles["text"] != start.columns.text:
            said["kind"] = None
        if roles["source"] != start.columns.source:
            said["sources"] = ()
        if roles["person"] is not None:
            said["per_person"] = st.number_input(
                "Rows per person that count", 1, 1000, start.per_person, key=f"own-per-person-{key}",
                help="A number of your choice, not read from the rows. Further rows of the person are left out.",
            )  # fmt: skip
        if start.features:  # all others, which are left out so far
            features = [column for column in columns if column not in roles.values()]
    with st.expander("What else is public"):
        said |= _facts(start, key)
    if features:
        with st.expander("What is public about the features"):
            said["features"] = _features(features, start.features, key)
    try:
        return validated(schema.Schema, said)
    except ValidationError as error:
        raise first_of(error, "schema") from error


def with_first_line(start: schema.Schema, seems: str, of: str, *, is_kept: bool) -> schema.Schema:
    """Draws what the first line of a table is, where a line can name columns; gives the schema with it.

    `seems`: see `intake.first_line`. `UNCLEAR` until the visitor has said it of a line that may be a row of data.
    """
    if seems == "none":
        return start
    said = start.first_line or ("names" if is_kept or seems == "names" else None)
    index = None if said is None else list(_FIRST_LINES).index(said)
    key = sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    options = list(_FIRST_LINES)
    chosen = st.radio("The first line", options, index, format_func=_FIRST_LINES.__getitem__, key=f"own-first-{key}")
    return UNCLEAR if chosen is None else updated(start, first_line=chosen)


def moves_rows(before: schema.Schema, after: schema.Schema) -> bool:
    """Whether rows are public under the second schema that were private under the first."""
    shares = [one.held_out or HELD_OUT for one in (before, after)]
    return before.columns.person != after.columns.person or shares[0] < shares[1]


def _role(role: str, columns: Sequence[str], start: schema.Schema, key: str) -> str | None:
    title, help_text = _ROLES[role]
    usual = next((name for name in columns if name.lower() in _USUAL.get(role, ())), None)
    said = usual if start.columns == schema.Columns() else getattr(start.columns, role)
    options = [_NONE, *columns]
    index = 1 + columns.index(said) if said in columns else 0
    places = range(len(options))  # a column may be called "none"
    chosen = st.selectbox(title, places, index, format_func=options.__getitem__, help=help_text, key=f"own-{role}-{key}")
    return options[chosen] if chosen else None


def _facts(start: schema.Schema, key: str) -> dict[str, object]:
    title = st.text_input("Title", start.title or "", max_chars=80, key=f"own-title-{key}").strip()
    labels = st.text_area(
        "All labels, one per line", "\n".join(start.classes), key=f"own-classes-{key}",
        help="Empty: the labels of the public test part are public; others are learned under differential privacy.",
    )  # fmt: skip
    about = st.number_input(
        "Roughly how many training examples", 1, None, start.n_train, key=f"own-n-train-{key}",
        help="A number of your choice, not an exact count: it decides δ and how much noise is added.",
    )  # fmt: skip
    share = st.number_input(
        "Share of rows for the public test part", 0.01, 0.9, start.held_out, key=f"own-held-out-{key}",
        help="No budget protects these rows: accuracy is measured on them.",
    )  # fmt: skip
    names = [line.strip() for line in labels.splitlines() if line.strip()]
    return {"title": title or None, "classes": names, "n_train": about, "held_out": share}


def _features(features: Sequence[str], start: Mapping[str, schema.Declared], key: str) -> dict[str, Mapping[str, object]]:
    import pandas as pd

    st.markdown(
        "What you know without looking at the rows. With one feature given, columns that are not named are left out; with "
        "none, every number goes through one fixed squashing."
    )
    rows = [(name, start.get(name, schema.Declared())) for name in features]
    table = pd.DataFrame({
        "column": list(features),
        "low": pd.array([one.low for _, one in rows], dtype="Float64").astype("float64"),
        "high": pd.array([one.high for _, one in rows], dtype="Float64").astype("float64"),
        "categories": [", ".join(one.categories) for _, one in rows],
        "words": [one.text for _, one in rows],
    })  # fmt: skip
    config = {
        "categories": st.column_config.TextColumn(help="Separated by commas."),
        "words": st.column_config.CheckboxColumn(help="Free text, hashed."),
    }
    edited = st.data_editor(table, column_config=config, disabled=["column"], hide_index=True, key=f"own-features-{key}")
    said: dict[str, Mapping[str, object]] = {}
    for row in edited.itertuples(index=False):
        one: dict[str, object] = {}
        for bound in ("low", "high"):
            if not pd.isna(getattr(row, bound)):
                one[bound] = float(getattr(row, bound))
        if words := [word.strip() for word in str(row.categories or "").split(",") if word.strip()]:
            one["categories"] = words
        if row.words:
            one["text"] = True
        if one or start.get(str(row.column)) == schema.Declared():  # a number of any size, as it was declared
            said[str(row.column)] = one
    return said
