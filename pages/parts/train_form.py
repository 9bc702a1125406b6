"""The form of a run, built from the cards: maps settings to widgets, to a link, and to the raw mapping for the checks."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core import checks, combinations, presets
from dpcl_core.data import catalog as datasets
from dpcl_core.data import files, own
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import counted, epsilon_text
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import NO_ODDS, WEAK_EPSILON, odds_bound
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios import federated
from dpcl_core.spec import DataSpec, PrivacySpec, RunSpec, fields_of
from pages.parts import fields, layout, link, pecl_claim, settings_form, state, visitor
from pages.parts.text import WORDS, plain

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
_NOT_HERE = " (not on this computer)"
_OF_RUN = ("method", "labels", "public_labels", "tuned", "seeds")  # the form's fields by the part of the spec they set
_OF_PRIVACY = ("epsilons", "adjacency", "noise", "label_share")
_SIZES = ("train_per_class", "train_per_source", "test_per_class")

Values = settings_form.Values


@dataclass(frozen=True)
class _Dataset(link.Written):
    """A dataset of the catalog, by name or title, or own:NAME, whose files need not be there."""

    def read(self, text: str) -> str:
        wanted = link.Text().read(text).strip()
        cards = datasets.CARDS.items()
        known = (name for name, card in cards if wanted.casefold() in (name.casefold(), card.title.casefold()))
        found = next(known, wanted)
        return link.checked(found, is_allowed=found in datasets.CARDS or found.startswith("own:"))


class _Codec(link.Codec):
    """Links to the Train page: they have the settings of the method and the scenario that they name."""

    def read(self, parameters: Mapping[str, str]) -> link.Read:
        named = parameters.get("m", checks.DEFAULT_METHOD), parameters.get("s", checks.DEFAULT_SCENARIO)
        return codec(*named).read(parameters)

    def write(self, values: Mapping[str, object], unknown: Mapping[str, str] | None = None) -> dict[str, str]:
        return codec(str(values["method"]), str(values["scenario"])).write(values, unknown)


CODEC: Final = _Codec()


@lru_cache(maxsize=200)
def codec(method: str, scenario: str) -> link.Codec:
    """The codec for links with the settings of this method and scenario (the defaults' for unknown names)."""
    field = link.Field
    return link.Codec(
        field("run", "run", "run", link.Maybe(link.Text(20)), None),
        # The second word is the name that a terminal knows.
        field("question", "question", "question", link.Maybe(link.Choice(tuple(presets.names()))), None, word="preset"),
        field("focus", "f", "budget shown", link.Maybe(link.BUDGET), None),
        field("rule", "ru", "prediction rule shown", link.Maybe(link.Text(20)), None),
        field("method", "m", "method", link.Choice(tuple(methods.CARDS)), checks.DEFAULT_METHOD),
        field("dataset", "d", "dataset", _Dataset(), DataSpec.dataset, always=True),
        field("backbone", "bb", "network", link.Text(), DataSpec.backbone),
        field("resolution", "px", "resolution", link.Maybe(link.Whole(1, 4096)), None),
        field("axes", "ax", "number of axes", link.Maybe(link.Whole(0, 4096)), None),
        field("train_per_class", "tr", "training examples per class", link.Maybe(link.Whole(1, 10**7)), None),
        field("train_per_source", "ts", "training examples per source", link.Maybe(link.Whole(1, 10**7)), None),
        field("test_per_class", "te", "test examples per class", link.Maybe(link.Whole(1, 10**7)), None),
        field("scenario", "s", "stream", link.Choice(tuple(scenarios.CARDS)), checks.DEFAULT_SCENARIO),
        *(settings_form.link_field("s", setting) for setting in fields.of_scenario(scenario, method)),
        *(settings_form.link_field("p", setting) for setting in fields.of_method(method)),
        field("labels", "l", "label list", link.Choice(tuple(fields.LABELS)), RunSpec.labels),
        field("label_share", "ls", "share of ε for the list", link.Number(0.001, 0.999), PrivacySpec.label_share),
        field("public_labels", "pl", "public labels", link.Maybe(link.Many(link.Text(60), 1000)), None),
        field("epsilons", "e", "ε", link.Many(link.BUDGET), PrivacySpec.epsilons),
        field("delta", "dl", "δ", link.Maybe(link.Number(0, 1)), None),
        field("adjacency", "a", "neighbours", link.Choice(tuple(fields.ADJACENCY)), PrivacySpec.adjacency),
        field("noise", "n", "noise", link.Choice(tuple(fields.NOISE)), PrivacySpec.noise),
        field("tuned", "tn", "settings tuned", link.Choice(tuple(fields.TUNED)), RunSpec.tuned),
        field("study", "tu", "tuning", link.Maybe(link.Text(20)), None),
        field("seeds", "sd", "seeds", link.Many(link.Whole(0, 2**32 - 1), 100), RunSpec.seeds),
    )


def values_of(spec: RunSpec) -> Values:
    """The form's values for a spec; a δ equal to the rule's becomes None."""
    values: Values = {name: getattr(spec, name) for name in _OF_RUN} | asdict(spec.data)
    values |= {name: getattr(spec.privacy, name) for name in _OF_PRIVACY}
    delta = None if spec.privacy.delta == _rule_delta(values) else spec.privacy.delta
    values |= {"scenario": spec.scenario.kind, "delta": delta}
    values |= {f"s.{name}": value for name, value in asdict(spec.scenario).items() if name != "kind"}
    return values | {f"p.{name}": value for name, value in asdict(spec.params).items()}


def parameters_of(spec: RunSpec, run_id: str | None = None, question: str | None = None) -> dict[str, str]:
    """The link that fills the form with a spec, shows a run, and keeps the question that the form started from."""
    return CODEC.write({**values_of(spec), "run": run_id, "question": question})


def raw_of(values: Mapping[str, object]) -> dict[str, object]:
    """The nested mapping that `checks.parse` reads, from the form's values."""
    delta = _rule_delta(values) if values["delta"] is None else values["delta"]
    return {
        **{name: values[name] for name in _OF_RUN},
        "params": _of_card(values, "p"),
        "data": {name: values[name] for name in fields_of(DataSpec)},
        "scenario": {"kind": values["scenario"], **_of_card(values, "s")},
        "privacy": {name: values[name] for name in _OF_PRIVACY} | ({} if delta is None else {"delta": delta}),
    }


def parsed(values: Mapping[str, object]) -> RunSpec | None:
    """The spec of the form's values, whether or not it can be carried out here; None where they are none."""
    return state.unless_refused(lambda: checks.parse(raw_of(values)))


def _of_card(values: Mapping[str, object], prefix: str) -> dict[str, Any]:
    """The settings that the method ("p") or the stream ("s") has of its own, by their names there."""
    return {key[2:]: value for key, value in values.items() if key.startswith(f"{prefix}.")}


def _people(values: Mapping[str, Any]) -> int | None:
    """The number of training examples of the form's dataset within its limits; None if unknown."""
    return _n_people(**{name: values[name] for name in ("dataset", "train_per_class", "train_per_source")})


def _rule_delta(values: Mapping[str, object]) -> float | None:
    """δ by the rule: the largest power of ten below 1/(10·n); None if n is unknown."""
    n_people = _people(values)
    return checks.default_delta(n_people) if n_people else None


@st.cache_data(ttl=300, show_spinner=False)
def _n_people(dataset: str, train_per_class: int | None, train_per_source: int | None) -> int | None:
    facts = state.unless_refused(datasets.facts, dataset, datasets.Caps(train_per_class, None, train_per_source))
    return None if facts is None else facts.n_train or None


@st.cache_data(ttl=60, show_spinner=False)
def _here(own_names: Sequence[str]) -> frozenset[str]:
    """The public datasets, and of one's own these, whose files are on this computer; uses no network."""
    return frozenset(filter(_is_here, (*datasets.CARDS, *own_names)))


def _is_here(dataset: str) -> bool:
    with suppress(BadInput):
        for member in datasets.members(datasets.card(dataset)):
            if member.name != datasets.BUNDLED and not member.made_per_source:
                files.find(member)
        return True
    return False


def form(
    view: state.View, row: Sequence[DeltaGenerator], settings: DeltaGenerator, bring: Callable[[], None]
) -> Values:
    """Draws the widgets, each of the five choices in its column, and returns their values.

    `bring`: called when other data are chosen. Raises BadInput for data of another visitor, of which nothing is shown.
    """
    values: Values = {}
    data, stream, method, lists, budget = row
    with data:
        # A select box of the datasets of the catalog, the visitor's own, and the one that a link names.
        here = _here(own_names=(mine := _own(where=state.where())))
        titles = {name: _dataset_title(name, here) for name in (*datasets.CARDS, *mine, str(view["dataset"]))}
        values["dataset"] = dataset = fields.select(
            view, "dataset", fields.TITLES["data.dataset"], titles, on_change=bring,
            help=WORDS["train_form"]["datasets"],
        )  # fmt: skip
    visitor.check_owner(dataset)
    with method:
        values["method"] = name = fields.select(view, "method", fields.TITLES["method"], _marked(values, "method"))
    with stream:
        values["scenario"] = kind = fields.select(
            view, "scenario", fields.TITLES["scenario.kind"], _marked(values, "scenario.kind")
        )
    card = methods.CARDS[name]
    with settings:
        values |= settings_form.draw(view, dataset)
        values |= settings_form.draw_of_card(view, "s", kind, fields.of_scenario(kind, name))
        values |= settings_form.draw_of_card(view, "p", name, fields.of_method(name), card.key_settings)
    with lists:
        values["labels"] = settings_form.label_list(view, card)
    with budget:
        values["epsilons"], values["seeds"] = _budget(view, values)
    with settings:
        values |= _more(view, values)
    return values


def _marked(values: Values, key: str) -> Mapping[str, str]:
    """The titles of methods or streams, those last that cannot go with the data, or the method, with the reason."""
    titles = fields.options(key, "")
    if (data := state.unless_refused(datasets.card, str(values["dataset"]))) is None:  # named by a link, and not here
        return titles
    usual = scenarios.CARDS[checks.DEFAULT_SCENARIO]

    def why(name: str) -> str:
        if key == "scenario.kind":
            return combinations.why_not(data, methods.CARDS[str(values["method"])], scenarios.CARDS[name])
        found = combinations.structural(data, methods.CARDS[name], usual)
        return found if found == "no texts" else ""  # the others hang on the stream

    reasons = {name: why(name) for name in titles}
    marked = {name: f"{title} (not here: {reasons[name]})" if reasons[name] else title for name, title in titles.items()}
    return dict(sorted(marked.items(), key=lambda one: bool(reasons[one[0]])))


def not_dp_reasons(values: Values) -> list[str]:
    """Why no bound holds for these settings, a sentence each; empty where one may."""
    settings = federated.settings_of(str(values["scenario"]), has_clients=methods.CARDS[str(values["method"])].has_clients)
    stream = settings(**_of_card(values, "s"))  # checked elsewhere
    is_read = values["labels"] == "data" or (values["labels"] == "prior" and stream.reads_lists)
    no_list = WORDS["train_form"]["no_list"] if is_read else ""
    return [*filter(None, (_reason(values, cast("tuple[float, ...]", values["epsilons"])), no_list))]


def remarks(values: Values) -> str:
    """What a list of labels needs, and how the settings were tuned, in words; empty where nothing is to be said."""
    how = "" if values["tuned"] == "no" else f"Settings tuned {fields.TUNED[str(values['tuned'])]}."
    return " ".join(filter(None, (settings_form.rarest(raw_of(values)), how)))


@st.cache_data(ttl=10, show_spinner=False)
def _own(where: tuple[str, str, str]) -> list[str]:
    """The names of the visitor's own datasets."""
    return visitor.mine(own.names_of_own_data())


_called = st.cache_data(ttl=10, show_spinner=False)(datasets.called)


def _dataset_title(name: str, here: Collection[str]) -> str:
    if not visitor.is_mine(name):
        return f"{name}{_NOT_HERE}"  # another visitor's title would tell that there are such data
    title = _called(name=name)
    is_here = name in here or (name not in datasets.CARDS and _is_here(name))  # a name that a visitor has typed
    return title if is_here else f"{title}{_NOT_HERE}"


def _budget(view: state.View, values: Values) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Draws the button with budgets and seeds behind it; returns both."""
    start, first = view["epsilons"], view["seeds"]
    others = " ".join(link.BUDGET.write(e) for e in start if e not in EPSILONS)
    typed, bad = fields.typed(str(st.session_state.get(view.key("exact"), others)), link.BUDGET.read)
    at_first = [e for e in start if e in EPSILONS]
    chosen = tuple(sorted({*st.session_state.get(view.key("epsilons"), at_first), *typed}))
    ends = [epsilon_text(epsilon) for epsilon in dict.fromkeys((*chosen[:1], *chosen[-1:]))]
    n_seeds = int(st.session_state.get(view.key("seeds"), len(first)))
    st.markdown(f":small[{fields.TITLES['privacy.epsilons']}]")
    with st.popover(f"{' to '.join(ends) or 'none'}, {counted(n_seeds, 'seed')}", width="stretch", key=view.key("budget")):
        st.pills(
            fields.TITLES["privacy.epsilons"], EPSILONS, selection_mode="multi", default=at_first, format_func=epsilon_text,
            key=view.key("epsilons"), help="One model each. ∞: no noise, for contrast.",
        )  # fmt: skip
        promise = "" if _reason(values, chosen) else _promise(values, chosen)
        st.caption(f"← stronger privacy · higher accuracy →\n\n{promise}")
        st.text_input(
            "Exact ε values", others, key=view.key("exact"), max_chars=200, placeholder="0.3 3",
            help="Further budgets in addition to the buttons, separated by spaces.",
        )  # fmt: skip
        if bad:
            st.warning(f"ε = {plain(bad[0][:40])}: must be a number above 0, or inf for no noise; left out.")
        counts = sorted({1, 3, 5, 10, len(first)})
        help_text = "One model each: another class order, another subset. Fewer than 3 give no interval."
        count = fields.buttons(fields.TITLES["seeds"], counts, len(first), str, key=view.key("seeds"), help=help_text)
        if count == 1:
            st.caption("One seed: no intervals, and the result is a single draw.")
        return chosen, (first if count == len(first) else tuple(range(count)))


def _reason(values: Values, chosen: tuple[float, ...]) -> str:
    """Why no bound holds for these budgets, whatever else is set; empty where one may."""
    is_without_noise = bool(chosen) and all(map(math.isinf, chosen))
    return pecl_claim.NO_NOISE if is_without_noise else pecl_claim.no_bound_reason(str(values["method"]))


def _promise(values: Mapping[str, object], epsilons: tuple[float, ...]) -> str:
    """What the chosen budgets promise under these settings; empty without one, and where the form refuses the settings."""
    of_cards = {"params": _of_card(values, "p"), "scenario": {"kind": values["scenario"], **_of_card(values, "s")}}
    spec = state.unless_refused(checks.parse, {"method": values["method"], "labels": values["labels"], **of_cards})
    if spec is None:
        return ""
    if methods.standing(spec) != "bound":
        return NO_ODDS
    if spec.scenario.recurrence == "every" and spec.scenario.n_users is None:
        return WORDS["train_form"]["same_examples"]
    finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
    if not (ends := [finite[0], finite[-1]] if len(finite) > 1 else finite):
        return ""
    bounds = [f"{math.ceil(1e4 * odds_bound(e, 0.0) - 1e-6) / 100:g} % at ε = {epsilon_text(e)}" for e in ends]
    note = " That is weak protection." if ends[-1] >= WEAK_EPSILON else ""
    listed = " to ".join(bounds)
    return f"A guess whether someone took part is right with probability at most {listed} (plus δ, worst case).{note}"


def delta_words(values: Mapping[str, Any]) -> str:
    """δ in words. Empty where the number of people is unknown."""
    people, chosen = _people(values), values["delta"]
    delta = _rule_delta(values) if chosen is None else chosen
    if delta is None or people is None:
        return ""
    return f"δ = {delta:g} for {people:,} training examples" + ("." if chosen is not None else ", by the rule.")


def _more(view: state.View, values: Mapping[str, object]) -> Values:
    """Draws the settings that most visitors leave as they are; returns their values."""
    labels, dataset = str(values["labels"]), str(values["dataset"])
    if (box := layout.folded("More settings", view.key("more"))) is None:
        more: Values = {name: view[name] for name in (*_SIZES, "delta", "adjacency", "noise", "tuned", "label_share")}
        return {**more, "public_labels": settings_form.public(view, labels, dataset, is_drawn=False)}
    more = {}
    with box:
        for name in _SIZES:
            title, start = fields.TITLES[f"data.{name}"], view[name]
            help_text = fields_of(DataSpec)[name].metadata["description"]
            more[name] = st.number_input(title, 1, None, start, 1, key=view.key(name), placeholder="all", help=help_text)
        more["delta"] = _delta_field(view, {"dataset": dataset, **more})
        for name, options in (("adjacency", fields.adjacency(str(values["scenario"]))), ("noise", fields.NOISE)):
            more[name] = fields.select(view, name, fields.TITLES[f"privacy.{name}"], options, st.radio)
        help_text = "The run's statement reports this. Tuning by hand counts, too."
        more["tuned"] = fields.select(view, "tuned", fields.TITLES["tuned"], fields.TUNED, help=help_text)
        more["label_share"] = settings_form.share(view, labels)
        more["public_labels"] = settings_form.public(view, labels, dataset, is_drawn=True)
    return more


def _delta_field(view: state.View, values: Mapping[str, object]) -> float | None:
    start, by_rule = view["delta"], _rule_delta(values)
    shown = f"{by_rule:g}" if by_rule is not None else "the default"
    typed = st.text_input(
        fields.TITLES["privacy.delta"], "" if start is None else link.BUDGET.write(start), key=view.key("delta"),
        placeholder=f"{shown} by the rule", max_chars=30,
        help="A small slack in addition to ε. Empty: the largest power of ten below 1/(10·people). Must be below 1/people.",
    )  # fmt: skip
    if not typed.strip():
        return None
    with suppress(ValueError):
        if 0 < float(typed) < 1:
            return float(typed)
    st.warning(f"δ = {plain(typed[:40])}: must be a number between 0 and 1; using {shown}.")
    return None


# A refusal of the form in the words of its fields: the message itself names settings as files and commands do.


# A name, in a list of options between quotes; no part of a path, of a file's name or of own:NAME.
_WORD: Final = re.compile(r"'([\w-]+)'|(?<![\w/\\.:-])([\w-]+)(?![\w/\\-]|\.\w)")
_KEY: Final = re.compile(r"\b(?:params|scenario|data|privacy)\.\w+")  # another setting, as files and commands name it


def in_words(refused: BadInput, values: Mapping[str, object] | None = None) -> str:
    """The refusal's sentence as the form speaks: its field's label, and options by their titles.

    `values`: of the form, whose method and stream have fields of their own; None outside it.
    """
    key = refused.field
    method, scenario = ("", "") if values is None else (str(values["method"]), str(values["scenario"]))

    def labelled(name: str) -> str:
        return fields.TITLES.get(name, name) if values is None else fields.title(name, method, scenario)

    label = labelled(key)
    if label == key:
        return str(refused)
    titles = {name: card.title for name, card in methods.CARDS.items() if "-" in name}
    options = dict(fields.options(key, scenario))
    if key not in ("privacy.adjacency", "privacy.noise", "tuned"):  # whose options are names between quotes alone
        titles, options = titles | options, {}
    setting = fields.setting_of(key, method, scenario) if values is not None else None
    options |= {} if setting is None else {name: fields.option_title(name) for name in setting.options}  # read as words, too
    value = str(refused).removeprefix(f"{key} = ").partition(f": {refused.allowed}")[0]
    listed = _WORD.sub(lambda word: _titled(word[2] or word[1], titles if word[2] else titles | options), refused.allowed)
    return f"{label} = {_titled(value, titles | options)}: {_KEY.sub(lambda other: labelled(other[0]), listed)}"


def _titled(name: str, titles: Mapping[str, str]) -> str:
    return f"“{titles[name]}”" if name in titles else name
