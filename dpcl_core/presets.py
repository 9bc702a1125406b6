"""Presets by name: each a question, an expected duration and a complete spec, in `assets/presets/NAME.toml`.

An experiment of a paper has several runs: `[spec]` holds the first, each `[[also]]` another one as a label and its changed
settings. `run --preset` carries out the first, with `--all` all of them, as `reproduce` does. `[without.NETWORK]` holds the
changed settings of the first for a computer that lacks a network which is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Literal, cast

from dpcl_core import checks, paths
from dpcl_core.backbones import catalog as backbones
from dpcl_core.errors import BadInput, unknown
from dpcl_core.spec import RunSpec, Spec

Shows = Literal["budgets", "forgetting", "streams", "labels", "adapting", "claims", "words", "matching", "no-privacy"]


class Preset(Spec):
    """The description of a preset. `seconds`: expected duration of `[spec]` on two CPU cores (None: not measured).

    `shows`: what its answer is about, by which questions are grouped.

    `label` names the run of `[spec]` among those of an experiment; `seconds_in_all` is the duration of all runs.
    """

    name: str
    title: str
    question: str
    shows: Shows
    seconds: float | None
    live_demo: bool
    label: str = "main"
    seconds_in_all: float | None = None

    @property
    def asks_about_forgetting(self) -> bool:
        """Whether its answer says what was forgotten, beside what was learned."""
        return self.shows == "forgetting" or "forget" in f"{self.title} {self.question}".casefold()


class Also(Spec):
    """One more run of a preset: its label, and its changed settings in the form of `--set`."""

    label: str
    set: tuple[str, ...]


def names() -> list[str]:
    """The names of the presets: live demos first, then by expected duration, unmeasured ones last."""
    return list(_names(_folder()))


def load(name: str) -> RunSpec:
    """The spec of a preset. Raises BadInput naming the known presets."""
    return checks.parse(raw(name))


def startable(name: str) -> RunSpec:
    """The spec of a preset with the networks of this computer. Raises BadInput naming the known presets."""
    return checks.parse(raw_startable(name))


def raw_startable(name: str) -> dict[str, object]:
    """The raw settings of `startable`, which `--set` can change. Raises BadInput naming the known presets."""
    changes = cast("dict[str, dict[str, list[str]]]", _read(name).get("without", {}))
    lacking = [one["set"] for network, one in changes.items() if backbones.available(backbones.card(network)) is not None]
    return checks.apply_sets(raw(name), lacking[0]) if lacking else raw(name)


def variants(name: str) -> dict[str, RunSpec]:
    """Every run of a preset by its label, the one of `[spec]` first. Raises BadInput naming the known presets."""
    return _variants(name, raw(name))


def startable_variants(name: str, sets: Sequence[str] = ()) -> dict[str, RunSpec]:
    """The same with the networks of this computer, each run changed by `sets`, in the form of `--set`. Raises BadInput."""
    return _variants(name, raw_startable(name), sets)


def _variants(name: str, first: Mapping[str, object], sets: Sequence[str] = ()) -> dict[str, RunSpec]:
    specs = {about(name).label: checks.parse(checks.apply_sets(first, sets))}
    for entry in cast("list[object]", _read(name).get("also", [])):
        also = Also.model_validate(entry)
        if also.label in specs:
            raise BadInput(f"preset {name}", also.label, "must be the label of one run only")
        specs[also.label] = checks.parse(checks.apply_sets(first, [*also.set, *sets]))
    return specs


def raw(name: str) -> dict[str, object]:
    """The raw settings of a preset, which `--set` can change. Raises BadInput naming the known presets."""
    return deepcopy(cast("dict[str, object]", _read(name)["spec"]))


def about(name: str) -> Preset:
    """The description of a preset. Raises BadInput naming the known presets."""
    return _about(_path(name))


def _read(name: str) -> Mapping[str, object]:
    return _parsed(_path(name))


def _path(name: str) -> Path:
    known = _paths(_folder())
    if name not in known:
        raise unknown("preset", name, known)
    return known[name]


@cache
def _names(folder: Path) -> tuple[str, ...]:
    descriptions = [_about(path) for path in _paths(folder).values()]
    descriptions.sort(key=lambda one: (not one.live_demo, one.seconds is None, one.seconds or 0.0, one.name))
    return tuple(preset.name for preset in descriptions)


@cache
def _about(path: Path) -> Preset:
    return Preset.model_validate({"seconds": None, "name": path.stem, **cast("dict[str, object]", _parsed(path)["about"])})


@cache
def _paths(folder: Path) -> Mapping[str, Path]:
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


@cache
def _parsed(path: Path) -> Mapping[str, object]:
    return checks.read_toml(path.read_text(encoding="utf-8"))


def _folder() -> Path:
    return paths.assets_dir() / "presets"
