"""A file of the visitor's on its way in: its four steps, the form of its public schema, and the stream that it makes."""

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Final

import pandas as pd
import streamlit as st
from pydantic import ValidationError
from streamlit.delta_generator import DeltaGenerator

from dpcl_core import apart, paths
from dpcl_core.data import card, copying, intake, own, schema
from dpcl_core.errors import BadInput, first_of
from dpcl_core.figures import stream
from dpcl_core.runs import administration
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import ScenarioSpec, fields_of, updated, validated
from pages.parts import fields, figure_card, layout, state, text, visitor
from pages.parts.text import WORDS, plain

# The form of the public schema: what the columns are, and what is public about them.


_ROLES = {
    "target": ("Target", "The column to predict; its values are the labels."),
    "text": ("Text", "The column of texts to learn from; no other column is a feature then."),
    "source": ("Source", "Where a row comes from, such as a site: tasks can follow it."),
    "time": ("Time", "A column of dates: tasks can follow the months."),
    "person": ("Person", "Who a row belongs to. The person is protected then, not the row."),
}
_USUAL = {"target": ("label", "labels", "target", "class", "y"), "text": ("text", "sentence", "review")}
# Words in the name of a column that usually names people: all that is looked at, since values of private rows are private.
_PEOPLE = frozenset({
    "user", "users", "person", "people", "patient", "customer", "client", "subject", "participant", "author", "writer",
    "speaker", "sender", "member", "employee", "student", "respondent", "account", "owner", "reviewer", "username", "email",
    "pid", "uid",
})  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FIRST_LINES = {"names": "names the columns", "data": "is a row of data"}
UNCLEAR = schema.Schema(title="unclear")


STEPS = ("1 · Your file", "2 · What is what", "3 · Protect whom", "4 · One model")


def step(head: str) -> DeltaGenerator:
    """Draws the head of a step; gives the place for its fields."""
    return layout.card(f"own-step-{head[0]}", f"**{head}**")


def people_column(columns: Sequence[str]) -> str | None:
    """The first column whose name says that it names people; by its name alone, whatever its values are."""
    return next((name for name in columns if _PEOPLE & {word.lower() for word in _WORD.findall(name)}), None)


def form(
    columns: Sequence[str], features: Sequence[str], start: schema.Schema, of: str, places: Sequence[DeltaGenerator]
) -> schema.Schema:
    """Draws steps 2 and 3 in their `places` for a file with these columns, of which `features` can be described.

    Gives the schema, `UNCLEAR` until target and people are said. `start`: what the form says at first.
    `of`: names the file, for each has a form of its own. Raises BadInput for a value that is not allowed.
    """
    key = _digest(of)
    said: dict[str, object] = asdict(start)
    roles: dict[str, str | None] = dict.fromkeys(_ROLES)
    with places[0]:
        row = [role for role in _ROLES if role != "person"]
        for place, role in zip(st.columns(len(row)), row, strict=True) if columns else ():
            with place:
                roles[role] = _role(role, columns, start, key)
        if columns and roles["target"] is None:
            st.info("Choose the target: the column to predict.")
        with st.expander("What else is public"):
            said |= _facts(start, key)
    with places[1]:
        free = [column for column in columns if column not in roles.values()]
        asked, number = st.columns([3, 1])
        with asked:
            is_said, roles["person"] = _person(columns, free, start, key, is_text=roles["text"] is not None)
        if roles["person"] is not None:
            said["per_person"] = number.number_input(
                "Rows per person that count", 1, 1000, start.per_person, key=f"own-per-person-{key}",
                help="A number of your choice, not read from the rows. Further rows of the person are left out.",
            )  # fmt: skip
    if columns:
        said["columns"] = roles
        if roles["text"] != start.columns.text:
            said["kind"] = None
        if roles["source"] != start.columns.source:
            said["sources"] = ()
        if start.features:  # all others, which are left out so far
            features = [column for column in columns if column not in roles.values()]
    if features:
        with places[0], st.expander("What is public about the features"):
            said["features"] = _features(features, start.features, key)
    try:
        return validated(schema.Schema, said) if is_said and (roles["target"] or not columns) else UNCLEAR
    except ValidationError as error:
        raise first_of(error, "schema") from error


def _person(
    columns: Sequence[str], free: Sequence[str], start: schema.Schema, key: str, *, is_text: bool
) -> tuple[bool, str | None]:
    """Draws who is protected; gives whether that was said, and the column of the person, if any.

    A column without another role (`free`) whose name says that it names people is asked about: seeing whether its values
    repeat would read private rows.
    """
    if not columns:
        st.markdown("Each example is protected, as another person's.")
        return True, None
    if (usual := people_column(free) if start.columns == schema.Columns() else None) is None:
        return True, _role("person", columns, start, key)
    what = "Did one person write several rows?" if is_text else "Can one person have several rows?"
    answers = {True: "Yes: protect the whole person", False: "No: each row is another person's"}
    several = st.radio(
        f"{what} (column {plain(usual)})", list(answers), None, format_func=answers.__getitem__, key=f"own-several-{key}",
        horizontal=True,
    )  # fmt: skip
    if several is None:
        st.info("Answer this first: it decides whom the noise protects, and we may not look.")
    return several is not None, _role("person", columns, start, key, usual) if several else None


def _digest(of: str) -> str:
    return sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def with_first_line(start: schema.Schema, seems: str, of: str, *, is_kept: bool) -> schema.Schema:
    """Draws what the first line of a table is, where a line can name columns; gives the schema with it.

    `seems`: see `intake.first_line`. `UNCLEAR` until the visitor has said it of a line that may be a row of data.
    """
    if seems == "none":
        return start
    said = start.first_line or ("names" if is_kept or seems == "names" else None)
    options, key = list(_FIRST_LINES), f"own-first-{_digest(of)}"
    index = None if said is None else options.index(said)
    chosen = st.radio("The first line", options, index, format_func=_FIRST_LINES.__getitem__, key=key, horizontal=True)
    return UNCLEAR if chosen is None else updated(start, first_line=chosen)


def moves_rows(before: schema.Schema, after: schema.Schema) -> bool:
    """Whether rows are public under the second schema that were private under the first."""
    shares = [one.held_out or card.HELD_OUT for one in (before, after)]
    return before.columns.person != after.columns.person or shares[0] < shares[1]


def _role(role: str, columns: Sequence[str], start: schema.Schema, key: str, usual: str | None = None) -> str | None:
    title, help_text = _ROLES[role]
    usual = usual or next((name for name in columns if name.lower() in _USUAL.get(role, ())), None)
    said = usual if start.columns == schema.Columns() else getattr(start.columns, role)
    titles = dict(enumerate(["none", *columns]))  # a column may be called "none"
    place = 1 + columns.index(said) if said in columns else 0
    chosen = fields.choice(title, titles, place, help=help_text, key=f"own-{role}-{key}")
    return titles[chosen] if chosen else None


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
    st.markdown(WORDS["own_data"]["features"])
    rows = [start.get(name, schema.Declared()) for name in features]
    table = pd.DataFrame({
        "column": list(features),
        "low": pd.Series([one.low for one in rows], dtype="float64"),
        "high": pd.Series([one.high for one in rows], dtype="float64"),
        "categories": [", ".join(one.categories) for one in rows],
        "words": [one.text for one in rows],
    })  # fmt: skip
    config = {
        "categories": st.column_config.TextColumn(help="Separated by commas."),
        "words": st.column_config.CheckboxColumn(help="Free text, hashed."),
    }
    edited = st.data_editor(table, column_config=config, disabled=["column"], hide_index=True, key=f"own-features-{key}")
    said: dict[str, Mapping[str, object]] = {}
    for row in edited.itertuples(index=False):
        bounds = (("low", row.low), ("high", row.high))
        one: dict[str, object] = {bound: float(value) for bound, value in bounds if not pd.isna(value)}
        if words := [word.strip() for word in str(row.categories or "").split(",") if word.strip()]:
            one["categories"] = words
        if row.words:
            one["text"] = True
        if one or start.get(str(row.column)) == schema.Declared():  # a number of any size, as it was declared
            said[str(row.column)] = one
    return said


# A file on its way in: kept beside the home's data until it is taken in or replaced.


_STATE: Final = "own-data-file"
_FIELD: Final = "File"
_KEPT: Final = "own-files-kept"
_LONGEST: Final = 100  # characters of a name or path, of which a message shows no more


def choose() -> Path | None:
    """Draws the ways to name a file or folder; gives the one that was chosen, if any."""
    most = st.get_option("server.maxUploadSize")
    left, right = (st.container(), None) if visitor.is_shared() else st.columns(2)
    with left:
        dropped = st.file_uploader(
            f"A file of at most {most} MB", type=[suffix.removeprefix(".") for suffix in copying.SUFFIXES],
            key=f"own-file-{st.session_state.get(_KEPT, 0)}", help=f"{copying.LISTED}.",
        )  # fmt: skip
    typed = ""
    if right is not None:
        typed = right.text_input("or a file or folder on this computer", placeholder="/home/me/visits.csv", key="own-path")
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
    raise BadInput(_FIELD, typed if len(typed) <= _LONGEST else f"{typed[:_LONGEST]}…", allowed) from refused


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
    administration.check_kept(state.store(), len(content))
    given = PurePath(name.replace("\\", "/"))  # its own name may be longer than a file system allows
    path = folder / f"{paths.slug(given.stem)}{given.suffix[:_LONGEST]}"
    try:
        paths.make_folder(folder)
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "its name is no name of a file"
        raise BadInput(_FIELD, path.name, f"could not be kept on this server: {said}") from error
    return path


# What a run would make of a file that is on its way in.


def uploaded_file(path: Path, asked: intake.Asked, seen: own.Marks = frozenset(), of: str | None = None) -> intake.Given:
    """A file as this visitor brings it, within the bytes that the server still gives. `seen`, `of`: see `intake.Given`."""
    mine = visitor.digest()
    left = administration.bytes_left(state.store())
    return intake.Given(path, asked, mine, mine if visitor.is_shared() else "", seen, left, of)


def read(task: apart.Task, one: intake.Given) -> Any:
    """What `apart.answer` reads of a file; of the same file with the same schema it is read once. Raises BadInput."""
    said, stamp = "" if one.asked.instead is None else schema.schema_toml(one.asked.instead), (0, 0)
    with suppress(OSError):
        found = one.path.stat()
        stamp = found.st_size, found.st_mtime_ns
    return _answer(task, (one.path, stamp, said, one.apart, one.seen), one)


@st.cache_data(max_entries=60, show_spinner=False)
def _answer(task: apart.Task, what: tuple[object, ...], _one: intake.Given) -> Any:
    return apart.answer(task, _one, is_apart=visitor.is_shared())


# The stream that a scenario makes of a file: the scenarios that the data allow, and the tasks of the one chosen.


_KIND = "own-scenario-kind"
_UNEQUAL = "Groups of classes, not all equally large"


def scenario(looked: apart.Looked) -> ScenarioSpec:
    """Draws the choice of the stream; gives the one chosen."""
    if looked.plan is None:
        return looked.usual
    n_tasks = min(int(st.session_state.get("own-tasks", 2)), max(looked.streams))
    offered = looked.streams[n_tasks]
    if looked.usual not in offered and n_tasks == 2:
        offered = [looked.usual, *offered]
    kinds = [one.kind for one in offered]
    titles = {
        place: _UNEQUAL if one == looked.usual and one.kind == "i-blurry" else scenarios.card(one.kind).title
        for place, one in enumerate(offered)
    }
    wanted = st.session_state.get(_KIND, looked.usual.kind)
    start = kinds.index(wanted) if wanted in kinds else 0
    title, number = st.columns([3, 1])
    with title:
        chosen = offered[fields.choice("What comes when", titles, start, key=f"own-scenario-{'-'.join(kinds)}")]
    if chosen.kind != looked.usual.kind:
        st.session_state[_KIND] = chosen.kind
    else:  # it follows the columns again
        st.session_state.pop(_KIND, None)
    with number:
        is_fixed = "tasks" not in fields_of(type(chosen))
        st.number_input("Tasks", 2, max(looked.streams), n_tasks, key="own-tasks", disabled=is_fixed)
    return chosen


def draw(looked: apart.Looked, scenario: ScenarioSpec) -> int:
    """Draws the stream that a scenario makes of a file; gives its number of tasks, 0 where there is none."""
    if looked.plan is None:
        return 0
    try:
        shown = scenarios.planned(looked.plan, scenario, 0)
    except BadInput as refused:
        st.error(plain(str(refused)))
        return 0
    drawn = stream.stream(None, homes=shown.homes, classes=shown.classes, tasks=shown.tasks, dark=text.is_dark())
    st.markdown(f"**The stream.** {plain(drawn.finding)}")
    figure_card.drawing(drawn, "own")
    st.caption(f"{plain(scenarios.card(scenario.kind).summary)} We show no counts: they would reveal something.")
    return len(shown.tasks)
