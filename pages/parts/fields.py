"""The settings of a model, read from its fields; widgets and link are made from the same list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from functools import cache
from typing import Any, Final, Literal, TypeVar, cast, get_args

import streamlit as st
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.fields import Form, of_fields
from dpcl_core.methods import catalog as methods
from dpcl_core.runs.run import Named, Run, Status
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios import federated
from dpcl_core.spec import Settings, fields_of
from pages.parts import link, state
from pages.parts.text import WORDS, capital

Sort = Literal["integer", "number", "choice", "boolean", "text", "texts", "integers"]  # the kind of a form, or of its items
_MOST = 10**6


@dataclass(frozen=True)
class Setting:
    """One setting of a card: `low` and `high` are allowed bounds (None: unbounded), `is_optional`: may be left empty."""

    name: str
    title: str
    help: str
    sort: Sort
    default: object
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
    is_optional: bool = False

    def kind(self) -> link.Kind[object]:
        """The codec kind of the setting in a link."""
        ends = ((-link.UNBOUNDED, self.low), (link.UNBOUNDED, self.high))
        kinds: dict[Sort, object] = {
            "integer": link.Whole(int(self.low or 0), int(self.high if self.high is not None else _MOST)),
            "number": link.Number(*(bound if given is None else given for bound, given in ends)),
            "choice": link.Choice(self.options),
            "boolean": link.Flag(),
            "text": link.Text(),
            "texts": link.Many(link.Text(60)),
            "integers": link.Many(link.Whole(-_MOST, _MOST), 1000),
        }
        kind = cast("link.Kind[object]", kinds[self.sort])
        return link.Maybe(kind) if self.is_optional else kind

    def shown(self, value: object) -> str:
        """A value of the setting in words."""
        match self.sort:
            case "choice":
                return f"“{option_title(str(value))}”"
            case "boolean":
                return "on" if value else "off"
            case "texts" | "integers":
                return ", ".join(map(str, cast("tuple[object, ...]", value)))
            case "number":
                return f"{value:g}"
        return str(value)


def settings(model: type[Settings], leave_out: tuple[str, ...] = ()) -> tuple[Setting, ...]:
    """The settings of a model in its own order. Raises TypeError for a field that no widget can show."""
    forms, named = of_fields(model), fields_of(model)
    return tuple(_setting(name, forms[name], one) for name, one in named.items() if name not in leave_out)


def option_title(option: str) -> str:
    """An option of a setting in words."""
    return capital(WORDS["options"].get(option, option.replace("-", " ")))  # some do not read as words


def _setting(name: str, form: Form, field: Field[Any]) -> Setting:
    sort = f"{form.of[0].kind}s" if form.kind == "list" else form.kind
    if sort not in get_args(Sort):
        raise TypeError(f"no widget for the setting {name}: {form}")
    words, said = name.replace("_", " ").capitalize(), field.metadata
    low, high = (
        next((form.bounds[end] for end in ends if end in form.bounds), None) for ends in (("ge", "gt"), ("le", "lt"))
    )
    return Setting(
        name, said.get("title") or words, said.get("description", ""), cast(Sort, sort), field.default, low, high,
        cast("tuple[str, ...]", form.choices), form.optional,
    )  # fmt: skip


# Finding stored runs: by words, by the tags in their names, and as groups whose members can be compared.


LISTED = 500  # runs that a page lists at most; the search goes through all


def search(key: str, start: str = "") -> str:
    """Draws the field in which runs are looked for."""
    placeholder, help_text = "name, #tag, method, data, id", WORDS["fields"]["search"]
    return st.text_input("Search", start, key=key, placeholder=placeholder, max_chars=60, width=240, help=help_text)


def wanted(text: str, store: Store) -> Callable[[Named], bool] | None:
    """Tells, for `Store.list_runs`, which runs have every word in their name, id, method, dataset or the preset whose set
    they belong to; None where no word is given.

    A word with # must be a whole tag.
    """
    if not (words := text.lower().split()):
        return None
    preset_of_runs = Sets(store).preset_of_runs()

    def has_all(run: Named) -> bool:
        said = " ".join((run.id, run.name, preset_of_runs.get(run.id, ""), run.method, run.dataset)).lower()
        return all(word in (tags(run.name) if word.startswith("#") else said) for word in words)

    return has_all


def tags(name: str) -> tuple[str, ...]:
    """The words with # in a run's name, in lower case."""
    return tuple(word for word in name.lower().split() if word.startswith("#") and len(word) > 1)


def groups(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Groups of at least two runs, as ids by the group's name, in the runs' order.

    One for each tag, and one for all runs that were tested on the same examples in the same tasks.
    """
    by_tag: dict[str, list[str]] = {}
    by_test: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        for tag in dict.fromkeys(tags(run.name)):
            by_tag.setdefault(tag, []).append(run.id)
        if (spec := run.readable_spec) is not None:
            test = (spec.data.dataset, spec.data.test_per_class, spec.public_labels, spec.scenario)
            by_test.setdefault(test, []).append(run)
    found = {tag: ids for tag, ids in by_tag.items() if len(ids) > 1}
    for same in by_test.values():
        if len(same) > 1:
            data, kind = same[0].spec.data.dataset, same[0].spec.scenario.kind
            name = f"{datasets.called(data)}: {scenarios.card(kind).title.lower()}"
            n_alike = sum(other == name or other.startswith(f"{name} (") for other in found)
            found[f"{name} ({n_alike + 1})" if n_alike else name] = [run.id for run in same]
    return found


def typed(text: str, read: Callable[[str], T]) -> tuple[list[T], list[str]]:
    """The values in a field of several, between blanks or commas, and the parts that `read` refuses."""
    values, bad = [], []
    for part in text.replace(",", " ").split():
        try:
            values.append(read(part))
        except ValueError:
            bad.append(part)
    return values, bad


# Select boxes for a run and for parts of it.


T = TypeVar("T")
_OFFERED = 200  # runs in a select box at most
_STARTED = tuple(status for status in get_args(Status) if status != "queued")


def told_apart(titles: Mapping[T, str]) -> dict[T, str]:
    """The titles, equal ones with the names of their options: a select box cannot tell options of one title apart."""
    counts = Counter(titles.values())
    return {option: title if counts[title] == 1 else f"{title} ({option})" for option, title in titles.items()}


def choice(title: str, titles: Mapping[T, str], start: object, draw: Callable[..., Any] = st.selectbox, **looks: Any) -> T:
    """The option chosen in a select box, which starts from `start`, or from the first option where that is none.

    `titles`: the options and their titles. `draw`: another widget of the same kind. `looks`: what else it takes.
    """
    options, shown = list(titles), told_apart(titles)
    index = options.index(cast(T, start)) if start in titles else 0
    chosen: T = draw(title, options, index, format_func=shown.__getitem__, **looks)
    return chosen


def select(
    view: state.View, name: str, title: str, titles: Mapping[T, str], draw: Callable[..., Any] = st.selectbox,
    *, start: object = None, key: str | None = None, **looks: Any,
) -> T:  # fmt: skip
    """The same for a link's field, from the link's value on, or from `start`; with a `key` of its own, if it has one."""
    start = view[name] if start is None else start
    return view.keep(name, choice(title, titles, start, draw, key=key or view.key(name), **looks))


def segmented(view: state.View, name: str, title: str, titles: Mapping[T, str], **looks: Any) -> T:
    """The same in a row of buttons."""
    return select(view, name, title, titles, row, **looks)


def buttons(title: str, options: Sequence[T], start: object, shown: Callable[[T], str], **looks: Any) -> T:
    """The option chosen in a row of buttons, which starts from `start`, or from the first option where that is none.

    `looks`: what else `st.segmented_control` takes.
    """
    return choice(title, {option: shown(option) for option in options}, start, row, **looks)


def row(title: str, options: Sequence[Any], index: int, **looks: Any) -> Any:
    """A row of buttons, called as a select box is."""
    return st.segmented_control(title, options, default=options[index], required=True, **looks)


# Numbers and switches of a link's field, bounded as in the link.


def whole(view: state.View, name: str, title: str, *, usual: int | None = None, of: str = "", width: int = 150) -> int:
    """A whole number. `usual`: the default if the link has no value; it depends on other choices, named by `of`."""
    low, high = _bounds(view, name)
    start = view[name] or usual or int(low)
    key = "-".join(filter(None, (view.key(name), of)))
    value = int(st.number_input(title, int(low), int(high), start, key=key, width=width))
    view.values[name] = None if value == usual else value
    return value


def number(view: state.View, name: str, title: str, *, start: float | None = None, width: int = 180) -> float:
    """A number. `start`: the default if the link has no value."""
    low, high = _bounds(view, name)
    # With a default, a toggle beside it uses the field's key, so the number needs another one.
    key = view.key(name) if start is None else f"{view.key(name)}-value"
    shown = float(view[name] or start or low)
    return view.keep(name, float(st.number_input(title, low, high, shown, key=key, format="%g", width=width)))


def share(view: state.View, name: str, title: str, low: float, step: float) -> float:
    """A share on a slider, from `low` to the link's upper bound."""
    return view.keep(name, float(st.slider(title, low, _bounds(view, name)[1], view[name], step, key=view.key(name))))


def flag(view: state.View, name: str, title: str, help: str | None = None) -> bool:
    """A toggle."""
    return view.keep(name, st.toggle(title, bool(view[name]), key=view.key(name), help=help))


def delta(view: state.View, name: str) -> float:
    """δ: a power of ten, or the value of the link."""
    linked = view[name]
    options, key = sorted({1e-8, 1e-7, 1e-6, 1e-5, 1e-4, linked}), view.key(name)
    return view.keep(name, float(st.select_slider("δ", options, linked, format_func=lambda one: f"{one:g}", key=key)))


def _bounds(view: state.View, name: str) -> tuple[float, float]:
    kind = view.kinds[name]
    kind = kind.kind if isinstance(kind, link.Maybe) else kind
    assert isinstance(kind, (link.Whole, link.Number)), name
    return kind.low, kind.high


def linked_run(view: state.View) -> tuple[Run | None, list[str]]:
    """The run that the link names, and a notice if the store does not have it."""
    if view["run"] is None:
        return None, []
    try:
        return state.store().get(str(view["run"])), []
    except BadInput as refused:
        return None, [f"{refused}."]


def one_of(title: str, options: Sequence[T], view: state.View, name: str, shown: Callable[[T], str]) -> T:
    """The option chosen in a select box; the only option, without a box and left out of the link, if there is just one."""
    if len(options) == 1:
        view.values.pop(name, None)
        return options[0]
    return select(view, name, title, {option: shown(option) for option in options}, key=view.key(f"{name}-{len(options)}"))


@st.cache_data(ttl=3, show_spinner=False)
def runs(where: tuple[str, str, str], linked: str | None, of: Literal["clients", "texts"]) -> dict[str, str]:
    """Names by id of the newest started runs on clients' data, or that train a language model, and of the linked run."""
    language = {name for name, card in methods.CARDS.items() if card.params().inputs == "text"}

    store = state.store()
    found = store.list_runs(
        _OFFERED, states=_STARTED,
        only=lambda run: run.scenario == "federated" if of == "clients" else run.method in language,
    )  # fmt: skip
    if linked not in {run.id for run in found}:  # of another kind, or older than all that are offered
        found += store.list_runs(1, states=_STARTED, only=lambda run: run.id == linked)
    return {run.id: f"{run.name} ({run.status}, {run.id[:4]})" for run in found if run.readable_spec is not None}


# Uploads that the framework holds in memory: anybody may send them, whether or not a page asks for a file.


_OF_SESSION: Final = 2  # pages have two boxes for a file
_MOST_BYTES: Final = 2**30  # of all sessions


def release(dropped: UploadedFile) -> None:
    """Frees the memory of an upload whose content has been copied to the disk; the box still knows it."""
    context = get_script_run_ctx()
    manager = None if context is None else context.uploaded_file_mgr
    if context is not None and isinstance(manager, MemoryUploadedFileManager) and isinstance(dropped, UploadedFile):
        manager.add_file(context.session_id, UploadedFileRec(dropped.file_id, dropped.name, dropped.type, b""))
        dropped.truncate(0)


def bound() -> None:
    """Drops the oldest uploads of a session that has more than its pages ask for, and of all sessions above the most."""
    manager = runtime.get_instance().uploaded_file_mgr
    assert isinstance(manager, MemoryUploadedFileManager)
    held = {session: list(files.values()) for session, files in manager.file_storage.copy().items()}
    total = sum(len(file.data) for files in held.values() for file in files)
    for session, files in held.items():
        for place, file in enumerate(files):
            if total > _MOST_BYTES or place < len(files) - _OF_SESSION:
                manager.remove_file(session, file.file_id)
                total -= len(file.data)


# What the form on Train calls a run's settings and their options, for every page that names one. Pure: no streamlit.


NO_WIDGET = ("permutations",)  # thousands of numbers: for files and the command line
LABELS: Final = {
    "prior-const": ("One public list", "All names are public beforehand; every class gets noise from every task."),
    "prior": ("A public list per task", "It is public which task has which labels: less noise, a stronger assumption."),
    "dp-learned": ("Learned under DP", "A share of ε pays for the list; labels that few people have are left out."),
    "data": ("From the data: not DP", "The list itself can show that someone took part."),
}
TUNED: Final = {
    "no": "not by looking at results on any data",
    "public": "on public data (by your word)",
    "private": "on the private data (not accounted)",
}
ADJACENCY: Final = {"add-remove": "one example present or left out", "replace": "one example replaced"}
OF_CLIENTS: Final = {"add-remove": "one client present or left out", "replace": "one client replaced"}
NOISE: Final = {"release": "fresh, never recorded", "seeded": "seeded: repeatable, for teaching only"}
TITLES: Final = WORDS["titles"]  # by the name that files and commands have for the setting


def title(key: str, method: str, scenario: str) -> str:
    """The label of a setting's field on the form with this method and stream; the key itself where it has none."""
    setting = setting_of(key, method, scenario)
    return TITLES.get(key, key) if setting is None else setting.title


def options(key: str, scenario: str) -> Mapping[str, str]:
    """The options of a setting that every run has, by name; empty where it is no choice among named ones."""
    cards: Mapping[str, Mapping[str, Any]] = {
        "method": methods.CARDS, "data.dataset": datasets.CARDS, "data.backbone": backbones.CARDS,
        "scenario.kind": scenarios.CARDS,
    }  # fmt: skip
    if key in cards:
        return {name: card.title for name, card in cards[key].items()}
    labels = {name: title for name, (title, _) in LABELS.items()}
    named = {"labels": labels, "privacy.adjacency": adjacency(scenario), "privacy.noise": NOISE, "tuned": TUNED}
    return named.get(key, {})


def adjacency(scenario: str) -> Mapping[str, str]:
    """How neighbouring datasets may differ in this stream."""
    return OF_CLIENTS if scenario in scenarios.CARDS and scenarios.CARDS[scenario].has_clients else ADJACENCY


def setting_of(key: str, method: str, scenario: str) -> Setting | None:
    """The setting of this method or stream by its dotted key; None for any other key."""
    table, _, name = key.partition(".")
    settings = {"params": of_method(method), "scenario": of_scenario(scenario, method)}.get(table, ())
    return next((one for one in settings if one.name == name), None)


@cache
def of_scenario(scenario: str, method: str) -> tuple[Setting, ...]:
    """A stream's own settings, with clients for a method that has some; the default one's for an unknown name."""
    name = scenario if scenario in scenarios.CARDS else checks.DEFAULT_SCENARIO
    has_clients = method in methods.CARDS and methods.CARDS[method].has_clients
    return settings(federated.settings_of(name, has_clients=has_clients), leave_out=("kind", *NO_WIDGET))


@cache
def of_method(method: str) -> tuple[Setting, ...]:
    """A method's own settings, the default one's for an unknown name; the help of each includes its printed value."""
    card = methods.CARDS[method if method in methods.CARDS else checks.DEFAULT_METHOD]
    return tuple(
        replace(one, help=f"{one.help} {card.printed.of_setting(f'params.{one.name}')}".rstrip())
        for one in settings(card.params)
    )
