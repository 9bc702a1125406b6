"""The visitor's own data on this computer: a run on them, and deleting them with everything made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from dpcl_core import checks, own_runs
from dpcl_core.backbones import kept_files
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake, own, schema
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.spec import ScenarioSpec
from pages.parts.shell import layout, ownership, state
from pages.parts.shell.text import plain
from pages.parts.training import train_form

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
    if name is not None and not (ownership.is_mine(name) and intake.was_taken_in(name)):
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
    names = [name for name in ownership.mine(own.names()) if intake.was_taken_in(name)]
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
                if ownership.may_delete(name):
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
        raw = own_runs.settings(name)
        spec = checks.parse(raw if scenario is None else {**raw, "scenario": scenario.model_dump()})
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
    from dpcl_core.runs import budgets

    with box:
        found = budgets.of(state.store(), name)
        for one in found:
            st.markdown(plain(one.sentence(datasets.called(name))))
        epsilon = st.number_input(_EPSILON, 0.01, value=found[0].epsilon if found else 4.0, key=f"budget-{key}-epsilon")
        st.caption(_BUDGET)
        chosen: dict[str, float | None] = {"Declare": epsilon, **({"Remove": None} if found else {})}
        for label, declared in chosen.items():
            if st.button(label, key=f"budget-{key}-{label}"):
                budgets.declare(state.store(), name, declared)
                st.rerun()


def _delete(name: str) -> None:
    key = name.removeprefix("own:")
    with st.popover("Delete"):
        from dpcl_core.runs import purge

        n_runs = len(purge.runs_on(state.store(), name))
        st.markdown(
            f"Deletes {plain(datasets.called(name))}, all results on it ({n_runs} run{'s' * (n_runs != 1)}), and the "
            "features kept on this computer; those of other data are computed again when they are needed."
        )
        st.caption(STAYS)
        if st.button("Delete all of it", key=f"delete-{key}", type="primary"):
            try:
                purge.purge(state.store(), name)
            except BadInput as refused:
                st.error(plain(str(refused)))
                return
            finally:  # the runs, and some of the files, may be gone
                for kind in kept_files.COMPUTED:
                    kept_files.clean(kind)
            st.rerun()
