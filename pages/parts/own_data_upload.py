"""A file on its way in: kept beside the home's data until it is taken in or replaced."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal

import streamlit as st

from dpcl_core import paths
from dpcl_core.data import copying, intake, own, schema
from dpcl_core.data.intake import Asked
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import ScenarioSpec
from pages.parts import fields, layout, state, text, visitor
from pages.parts.figure_card import CONFIG
from pages.parts.text import plain

if TYPE_CHECKING:
    from dpcl_core.apart import Given, Looked


_STATE: Final = "own-data-file"
_FIELD: Final = "File"
_KEPT: Final = "own-files-kept"
_LONGEST: Final = 100  # characters of a name or path, of which a message shows no more


def choose() -> Path | None:
    """Draws the ways to name a file or folder; gives the one that was chosen, if any."""
    most = st.get_option("server.maxUploadSize")
    dropped = st.file_uploader(
        f"A file of at most {most} MB: {copying.LISTED}",
        type=[suffix.removeprefix(".") for suffix in copying.SUFFIXES],
        key=f"own-file-{st.session_state.get(_KEPT, 0)}",
    )
    typed = ""
    if not visitor.is_shared():
        typed = st.text_input("or a file or folder on this computer", placeholder="/home/me/visits.csv", key="own-path")
    if dropped is not None:
        kept = st.session_state.get(_STATE)
        if kept is None or kept[0] != dropped.file_id:
            st.session_state[_STATE] = kept = (dropped.file_id, _written(dropped.name, dropped.getvalue()))
            fields.release(dropped)
        path: Path = kept[1]
        return path if path.exists() else None
    if st.session_state.pop(_STATE, None) is not None:  # taken out of the box again
        discard()
    elif _folder().exists():
        st.caption("A file that you uploaded before was not kept. It counts as yours until it is deleted.")
        st.button("Delete that file", key="own-upload-delete", on_click=discard)
    return _named(typed) if typed.strip() else None


def _named(typed: str) -> Path:
    """The path that somebody typed. Raises BadInput where nothing is there, or nobody may ask."""
    allowed, refused = "must be the path of a file or folder that is there", None
    try:
        path = Path(typed).expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError, ValueError) as error:  # too long, or not to be read; ~NAME of nobody; with NUL
        allowed, refused = "must be the path of a file or folder that you can read", error
    shown = typed if len(typed) <= _LONGEST else f"{typed[:_LONGEST]}…"
    raise BadInput(_FIELD, shown, allowed) from refused


def discard() -> None:
    """Deletes what this visitor has uploaded, which is taken in or not wanted, and empties the box of the page."""
    st.session_state.pop(_STATE, None)
    st.session_state[_KEPT] = st.session_state.get(_KEPT, 0) + 1  # another key: a box cannot be emptied otherwise
    shutil.rmtree(_folder(), ignore_errors=True)


def _folder() -> Path:
    return paths.uploads(visitor.digest())


def _written(name: str, content: bytes) -> Path:
    """The upload as a file of the name that its data will have; an earlier one of this visitor is deleted.

    Raises BadInput where it is more than a visitor of this server may keep, and where the disk refuses it.
    """
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    own.sweep_uploads()
    state.store().check_kept(len(content))
    given = PurePath(name.replace("\\", "/"))  # its own name may be longer than a file system allows
    path = folder / f"{intake.slug(given.stem)}{given.suffix[:_LONGEST]}"
    try:
        paths.made(folder)
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "its name is no name of a file"
        raise BadInput(_FIELD, path.name, f"could not be kept on this server: {said}") from error
    return path


# What a run would make of a file that is on its way in.


def given(path: Path, asked: Asked, seen: frozenset[str], of: str | None = None) -> Given:
    """A file as this visitor brings it, within the bytes that the server still gives. `seen`, `of`: see `apart.Given`."""
    from dpcl_core import apart  # loads parquet's library

    mine = visitor.digest()
    return apart.Given(path, asked, mine, mine if visitor.is_shared() else "", seen, state.store().bytes_left(), of)


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def looked(one: Given) -> Looked:
    """What a run would make of a file; the same file with the same schema is read once. Raises BadInput."""
    said = "" if one.asked.instead is None else schema.written(one.asked.instead)
    return _looked(one.path, _stamp(one.path), said, one.apart, one.seen, one)


@st.cache_data(max_entries=20, show_spinner=False)
def _looked(path: Path, stamp: tuple[int, int], said: str, apart: str, seen: frozenset[str], _one: Given) -> Looked:
    from dpcl_core import apart as reading

    found: Looked = reading.answer("look", _one, is_apart=visitor.is_shared())
    return found


def keep(one: Given) -> str:
    """Keeps a file as own:NAME and gives that name. Raises BadInput."""
    from dpcl_core import apart

    return str(apart.answer("keep", one, is_apart=visitor.is_shared()))


def first_line(path: Path) -> str:
    """What the first line of a table seems to be, as `intake.first_line`; the same file is read once."""
    return str(_of_form("first line", path, _stamp(path), "", given(path, Asked(), frozenset())))


def columns(path: Path, fields: schema.Schema) -> list[str]:
    """The columns of a table, as `intake.columns`; the same file with the same schema is read once."""
    one = given(path, Asked(instead=fields), frozenset())
    return list(_of_form("columns", path, _stamp(path), schema.written(fields), one))


@st.cache_data(max_entries=40, show_spinner=False)
def _of_form(task: Literal["columns", "first line"], path: Path, stamp: tuple[int, int], said: str, _one: Given) -> Any:
    from dpcl_core import apart

    return apart.answer(task, _one, is_apart=visitor.is_shared())


# The stream that a scenario makes of a file: the scenarios that the data allow, and the tasks of the one chosen.


_PLAN = "The public plan alone: how many of your examples a task has is private, and no budget covers counting them."
_KIND = "own-scenario-kind"
_UNEQUAL = "Groups of classes, not all equally large"


def draw(looked: Looked) -> ScenarioSpec:
    """Draws the choice and the stream; gives the scenario chosen."""
    if looked.plan is None:
        return looked.usual
    with layout.card("own-stream"):
        title, number = st.columns([3, 1])
        n_tasks = min(int(st.session_state.get("own-tasks", 2)), max(looked.streams))
        offered = looked.streams[n_tasks]
        if looked.usual not in offered and n_tasks == 2:
            offered = [looked.usual, *offered]
        kinds = [one.kind for one in offered]
        wanted = st.session_state.get(_KIND, looked.usual.kind)
        with title:
            place = st.selectbox(
                "Scenario", range(len(offered)), kinds.index(wanted) if wanted in kinds else 0,
                format_func=lambda place: _title(offered[place], looked), key=f"own-scenario-{'-'.join(kinds)}",
            )  # fmt: skip
        scenario = offered[place]
        if scenario.kind != looked.usual.kind:
            st.session_state[_KIND] = scenario.kind
        else:  # it follows the columns again
            st.session_state.pop(_KIND, None)
        with number:
            is_fixed = "tasks" not in type(scenario).model_fields
            st.number_input("Tasks", 2, max(looked.streams), n_tasks, key="own-tasks", disabled=is_fixed)
        _stream(looked, scenario)
    return scenario


def _title(scenario: ScenarioSpec, looked: Looked) -> str:
    if scenario == looked.usual and scenario.kind == "i-blurry":
        return _UNEQUAL
    return scenarios.card(scenario.kind).title


def _stream(looked: Looked, scenario: ScenarioSpec) -> None:
    from dpcl_core.figures import stream
    from dpcl_core.scenarios import catalog

    assert looked.plan is not None
    try:
        shown = catalog.planned(looked.plan, scenario, 0)
    except BadInput as refused:
        st.error(plain(str(refused)))
        return
    drawn = stream.stream(None, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=text.is_dark())
    st.markdown(f"**The stream.** {plain(drawn.finding)}")
    st.plotly_chart(drawn.figure, theme=None, width="stretch", key="own-chart", config=CONFIG, alt=drawn.finding)
    st.caption(f"{plain(scenarios.card(scenario.kind).summary)} {_PLAN}")
