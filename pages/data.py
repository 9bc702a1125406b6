"""Data page: a file of the visitor's own, what was understood of it, its public schema, and the stream it makes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core import apart
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import intake, schema
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.papers import forecasts
from dpcl_core.runs import administration
from pages.parts import layout, own_data, own_model, settings_form, start_box, state, visitor
from pages.parts.fields import buttons
from pages.parts.text import WORDS, labelled, plain

_KINDS: Final = {
    "image": "pictures", "text": "texts", "tagged": "sentences with entities", "table": "a table of features",
    "embedding": "embeddings", "sensor": "windows of sensors",
}  # fmt: skip
_ROWS: Final = ("About ", "A fifth ", "A share ")  # how sentences begin that say which rows train, and which test
_FEATURES: Final = "own-features-of"
_IF_DATA: Final = "(if it is a row of data, say so)"
_FIELDS: Final = {
    "--data": "File", "--target": "Target", "--person": "Person", "--text": "Text", "--source": "Source", "--time": "Time",
}  # fmt: skip


@state.guarded
def page() -> None:
    """The page."""
    layout.header("Your data", "What would private learning make of your own data?", help_text=WORDS["data"]["help"])
    own_model.stage()
    edited = own_model.edited()
    with (first := own_data.step(own_data.STEPS[0])):
        path = own_data.choose() if edited is None else own_model.folder(edited)
        st.caption(visitor.WHERE)
        if path is None:
            st.markdown(f"Then: {', '.join(own_data.STEPS[1:])}.")
    if path is not None:
        _file(path, edited, [first, *map(own_data.step, own_data.STEPS[1:])])
    own_model.listing()


def _file(path: Path, edited: str | None, places: Sequence[DeltaGenerator]) -> None:
    """Draws the steps of a file in their places, up to the button that makes one model.

    `edited`: the kept data whose schema is changed.
    """
    start = schema.Schema() if edited is None else intake.kept_folder(edited)[1]
    try:
        fields = _schema(path, start, places, is_kept=edited is not None)
        asked = intake.Asked(instead=fields)
        if fields is own_data.UNCLEAR:
            return
        with places[1], st.spinner("Reading ..."):
            marks = administration.marks_kept(state.store())
            looked: apart.Looked = own_data.read("look", own_data.uploaded_file(path, asked, marks))
    except BadInput as refused:
        places[1].error(plain(_in_words(refused)))
        return
    if st.session_state.get(_FEATURES) != (str(path), looked.found.undeclared):
        st.session_state[_FEATURES] = str(path), looked.found.undeclared
        st.rerun()  # the form can now offer them
    with places[1], st.expander(f"What was understood: {_KINDS[looked.found.kind]}"):
        if looked.found.columns:
            rows = [tuple(map(plain, (one.name, one.use, one.read_as))) for one in looked.found.columns]
            layout.draw_table(("column", "used as", "read as"), rows, names=3)
        for sentence in looked.found.assumed:
            st.markdown(f"- {plain(sentence.replace(schema.DOUBT, _IF_DATA))}")
    if edited is not None and fields is not None and own_data.moves_rows(start, fields):
        places[2].warning(WORDS["data"]["moves"])
    with places[3]:
        _model(path, asked, edited, start, looked)


def _model(path: Path, asked: intake.Asked, edited: str | None, start: schema.Schema, looked: apart.Looked) -> None:
    """Draws step 4: one model with its price on the button that makes it, and keeping the file without one."""
    fields = asked.instead
    stream, money = st.columns([2, 1])
    with stream:
        scenario = own_data.scenario(looked)
    with money:
        help_text = "Less is stronger protection, and lower accuracy."
        epsilon = buttons("Privacy budget ε", forecasts.BUDGETS, 1.0, epsilon_text, key="own-epsilon", help=help_text)
    note = st.container()
    is_as_before = edited is not None and fields in (start, replace(start, first_line="names"))
    title = (fields.title if fields is not None else None) or path.stem
    with st.container(horizontal=True, vertical_alignment="center"):
        is_started = st.button(own_model.price(scenario, epsilon, title), type="primary", key="own-start")
        later = "Keep for later" if edited is None else "Keep with this schema"
        is_kept = st.button(later, key="own-keep", disabled=is_as_before)
        if fields is not None:
            # Written when pressed: a file that a redraw replaces would be gone while the browser still asks for it.
            content = partial(schema.schema_toml, fields, looked.found.undeclared)
            layout.download("schema.toml", content, "schema.toml", type="tertiary")
    if is_started or is_kept:
        _keep(path, asked, edited, partial(own_model.start, scenario=scenario, epsilon=epsilon) if is_started else None)
    place = st.container()
    n_tasks = own_data.draw(looked, scenario)
    said = [one for one in looked.found.assumed if one.startswith(_ROWS)]
    if n_tasks and looked.plan is not None and fields is not None and looked.found.kind != "tagged":
        n_people, asked_for = looked.plan.n_people, replace(looked.privacy, epsilons=(epsilon,))
        said.append(settings_form.people_for_a_label(asked_for, fields.per_person, n_tasks, n_people))
        n_features = looked.found.n_values or backbones.card(looked.network).feature_dim
        if n_features and scenario.recurrence == "once" and fields.per_person == 1:
            of = n_people, len(looked.plan.classes), n_tasks, looked.network, n_features
            with place:
                start_box.helper(forecasts.Sizes(*of, "dp-learned", looked.privacy.delta), "own-helper")
    note.caption(plain(" ".join(said)))


def _keep(path: Path, asked: intake.Asked, edited: str | None, then: Callable[[str], None] | None = None) -> None:
    """Keeps the file, or another copy of the data that are edited, says under which name, and starts a run on it."""
    try:
        administration.check_kept(state.store())
        given = own_data.uploaded_file(path, asked, administration.marks_kept(state.store()), edited)
        name = str(apart.answer("keep", given, is_apart=visitor.is_shared()))
        own_data.discard()
        own_model.show_only(own_model.KEPT, (name, edited))
        if then is not None:
            then(name)
    except BadInput as refused:
        st.error(plain(_in_words(refused)))
        return
    st.rerun()


def _schema(path: Path, start: schema.Schema, places: Sequence[DeltaGenerator], *, is_kept: bool) -> schema.Schema | None:
    """The schema of the form, at first `start`; None where a schema lies beside the file. Raises BadInput."""
    beside = intake.schema_beside(path)
    if beside.exists() and not is_kept:
        places[1].markdown(f"Its schema is read from {plain(beside.name)}, which lies beside it.")
        return None
    known, features = st.session_state.get(_FEATURES, ("", ()))
    with places[0]:
        seems = own_data.read("first line", own_data.uploaded_file(path, intake.Asked()))
        start = own_data.with_first_line(start, seems, str(path), is_kept=is_kept)
        if start is own_data.UNCLEAR:
            st.info("The first line may be a row of data. Say which it is: nothing of it is shown before.")
            return start
    columns = list(own_data.read("columns", own_data.uploaded_file(path, intake.Asked(instead=start))))
    return own_data.form(columns, features if known == str(path) else (), start, str(path), places[1:])


def _in_words(refused: BadInput) -> str:
    """The sentence of an error, with the form's names in the place of the command line's."""
    return labelled(refused, _FIELDS).replace(schema.DOUBT, _IF_DATA)


if __name__ == "__main__":
    page()
