"""The lessons' modules by name: a new lesson is a text, a module, and a line here and in `dpcl_core.lessons.text.NAMES`."""

from __future__ import annotations

from pages.parts.lessons import digits, label, modes, noise, shared, sign, surprise
from pages.parts.lessons.stage import Acts, Control

ACTS: dict[str, Acts] = {
    "label": label.ACTS,
    "noise": noise.ACTS,
    "shared": shared.ACTS,
    "surprise": surprise.ACTS,
    "sign": sign.ACTS,
    "modes": modes.ACTS,
    "digits": digits.ACTS,
}
CONTROLS: dict[str, tuple[Control[float], ...]] = {
    "label": label.CONTROLS,
    "noise": noise.CONTROLS,
    "shared": shared.CONTROLS,
    "surprise": surprise.CONTROLS,
    "sign": sign.CONTROLS,
    "modes": modes.CONTROLS,
    "digits": digits.CONTROLS,
}
