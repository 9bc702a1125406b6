"""Shared noise, interactively: its scale, a learner's accuracy under it, and what subtracting two pictures reveals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core.figures.picture import Provenance
from pages.parts.shell import figure_card, layout, link, style
from pages.parts.shell.text import percent
from pages.parts.shell.view import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpcl_core.lessons.shared_noise import Accuracies, Pictures

SCALES = (0.1, 0.5, 1.4, 5.0, 13.0, 45.0, 200.0, 1000.0, 8000.0, 40_000.0, 200_000.0)
_LOW, _HIGH = 0.001, 1e9
FIELDS = [link.Field("l_scale", "lc", "noise on a pixel", link.Maybe(link.Number(_LOW, _HIGH)), None)]
LEARNERS = ("one noise for all", "one noise for all, cut off", "fresh noise for each")
_UNITS, _RECORDS = 16, 50


def part(view: View, theorem: float | None) -> dict[str, object]:
    """Draws slider, accuracies, subtraction and second singular value. `theorem`: the scale from the theorem's card."""
    linked = cast("float | None", view["l_scale"])
    options = sorted({*SCALES, *([linked] if linked is not None else [])})
    start = linked if linked is not None else min(SCALES, key=lambda scale: abs(scale - (theorem or 13.0)))
    left, right = st.columns(2)
    with left, layout.card("sharing"):
        st.markdown("**The noise on a pixel**")
        scale = float(
            st.select_slider(
                "Scale b of the Laplace noise; a pixel has a range of 2", options, start, format_func=_text,
                key=f"{view.key('l_scale')}-{start:g}",
            )
        )  # fmt: skip
        _learners(scale)
    with right, layout.card("subtract"):
        _subtraction(scale)
        _second_value(scale)
    return {"l_scale": None if linked is None and scale == start else scale}


def _learners(scale: float) -> None:
    noisy, clean = _accuracies(scale), _accuracies(0.0)
    kinds = {
        "one noise for all, before a ReLU": (noisy.shared, clean.shared),
        "one noise for all, cut off at ±1": (noisy.shared_clipped, clean.shared_clipped),
        "fresh noise for each picture": (noisy.independent, clean.independent),
    }
    heads = ("accuracy of a small learner on new pictures", f"b = {_text(scale)}", "no noise")
    layout.table(heads, ((name, *map(percent, pair)) for name, pair in kinds.items()))
    st.caption(
        "Trained now, on the bundled digits: sixteen random public filters and a linear classifier; twice the scale on "
        "hidden units, as in the method. One draw of the noise. For the learner a fixed offset of any size is a random mask "
        "of units; an attacker simply subtracts it. The lesson “One noise for all” shows why."
    )
    if st.button("Train at every scale", key="every-scale"):
        st.session_state["every-scale-seen"] = True
    if st.session_state.get("every-scale-seen"):
        _every_scale(scale)


def _every_scale(scale: float) -> None:
    from dpcl_core.figures import shared_noise as sharing

    pictures, scales = bundled_pictures(), sorted({0.0, scale, *SCALES})
    with st.spinner("Training ..."):
        curves = accuracy_curves({each: _accuracies(each) for each in scales})
    picture = sharing.accuracy_by_scale(curves, chosen=scale, chance=1 / len(pictures.classes), dark=style.is_dark())
    figure_card.show(picture, pictures_source(), key="every-scale-figure", title="Accuracy of three learners")


def accuracy_curves(accuracies: Mapping[float, Accuracies]) -> dict[str, dict[float, float]]:
    """Accuracy by scale of the noise, for each of the three learners."""
    columns = zip(*((each.shared, each.shared_clipped, each.independent) for each in accuracies.values()), strict=True)
    return {name: dict(zip(accuracies, column, strict=True)) for name, column in zip(LEARNERS, columns, strict=True)}


def _subtraction(scale: float) -> None:
    st.markdown("**Subtract two records**")
    if st.button("Subtract two records", key="subtract-two"):
        st.session_state["subtracted"] = True
    if not st.session_state.get("subtracted"):
        st.caption("Two pictures with the same noise, and the difference of the noisy pictures.")
        return
    import numpy as np

    from dpcl_core.figures import class_sums

    pictures = bundled_pictures()
    first, second = (pictures.train[row] for row in pictures.one_of_each()[[3, 8]])
    noise = _noise(scale)
    left = (first + noise) - (second + noise)
    error = max(float(np.abs(left - (first - second)).max()), 1e-16)
    picture = class_sums.strips(
        {
            "without noise (public teaching data)": [first, second],
            f"the same with one noise, b = {_text(scale)}": [first + noise, second + noise],
            "first minus second: without, with noise": [first - second, left],
        },
        ["first", "second"],
        finding=f"The noise is gone from the difference: no pixel is off by more than {error:.0e}, which is rounding.",
        dark=style.is_dark(),
    )
    figure_card.show(picture, pictures_source(), key="subtract-figure", title="Two pictures, the same noise")


def _second_value(scale: float) -> None:
    st.markdown("**The second singular value**")
    st.caption(
        "The noise changes a linear encoder's gradient only by a matrix of rank one. Subtract the noiseless part of a "
        "candidate dataset: if it is the true dataset, only one singular value remains."
    )
    if not st.button("Test two candidates", key="second-value"):
        return
    import numpy as np

    from dpcl_core.attacks import shared_noise_games
    from dpcl_core.privacy.noise import ReleaseNoise

    records = bundled_pictures().train[: _RECORDS + 1]
    theta = np.random.default_rng(0).normal(0, (2 / records.shape[1]) ** 0.5, (records.shape[1], _UNITS))
    chi1, chi2 = (scale * ReleaseNoise().laplace((size,)) for size in theta.shape)
    gradient = shared_noise_games.encoder_gradient(records[:-1], theta, chi1, chi2)
    candidates = {"the true data": records[:-1], "one picture replaced": np.vstack([records[:-2], records[-1:]])}
    values = {
        name: float(shared_noise_games.second_singular_value(gradient, shared_noise_games.cross_covariance(rows, theta)))
        for name, rows in candidates.items()
    }
    heads = ("candidate", f"second singular value at b = {_text(scale)}")
    layout.table(heads, ((name, f"{value:.2g}") for name, value in values.items()))


@st.cache_resource(show_spinner=False)
def bundled_pictures() -> Pictures:
    """The bundled digits as training and test pictures."""
    from dpcl_core.lessons import shared_noise

    return shared_noise.pictures()


@st.cache_data(max_entries=50, show_spinner=False)
def _accuracies(scale: float) -> Accuracies:
    from dpcl_core.lessons import shared_noise

    return shared_noise.accuracies(bundled_pictures(), scale)


@st.cache_data(max_entries=50, show_spinner=False)
def _noise(scale: float) -> NDArray[np.float64]:
    from dpcl_core.privacy.noise import ReleaseNoise

    return scale * ReleaseNoise().laplace((bundled_pictures().n_pixels,))


def pictures_source() -> Provenance:
    """Where numbers on these pictures come from."""
    pictures = bundled_pictures()
    return Provenance(pictures.title, len(pictures.train), "Laplace noise on pixels")


def _text(scale: float) -> str:
    return f"{scale:,.0f}" if scale >= 1000 else f"{scale:g}"
