"""Runs worth trying, by name: each a question, an expected duration and a complete spec, in `assets/presets/NAME.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from dpcl_core import checks, paths
from dpcl_core.errors import BadInput
from dpcl_core.spec import RunSpec, Spec


class Preset(Spec):
    """What a visitor reads of a preset. `seconds` is the expected duration on two CPU cores."""

    name: str
    title: str
    question: str
    seconds: float
    live_demo: bool


def names() -> list[str]:
    """The presets, live demos first, then by expected duration."""
    found = [about(path.stem) for path in _folder().glob("*.toml")]
    return [preset.name for preset in sorted(found, key=lambda preset: (not preset.live_demo, preset.seconds, preset.name))]


def load(name: str) -> RunSpec:
    """The spec of a preset. Raises BadInput naming the known presets."""
    return checks.parse(raw(name))


def raw(name: str) -> dict[str, object]:
    """The settings of a preset as written, for `--set` to change. Raises BadInput naming the known presets."""
    return dict(_read(name)["spec"])


def about(name: str) -> Preset:
    """What a visitor reads of a preset. Raises BadInput naming the known presets."""
    return Preset.model_validate({"name": name, **_read(name)["about"]})


def _read(name: str) -> dict[str, dict[str, object]]:
    known = sorted(path.stem for path in _folder().glob("*.toml"))
    if name not in known:
        raise BadInput("preset", name, f"must be one of {', '.join(known)}")
    text = (_folder() / f"{name}.toml").read_text(encoding="utf-8")
    return cast(dict[str, dict[str, object]], checks.read_toml(text))


def _folder() -> Path:
    return paths.assets_dir() / "presets"
