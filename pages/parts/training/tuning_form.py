"""The part of the Train page that starts a tuning: on which data, how many trials, and the tunings there have been."""

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
from pages.parts.shell import state
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import run_panel, tuning_panel
from pages.parts.training.train_form import codec, raw_of

if TYPE_CHECKING:
    from dpcl_core.spec import RunSpec

ON = {
    "public": ("On a public dataset", "Costs no privacy: the private data are not touched."),
    "private": ("On the private data", "Not accounted: no ε covers it."),
}


def form(view: View, values: Mapping[str, object], spec: RunSpec | None) -> None:
    """The widgets, in an expander; Start puts a tuning into the queue and shows it."""
    is_shown = view["study"] is not None
    with st.expander("Tune …", expanded=is_shown, key=view.key("tune")):
        if is_shown:
            st.markdown(f"[The tuning is at the top of this page.](#{tuning_panel.ANCHOR})")
        st.markdown("Search learning rate, batch size and clipping norm for this form before the run.")
        if spec is None:
            st.caption("The form has to be right first: see the sentence above.")
        elif not settings.can_tune(spec.method):
            st.caption("This method is not trained: the budget fixes its noise, and there is nothing to tune.")
        else:
            _choices(values, spec)
        _earlier(view, values)


def _choices(values: Mapping[str, object], spec: RunSpec) -> None:
    on = st.radio(
        "Tune", list(ON), format_func=lambda name: ON[name][0], captions=[text for _, text in ON.values()], key="tune-on"
    )
    n_trials = st.number_input(
        "Trials", 1, 500, 20, key="tune-trials", help="Trainings on 70 % of one task's examples, measured on the other 30 %."
    )
    proxy = _proxy(spec.data.dataset) if on == "public" else None
    if on == "private":
        st.warning(
            f"Tuning on the private data is not accounted: {n_trials} trials and the final run are {n_trials + 1} uses of "
            "the same data, of which the statement counts one. It will say so."
        )
    budgets, seeds = sorted(spec.privacy.epsilons), spec.seeds
    usual = budgets.index(run_panel.usual_focus(spec))
    left, right = st.columns(2, gap="small")
    with left:
        epsilon = st.selectbox("For ε", budgets, index=usual, format_func=epsilon_text, key=f"tune-epsilon-{budgets}")
    with right:
        seed = st.selectbox("For seed", seeds, key=f"tune-seed-{seeds}")
    tune, refusal = _checked(values, on, proxy, n_trials, epsilon, seed)
    if refusal:
        st.error(plain(refusal))
    if st.button("Start tuning", width="stretch", disabled=tune is None, key="tune-start") and tune is not None:
        _start(values, tune)


def _proxy(dataset: str) -> str | None:
    here = _proxies_here(dataset)
    if not here:
        st.caption("No other dataset is on this computer: put one into the folder that DPCL_DATA names.")
        return None
    return st.selectbox(
        "Public dataset", here, format_func=lambda name: datasets.card(name).title, key=f"tune-proxy-{dataset}",
        help="Only sets that share no example with the private one.",
    )  # fmt: skip


@st.cache_data(ttl=60, show_spinner=False)
def _proxies_here(dataset: str) -> tuple[str, ...]:
    """Datasets that may stand in for this one and whose files can be read now."""
    return tuple(name for name in settings.proxies(dataset) if datasets.available(datasets.card(name)) is None)


def _checked(
    values: Mapping[str, object], on: str, proxy: str | None, n_trials: int, epsilon: float, seed: int
) -> tuple[TuneSpec | None, str | None]:
    """The tuning, or the one sentence saying what to change (none where the form has said it already)."""
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


def _start(values: Mapping[str, object], tune: TuneSpec) -> None:
    from dpcl_core.runs.worker import default_device

    study_id = tuning_panel.studies().create(tune, device=default_device())
    state.executor().submit(study_id)
    _show(values, study_id)


def _earlier(view: View, values: Mapping[str, object]) -> None:
    found = {study.id: study for study in tuning_panel.studies().newest()}
    if not found:
        return
    shown = cast("str | None", view["study"])
    known = list(found) if shown is None or shown in found else [shown, *found]
    picked = st.selectbox(
        "Tunings so far", known, index=known.index(shown) if shown is not None else None, placeholder="Show one …",
        format_func=lambda name: tuning_panel.title(found[name]) if name in found else name, key=view.key("earlier"),
    )  # fmt: skip
    if picked != shown:
        _show(values, picked)


def _show(values: Mapping[str, object], study_id: str | None) -> None:
    """Puts the tuning into the link of the form as it is now, and starts the page anew with it."""
    asked = st.query_params.to_dict()
    link = codec(str(values["method"]), str(values["scenario"])).write({**values, "study": study_id})
    st.session_state["show-study"] = link | {key: asked[key] for key in ("run", "f") if key in asked}
    st.rerun()
