"""What the form on Train calls a run's settings and their options, for every page that names one. Pure: no streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts.shell import fields

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
TITLES: Final[Mapping[str, str]] = {
    "method": "Method",
    "data.dataset": "Dataset",
    "data.train_per_class": "Training examples per class",
    "data.train_per_source": "Training examples per source",
    "data.test_per_class": "Test examples per class",
    "data.backbone": "Network for the features",
    "data.resolution": "Resolution",
    "data.axes": "Axes",
    "scenario.kind": "Stream",
    "scenario.permutations": "Permutations",
    "labels": "Label list",
    "public_labels": "Labels assumed public",
    "privacy.epsilons": "Privacy budget ε",
    "privacy.delta": "δ",
    "privacy.adjacency": "Neighbouring datasets differ by",
    "privacy.noise": "Noise",
    "privacy.label_share": "Share of ε for the list of labels",
    "tuned": "These settings were tuned",
    "seeds": "Seeds",
}  # by the name that files and commands have for the setting


def title(key: str, method: str, scenario: str) -> str:
    """The label of a setting's field on the form with this method and stream; the key itself where it has none."""
    setting = setting_of(key, method, scenario)
    return TITLES.get(key, key) if setting is None else setting.title


def options(key: str, scenario: str) -> Mapping[str, str]:
    """The options of a setting that every run has, by name; empty where it is no choice among named ones."""
    match key:
        case "method":
            return {name: card.title for name, card in methods.CARDS.items()}
        case "data.dataset":
            return {name: card.title for name, card in datasets.CARDS.items()}
        case "data.backbone":
            return {name: card.title for name, card in backbones.CARDS.items()}
        case "scenario.kind":
            return {name: card.title for name, card in scenarios.CARDS.items()}
        case "labels":
            return {name: title for name, (title, _) in LABELS.items()}
        case "privacy.adjacency":
            return adjacency(scenario)
        case "privacy.noise":
            return NOISE
        case "tuned":
            return TUNED
    return {}


def adjacency(scenario: str) -> Mapping[str, str]:
    """How neighbouring datasets may differ in this stream."""
    return OF_CLIENTS if scenario in scenarios.CARDS and scenarios.CARDS[scenario].has_clients else ADJACENCY


def setting_of(key: str, method: str, scenario: str) -> fields.Setting | None:
    """The setting of this method or stream by its dotted key; None for any other key."""
    table, _, name = key.partition(".")
    settings: Sequence[fields.Setting] = ()
    if table == "params":
        settings = of_method(method)
    elif table == "scenario":
        settings = of_scenario(scenario)
    return next((one for one in settings if one.name == name), None)


def of_scenario(scenario: str) -> tuple[fields.Setting, ...]:
    """A stream's own settings; the default one's for an unknown name."""
    name = scenario if scenario in scenarios.CARDS else checks.DEFAULT_SCENARIO
    return fields.settings(scenarios.CARDS[name].settings, leave_out=("kind", *NO_WIDGET))


def of_method(method: str) -> tuple[fields.Setting, ...]:
    """A method's own settings, the default one's for an unknown name; the help of each includes its printed value."""
    card = methods.CARDS[method if method in methods.CARDS else checks.DEFAULT_METHOD]
    return tuple(
        replace(one, help=f"{one.help} {card.printed.of_setting(f'params.{one.name}')}".rstrip())
        for one in fields.settings(card.params)
    )
