"""The form that starts a tuning (data, number of trials), and the list of earlier tunings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import streamlit as st

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_text
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import TuneSpec
from pages.parts.shell import address, layout, state
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import tuning_panel
from pages.parts.training.train_form import codec, raw_of

if TYPE_CHECKING:
    from dpcl_core.spec import RunSpec

ON = {
    "public": ("On a public dataset", "Costs no privacy: the private data are not read."),
    "private": ("On the private data", "Not accounted: no ε covers it."),
}


def form(view: View, values: Mapping[str, object], spec: RunSpec | None, device: str) -> None:
    """Draws the form in an expander; Start queues a tuning on the device and shows it."""
    is_shown = view["study"] is not None
    box = layout.folded("Tune …", view.key("tune"), is_open=is_shown)
    if box is None:
        return
    with box:
        if is_shown:
            st.markdown(f"[The tuning is at the top of this page.](#{tuning_panel.ANCHOR})")
        st.markdown("Search learning rate, batch size and clipping norm for this form before the run.")
        if spec is None:
            st.caption("First correct the form: see the message above.")
        elif not settings.can_tune(spec.method):
            st.caption("This method has no training: the budget determines its noise, and there is nothing to tune.")
        else:
            _choices(values, spec, device)
        _earlier(view, values)


def _choices(values: Mapping[str, object], spec: RunSpec, device: str) -> None:
    on = st.radio(
        "Tune", list(ON), format_func=lambda name: ON[name][0], captions=[text for _, text in ON.values()], key="tune-on"
    )
    n_trials = st.number_input(
        "Trials", 1, 500, 20, key="tune-trials", help="Trainings on 70 % of one task's examples, measured on the other 30 %."
    )
    proxy = _proxy(spec.data.dataset) if on == "public" else None
    if on == "private":
        st.warning(
            f"Tuning on the private data is not accounted: {n_trials} trials and the final run use the same data "
            f"{n_trials + 1} times, but the statement counts one use. It will say so."
        )
    budgets, seeds = sorted(spec.privacy.epsilons), spec.seeds
    usual = budgets.index(spec.privacy.usual_epsilon)
    left, right = st.columns(2, gap="small")
    epsilon = left.selectbox("For ε", budgets, index=usual, format_func=epsilon_text, key=f"tune-epsilon-{budgets}")
    seed = right.selectbox("For seed", seeds, key=f"tune-seed-{seeds}")
    tune, refusal = _checked(values, on, proxy, n_trials, epsilon, seed)
    if refusal:
        st.error(plain(refusal))
    if st.button("Start tuning", width="stretch", disabled=tune is None, key="tune-start") and tune is not None:
        _start(values, tune, device)


def _proxy(dataset: str) -> str | None:
    here = _proxies_here(dataset)
    if not here:
        st.caption("There is no other dataset on this computer: put one into the folder named by DPCL_DATA.")
        return None
    return st.selectbox(
        "Public dataset", here, format_func=lambda name: datasets.card(name).title, key=f"tune-proxy-{dataset}",
        help="Only datasets without examples of the private one.",
    )  # fmt: skip


@st.cache_data(ttl=60, show_spinner=False)
def _proxies_here(dataset: str) -> tuple[str, ...]:
    """Available datasets that may serve as proxy for this one."""
    return tuple(name for name in settings.proxies(dataset) if datasets.available(datasets.card(name)) is None)


def _checked(
    values: Mapping[str, object], on: str, proxy: str | None, n_trials: int, epsilon: float, seed: int
) -> tuple[TuneSpec | None, str | None]:
    """The tuning, or the sentence that says what to change (None if the form already says it)."""
    if on == "public" and proxy is None:
        return None, None
    raw = raw_of({**values, "epsilons": (epsilon,), "seeds": (seed,), "tuned": "no"})
    try:
        base = checks.parse(raw)
        tune = settings.parse({"base": base, "on": on, "proxy": proxy, "n_trials": n_trials})
        settings.check(tune)
    except BadInput as refused:
        return None, str(refused)
    return tune, None


def _start(values: Mapping[str, object], tune: TuneSpec, device: str) -> None:
    study_id = tuning_panel.studies().create(tune, device=device)
    state.executor().submit(study_id)
    _show(values, study_id)


def _earlier(view: View, values: Mapping[str, object]) -> None:
    studies = {study.id: study for study in tuning_panel.studies().newest()}
    if not studies:
        return
    shown = cast("str | None", view["study"])
    options = list(studies) if shown is None or shown in studies else [shown, *studies]
    picked = st.selectbox(
        "Tunings so far", options, index=options.index(shown) if shown is not None else None, placeholder="Show one …",
        format_func=lambda name: tuning_panel.title(studies[name]) if name in studies else name, key=view.key("earlier"),
    )  # fmt: skip
    if picked != shown:
        _show(values, picked)


def _show(values: Mapping[str, object], study_id: str | None) -> None:
    """Adds the tuning to the form's current link and reruns the page."""
    linked = address.parameters()
    link = codec(str(values["method"]), str(values["scenario"])).write({**values, "study": study_id})
    st.session_state["show-study"] = link | {key: linked[key] for key in ("run", "f") if key in linked}
    st.rerun()
