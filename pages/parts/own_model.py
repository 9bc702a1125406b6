"""Data of the visitor's own that were kept: a model of them, its answers and its files, their budget, and deleting them."""

import json
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path, PurePath
from typing import Final

import pandas as pd
import streamlit as st

from dpcl_core import apart, checks, export, paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.classifiers import folder as released
from dpcl_core.data import catalog as datasets
from dpcl_core.data import intake, own, schema, table_features
from dpcl_core.data.card import PICTURES
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.runs import administration, process
from dpcl_core.runs.run import Run
from dpcl_core.spec import ScenarioSpec
from pages.parts import layout, pecl_claim, run_panel, start_box, state, train_form, visitor
from pages.parts.text import WORDS, plain

_EPSILON: Final = "ε of all runs together"
_EDITED: Final = "own-edited"
KEPT: Final = "own-kept"  # session key: what was kept last and the data of which it is another schema
_SHOWN: Final = "own-shown"  # session key: the data whose model is shown
_TABLES: Final = (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".npz", ".npy")
_NAMELESS: Final = "No label had enough people to be found, so this model names none: bring more data, or take a larger ε."
_INSIDE: Final = "What it released, its privacy card, and ten lines that use it"
_LONGEST: Final = 20  # characters of an ending


def edited() -> str | None:
    """The kept data whose schema the visitor changes, if any."""
    name: str | None = st.session_state.get(_EDITED)
    if name is not None and not (visitor.is_mine(name) and intake.was_taken_in(name)):
        del st.session_state[_EDITED]  # deleted in another window
        return None
    return name


def folder(name: str) -> Path:
    """Draws whose schema is changed, with the way out; gives the folder of the data."""
    st.markdown(WORDS["own_model"]["schema"].format(title=plain(datasets.called(name))))
    st.button("Leave it as it is", key="own-leave", on_click=lambda: st.session_state.pop(_EDITED, None))
    return intake.kept_folder(name)[0]


def show_only(key: str, value: object) -> None:
    """Remembers one thing alone: what is changed, what was kept last, or whose model is shown."""
    for other in (_EDITED, KEPT, _SHOWN):
        st.session_state.pop(other, None)
    st.session_state[key] = value


def _names() -> list[str]:
    return [name for name in visitor.mine(own.names_of_own_data()) if intake.was_taken_in(name)]


def listing() -> None:
    """Draws the visitor's own datasets, each with its schema, links and buttons."""
    if not (names := _names()):
        return
    st.header("On this computer", anchor=False)
    for name in names:
        with layout.card(f"own-{name.removeprefix('own:')}"):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"**{plain(datasets.card(name).title)}**", width="stretch", help=plain(name))
                if _newest(name) is not None:
                    st.button("Its model", key=f"show-{name}", on_click=st.session_state.update, args=({_SHOWN: name},))
                _train(name)
                st.button("Change the schema", key=f"edit-{name}", on_click=show_only, args=(_EDITED, name))
                if visitor.may_delete(name):
                    _budget(name)
                    _delete(name)
            try:
                said = schema.in_words(intake.kept_folder(name)[1])
            except BadInput as trouble:  # which must not hide the others' buttons
                said = str(trouble)
            if said:
                st.caption(plain(said))


def _train(name: str) -> None:
    """Draws the link to Train with settings that fit the data."""
    try:
        layout.arrow("train", "Other settings", train_form.parameters_of(checks.parse(presets.settings(name))))
    except (BadInput, DataMissing) as trouble:
        st.caption(plain(str(trouble)))


def _budget(name: str) -> None:
    """Draws the budget for all runs on these rows, with what is left of it, and the buttons that declare and remove it."""
    key = name.removeprefix("own:")
    if (box := layout.popover("Budget", f"budget-{key}")) is None:
        return
    with box:
        found = administration.budgets_of(state.store(), name)
        for one in found:
            st.markdown(plain(one.sentence(datasets.called(name))))
        epsilon = st.number_input(_EPSILON, 0.01, value=found[0].epsilon if found else 4.0, key=f"budget-{key}-epsilon")
        st.caption(WORDS["own_model"]["budget"])
        for label, declared in (("Declare", epsilon), ("Remove", None)):
            if (label == "Declare" or found) and st.button(label, key=f"budget-{key}-{label}"):
                administration.declare_budget(state.store(), name, declared)
                st.rerun()


@state.guarded
def _delete(name: str) -> None:
    key = name.removeprefix("own:")
    with st.popover("Delete"):
        n_runs = len(administration.runs_on(state.store(), name))
        st.markdown(
            f"Deletes {plain(datasets.called(name))}, all results on it ({n_runs} run{'s' * (n_runs != 1)}), and the "
            "features kept on this computer; those of other data are computed again when they are needed."
        )
        st.caption(WORDS["own_model"]["stays"])
        if st.button("Delete all of it", key=f"delete-{key}", type="primary"):
            try:
                administration.purge(state.store(), name)
            finally:  # the runs, and some of the files, may be gone
                for kind in backbones.COMPUTED:
                    backbones.clean(kind)
            st.rerun()


# One model: its price before it is made, its run, and afterwards its answers and its files.


def price(scenario: ScenarioSpec, epsilon: float, title: str) -> str:
    """What Start says: a stream in which everybody is in each task spends on every one of them."""
    n_tasks = getattr(scenario, "tasks", 1) if scenario.recurrence == "every" and scenario.n_users is None else 1
    at_most = "up to " if n_tasks > 1 else ""
    return f"Start: spends {at_most}ε = {epsilon_text(epsilon * n_tasks)} of {plain(title)}"


def start(name: str, scenario: ScenarioSpec, epsilon: float) -> None:
    """Queues the run of one model on kept data. Raises BadInput for one that is not allowed, with nothing spent."""
    changes = {"privacy.epsilons": (epsilon,), "scenario": asdict(scenario)}
    spec, device = checks.parse(checks.changed(presets.settings(name), changes)), process.default()
    checks.check_run(spec)
    if (refused := start_box.costly(spec, device)) is not None:
        raise refused
    state.executor().submit(state.store().create(spec, name=None, device=device))
    st.session_state[_SHOWN] = name


def stage() -> None:
    """Draws what was kept last, or the model that was started or asked for."""
    names, shown = _names(), st.session_state.get(_SHOWN)
    kept, before = st.session_state.get(KEPT, (None, None))
    if kept in names and kept != shown:
        beside = "" if before is None else f" Runs on {plain(datasets.called(before))} stay as they are."
        st.success(f"Kept as {plain(datasets.called(kept))}.{beside}")
    if shown not in names or (run := _newest(shown)) is None:
        return
    with layout.card("own-model", f"**A model of {plain(datasets.card(run.spec.data.dataset).title)}**"):
        if not run.is_over:
            run_panel.watch(run.id)
            return
        result = state.run_result(run)
        if run.error:
            st.error(plain(run.error))
        nothing = _NAMELESS if run.status == "finished" else ""
        st.markdown(plain(result.placed(run.spec.privacy.usual_epsilon) or nothing))
        pecl_claim.looks(run.spec.data.dataset)
        files = _files(state.where(), run.id)
        with st.container(horizontal=True, vertical_alignment="center"):
            if files:
                packed = partial(run_panel.archive, files)
                layout.download("Download classifier", packed, "classifier.zip", _INSIDE, type="primary")
            layout.arrow("train", "The whole run", {"v": "1", "run": run.id})
        if files:
            _try(run, files)


def _newest(name: str) -> Run | None:
    """The newest run on these data that is under way or has ended with models of its own."""
    found = state.store().listed(administration.runs_on(state.store(), name))
    return max(found.values(), key=lambda run: run.created, default=None)


@st.cache_data(max_entries=20, show_spinner=False)
def _files(where: tuple[str, str, str], run_id: str) -> dict[str, bytes]:
    """The released classifier of a run as files; empty where it has none."""
    return state.unless_refused(export.classifier, state.store(), run_id) or {}


@state.guarded
def _try(run: Run, files: dict[str, bytes]) -> None:
    """Draws the fields for examples of the visitor's, and what the released classifier says of them."""
    kind, asked, dropped = datasets.card(run.spec.data.dataset).kind, None, None
    typed, header = "", _header(files) if kind == "table" else ""
    with st.form("own-try", border=False):
        st.markdown("**Try it.** The answers come from what was released: asking costs no ε.")
        if kind in ("text", "tagged", "table"):
            label = "Rows, one a line" if kind == "table" else "A text, or one a line"
            typed = st.text_area(label, header, key=f"own-typed-{run.id}", max_chars=20_000, height=100)
        if kind not in ("text", "tagged"):
            what, suffixes = ("A picture", PICTURES) if kind == "image" else ("A file of rows", _TABLES)
            dropped = st.file_uploader(what, type=[one[1:] for one in suffixes], key=f"own-asked-{run.id}")
        if st.form_submit_button("Ask"):
            name = "typed.csv" if kind == "table" else "typed.txt"
            asked = (dropped.name, dropped.getvalue()) if dropped is not None else (name, typed.encode())
    if asked is None or asked[1].decode(errors="ignore").strip() in ("", header.strip()):
        return
    with st.spinner("Asking ..."):
        said = _answers(files, *asked)
    texts = [line for line in typed.splitlines() if line.strip()] if kind == "text" else []
    named = zip(texts or [name for name, _ in said.labels], said.labels, strict=True)
    rows = [(name, (labels or ("no label was released",))[0], ", ".join(labels[1:])) for name, (_, labels) in named]
    layout.draw_table(("example", "answer", "then"), [tuple(map(plain, row)) for row in rows[:20]], names=3)
    for one in said.warnings:
        st.caption(plain(one))


def _header(files: dict[str, bytes]) -> str:
    """The line with the columns that a classifier of rows reads; empty where its data had no such line."""
    step = json.loads(files[f"{released.NAME}/{released.DOCUMENT}"])["models"][0]["steps"][-1]
    rows = table_features.read_encoding(step["facts"]["rows"])
    return str(pd.DataFrame(columns=rows.names).to_csv(index=False)) if rows.has_names else ""


def _answers(files: dict[str, bytes], name: str, content: bytes) -> apart.Answered:
    """What the classifier says of a file's examples, in a process of its own. Raises BadInput."""
    with tempfile.TemporaryDirectory(prefix="dpcl-") as place:
        export.write(Path(place, "released"), files)
        asked = Path(place, f"{paths.slug(PurePath(name).stem)}{PurePath(name).suffix.lower()[:_LONGEST]}")
        asked.write_bytes(content)
        found: apart.Answered = apart.answer("predict", apart.Tried(asked, Path(place, "released")))
        return found
