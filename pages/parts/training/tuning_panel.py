"""The panel of a tuning: status line, trials, and the best trial's settings for the full run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import streamlit as st

from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import epsilon_label, span
from dpcl_core.methods import catalog as methods
from dpcl_core.runs import progress_estimate
from dpcl_core.runs.studies import Studies, Study
from dpcl_core.tuning import outcome
from pages.parts.shell import address, state, status_line, style
from pages.parts.shell.figure_card import show
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import run_panel, train_form

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.spec import RunSpec

ANCHOR = "tuning"


def studies() -> Studies:
    """The tunings of the app's store."""
    return Studies(state.store())


def title(study: Study) -> str:
    """A tuning in one line, for a list."""
    done = f"{len(study.trials)} of {study.tune.n_trials} trials"
    return f"{_what(study)}, on {study.tune.proxy or 'the private data'}: {done}, {study.turn.status}"


def _what(study: Study) -> str:
    base = study.tune.base
    budget = epsilon_label(study.tune.epsilon, methods.standing(base))
    return f"{methods.card(base.method).title} for {base.data.dataset}, {budget}, seed {study.tune.seed}"


def panel(view: View, study_id: str, form: RunSpec | None) -> None:
    """Draws the linked tuning, refreshed every second while active. `form`: the current spec of the form."""
    try:
        study = studies().get(study_id)
    except BadInput as refused:
        st.warning(plain(f"{refused}."))
        return
    if study.turn.is_over:
        _draw(view, study, form)
    else:
        _watch(view, study_id, form)


@st.fragment(run_every=1.0)
@state.guarded
def _watch(view: View, study_id: str, form: RunSpec | None) -> None:
    study = studies().get(study_id)
    if study.turn.is_over:
        st.rerun()  # the tuning has ended: rerun the page without a timer
    _draw(view, study, form)


def _draw(view: View, study: Study, form: RunSpec | None) -> None:
    line = words(study)
    with st.container(key="card-tuning", gap="small"):
        with st.container(key="status-line-tuning", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(f'<div id="{ANCHOR}" style="scroll-margin-top: 7rem">{run_panel.pill(line)}</div>', width="stretch")
            _buttons(view, study)
        if line.fraction is not None:
            st.html(run_panel.segments(line.fraction, study.tune.n_trials))
        st.caption(plain(f"{_what(study)}. {outcome.privacy_sentence(study.tune)}"))
        run_panel.log(study.turn, "tuning-log")
        _best(view, study, form)
        if study.trials and study.sizes is not None:
            _trials(study)


def words(study: Study) -> status_line.StatusLine:
    """The status line of a tuning."""
    done, n_trials = len(study.trials), study.tune.n_trials
    kept = f"{done} of {n_trials} trials are kept" if done else "no trial had ended yet"
    fraction, seconds = done / n_trials, sum(trial.seconds for trial in study.trials)
    if study.turn.status == "starting":
        busy = status_line.StatusLine("Starting", "Tuning starts", "loading the tuning data", "busy")
    else:
        left = progress_estimate.seconds_left(fraction, seconds)
        when = f"{status_line.between(*left)} left" if left is not None else ""
        busy = status_line.StatusLine("Running", f"Trial {min(done + 1, n_trials)} of {n_trials}", when, "busy", fraction)
    done_line = status_line.StatusLine("Finished", f"{n_trials} trials", f"took {span(seconds)}", "good")
    stops = "; trials that ended are kept"
    return status_line.of_turn(study.turn, "Tuning", fraction, busy=busy, done=done_line, kept=kept, stops=stops)


def _buttons(view: View, study: Study) -> None:
    if run_panel.stop_button(study.turn, "tune-stop"):
        return

    def resume() -> None:
        state.executor().submit(studies().resume(study.id))

    def close() -> None:
        view.go({key: text for key, text in address.parameters().items() if key != "tu"})

    if study.is_resumable:
        st.button("Resume", key="tune-resume", type="primary", on_click=run_panel.attempt(resume))
    st.button("Close", key="tune-close", on_click=close)


def _best(view: View, study: Study, form: RunSpec | None) -> None:
    """Draws the best trial's settings for the full data, and the button that loads them into the form."""
    best = outcome.best(study.trials)
    if best is None or study.sizes is None:
        return
    scaled = outcome.transferred(best, study.sizes)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="tuning-best"):
        st.markdown(
            f"**For the full data:** learning rate {scaled.learning_rate:.3g}, sampling rate {scaled.sample_rate:.3g} "
            f"(about {scaled.batch_size:.0f} examples a batch), clipping norm {scaled.clip_norm:.3g}.",
            width="stretch",
            help=f"r = {study.sizes.n_final:g} / {study.sizes.n_tune} = {scaled.ratio:.3f}. The batch grows by r, so the "
            f"sampling rate stays; the learning rate is multiplied by √r = {scaled.learning_rate_factor:.3f}; clipping "
            "norm and epochs stay.",
        )
        kind: Literal["primary", "secondary"] = "primary" if study.turn.status == "finished" else "secondary"
        if st.button("Use these settings", key="tune-use", type=kind):
            base = form if form is not None and form.method == study.tune.base.method else None
            parameters = train_form.parameters_of(outcome.tuned_spec(study.tune, scaled, base=base))
            kept = {key: text for key, text in address.parameters().items() if key in ("run", "tu", "f")}
            view.go(parameters | kept)
            st.rerun()


def _trials(study: Study) -> None:
    from dpcl_core.figures import tuning as figures

    table, sizes = frame(study), study.sizes
    assert sizes is not None  # checked by the caller
    picture = figures.trials(table, n_trials=study.tune.n_trials, n_validation=sizes.n_validation, dark=style.is_dark())
    show(picture, None, key="tuning-trials", live=True)
    shown = table.assign(accuracy=(100 * table["accuracy"]).round(1), trouble=table["trouble"].fillna(""))
    st.dataframe(
        shown,
        key="tuning-table",
        hide_index=True,
        height=min(250, 38 + 35 * len(shown)),
        column_config={
            "trial": st.column_config.NumberColumn("Trial", width="small"),
            "accuracy": st.column_config.NumberColumn("Held-out accuracy", format="%.1f %%"),
            "learning_rate": st.column_config.NumberColumn("Learning rate", format="%.2e"),
            "batch_size": st.column_config.NumberColumn("Batch"),
            "clip_norm": st.column_config.NumberColumn("Clipping norm", format="%.2f"),
            "trouble": st.column_config.TextColumn("Failed because"),
        },
        column_order=[name for name in shown.columns if name != "trouble" or shown["trouble"].any()],
        alt=f"{len(shown)} trials with accuracy on held-out examples, learning rate, batch size and clipping norm",
    )
    st.caption(
        f"{sizes.n_tune} examples to train on, {sizes.n_validation} held out; the test examples are not used. Learning rate "
        "and clipping norm are drawn on a logarithmic scale, the batch size on a linear one: the papers give only ranges."
    )


def frame(study: Study) -> pd.DataFrame:
    """One row a trial: trial (from 1), accuracy (in [0, 1]; NaN: failed), learning_rate, batch_size, clip_norm, trouble."""
    import pandas as pd

    columns = ["trial", "accuracy", "learning_rate", "batch_size", "clip_norm", "trouble"]
    rows = [
        (trial.number + 1, trial.accuracy, trial.learning_rate, trial.batch_size, trial.clip_norm, trial.trouble)
        for trial in study.trials
    ]
    return pd.DataFrame(rows, columns=columns).astype({"accuracy": "float64"})
