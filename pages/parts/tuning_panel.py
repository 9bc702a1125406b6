"""The panel of a tuning: status line, trials, and the best trial's settings for the full run."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import pandas as pd
import streamlit as st

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.figures import reproduction
from dpcl_core.figures.picture import epsilon_label, epsilon_phrase, epsilon_text, span
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.statement import Standing, at_least, shown_number
from dpcl_core.runs import run
from dpcl_core.runs.audits import Audit, Audits, Studies, Study, refusal
from dpcl_core.runs.run import Run, seconds_left
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import search, settings
from pages.parts import claim_calculator, fields, figure_card, layout, link, run_panel, state, status_line, train_form
from pages.parts.text import WORDS, capital, plain

ANCHOR = "tuning"


def title(study: Study) -> str:
    """A tuning in one line, for a list."""
    done = f"{len(study.trials)} of {study.tune.n_trials} trials"
    return f"{_what(study)}, on {study.tune.proxy or 'the private data'}: {done}, {study.turn.status}"


def _what(study: Study) -> str:
    base = study.tune.base
    budget = epsilon_label(study.tune.epsilon, methods.standing(base))
    return f"{methods.card(base.method).title} for {base.data.dataset}, {budget}, seed {study.tune.seed}"


def panel(view: state.View, study_id: str, form: RunSpec | None) -> None:
    """Draws the linked tuning, refreshed every second while active. `form`: the current spec of the form."""
    try:
        study = Studies(state.store()).get(study_id)
    except BadInput as refused:
        st.warning(plain(f"{refused}."))
        return
    if study.turn.is_over:
        _draw(view, study, form)
    else:
        _watch(view, study_id, form)


@state.each_second
def _watch(view: state.View, study_id: str, form: RunSpec | None) -> None:
    study = Studies(state.store()).get(study_id)
    if study.turn.is_over:
        st.rerun()  # the tuning has ended: rerun the page without a timer
    _draw(view, study, form)


def _draw(view: state.View, study: Study, form: RunSpec | None) -> None:
    line = words(study)
    with st.container(key="card-tuning", gap="small"):
        with st.container(key="status-line-tuning", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(f'<div id="{ANCHOR}" style="scroll-margin-top: 7rem">{run_panel.pill(line)}</div>', width="stretch")
            _buttons(view, study)
        if line.fraction is not None:
            st.html(run_panel.segments(line.fraction, study.tune.n_trials))
        st.caption(plain(f"{_what(study)}. {search.privacy_sentence(study.tune)}"))
        run_panel.log(study.turn, "tuning-log")
        _best(view, study, form)
        if study.trials and study.sizes is not None:
            table, n_held_out = frame(study), study.sizes.n_validation
            picture = figure_card.built(reproduction.trials, table, n_trials=study.tune.n_trials, n_validation=n_held_out)
            figure_card.show(picture, None, key="tuning-trials", live=True)
            shown = table.assign(accuracy=(100 * table["accuracy"]).round(1), trouble=table["trouble"].fillna(""))
            st.dataframe(
                shown, key="tuning-table", hide_index=True, height=min(250, 38 + 35 * len(shown)),
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
            )  # fmt: skip
            st.caption(WORDS["tuning_panel"]["trials"].format(sizes=study.sizes))


def words(study: Study) -> status_line.StatusLine:
    """The status line of a tuning."""
    done, n_trials = len(study.trials), study.tune.n_trials
    kept = f"{done} of {n_trials} trials are kept" if done else "no trial had ended yet"
    fraction, seconds = done / n_trials, sum(trial.seconds for trial in study.trials)
    if study.turn.status == "starting":
        busy = status_line.StatusLine("Starting", "Tuning starts", "loading the tuning data", "busy")
    else:
        left = run.seconds_left(fraction, seconds)
        when = f"{status_line.between(*left)} left" if left is not None else ""
        busy = status_line.StatusLine("Running", f"Trial {min(done + 1, n_trials)} of {n_trials}", when, "busy", fraction)
    done_line = status_line.StatusLine("Finished", f"{n_trials} trials", f"took {span(seconds)}", "good")
    stops = "; trials that ended are kept"
    return status_line.of_turn(study.turn, "Tuning", fraction, busy=busy, done=done_line, kept=kept, stops=stops)


def _buttons(view: state.View, study: Study) -> None:
    if run_panel.stop_button(study.turn, "tune-stop"):
        return

    def resume() -> None:
        state.executor().submit(Studies(state.store()).resume(study.id))

    def close() -> None:
        view.go({key: text for key, text in link.parameters().items() if key != "tu"})

    if study.is_resumable:
        st.button("Resume", key="tune-resume", type="primary", on_click=run_panel.attempt(resume))
    st.button("Close", key="tune-close", on_click=close)


def _best(view: state.View, study: Study, form: RunSpec | None) -> None:
    """Draws the best trial's settings for the full data, and the button that loads them into the form."""
    best = search.best(study.trials)
    if best is None or study.sizes is None:
        return
    scaled = search.transferred(best, study.sizes)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="tuning-best"):
        st.markdown(
            f"**For the full data:** learning rate {scaled.learning_rate:.3g}, sampling rate {scaled.sample_rate:.3g} "
            f"(about {scaled.batch_size:.0f} examples a batch), clipping norm {scaled.clip_norm:.3g}.",
            width="stretch",
            help=WORDS["tuning_panel"]["transferred"].format(sizes=study.sizes, scaled=scaled),
        )
        kind: Literal["primary", "secondary"] = "primary" if study.turn.status == "finished" else "secondary"
        if st.button("Use these settings", key="tune-use", type=kind):
            base = form if form is not None and form.method == study.tune.base.method else None
            parameters = train_form.parameters_of(search.tuned_spec(study.tune, scaled, base=base))
            view.go(parameters | {key: text for key, text in link.parameters().items() if key in ("run", "tu", "f")})
            st.rerun()


def frame(study: Study) -> pd.DataFrame:
    """One row a trial: trial (from 1), accuracy (in [0, 1]; NaN: failed), learning_rate, batch_size, clip_norm, trouble."""
    columns = ["accuracy", "learning_rate", "batch_size", "clip_norm", "trouble"]
    rows = [(trial.number + 1, *(getattr(trial, name) for name in columns)) for trial in study.trials]
    return pd.DataFrame(rows, columns=["trial", *columns]).astype({"accuracy": "float64"})


# The form that starts a tuning (data, number of trials), and the list of earlier tunings.


ON = {
    "public": ("On a public dataset", "Costs no privacy: the private data are not read."),
    "private": ("On the private data", "Not accounted: no ε covers it."),
}


def form(view: state.View, values: Mapping[str, object], spec: RunSpec | None, device: str) -> None:
    """Draws the form in an expander; Start queues a tuning on the device and shows it."""
    is_shown = view["study"] is not None
    if (box := layout.folded("Tune …", view.key("tune"), is_open=is_shown)) is None:
        return
    with box:
        if is_shown:
            st.markdown(f"[The tuning is at the top of this page.](#{ANCHOR})")
        st.markdown("Search learning rate, batch size and clipping norm for this form before the run.")
        if spec is None:
            st.caption("First correct the form: see the message above.")
        elif not settings.can_tune(spec.method):
            st.caption("This method has no training: the budget determines its noise, and there is nothing to tune.")
        else:
            _choices(values, spec, device)
        if not (studies := {study.id: study for study in Studies(state.store()).newest()}):
            return
        shown = view["study"]
        titles = fields.told_apart({name: title(study) for name, study in studies.items()})
        options = list(studies) if shown is None or shown in studies else [shown, *studies]
        picked = st.selectbox(
            "Tunings so far", options, index=options.index(shown) if shown is not None else None, placeholder="Show one …",
            format_func=lambda name: titles.get(name, name), key=view.key("earlier"),
        )  # fmt: skip
        if picked != shown:
            _show(values, picked)


def _choices(values: Mapping[str, object], spec: RunSpec, device: str) -> None:
    about = [text for _, text in ON.values()]
    on = st.radio("Tune", list(ON), format_func=lambda name: ON[name][0], captions=about, key="tune-on")
    n_trials = st.number_input(
        "Trials", 1, 500, 20, key="tune-trials", help="Trainings on 70 % of one task's examples, measured on the other 30 %."
    )
    proxy: str | None = None
    if on == "private":
        st.warning(WORDS["tuning_panel"]["private"].format(n=n_trials, uses=n_trials + 1))
    elif here := _proxies_here(spec.data.dataset):
        titles = {name: datasets.card(name).title for name in here}
        said = "Only datasets without examples of the private one."
        proxy = fields.choice("Public dataset", titles, None, key=f"tune-proxy-{spec.data.dataset}", help=said)
    else:
        st.caption("There is no other dataset on this computer: put one into the folder named by DPCL_DATA.")
    budgets, seeds = sorted(spec.privacy.epsilons), spec.seeds
    usual = budgets.index(spec.privacy.usual_epsilon)
    left, right = st.columns(2, gap="small")
    epsilon = left.selectbox("For ε", budgets, index=usual, format_func=epsilon_text, key=f"tune-epsilon-{budgets}")
    seed = right.selectbox("For seed", seeds, key=f"tune-seed-{seeds}")
    tune = None
    if on == "private" or proxy is not None:  # else the caption above says what is missing
        raw = train_form.raw_of({**values, "epsilons": (epsilon,), "seeds": (seed,), "tuned": "no"})
        try:
            asked = settings.parse({"base": checks.parse(raw), "on": on, "proxy": proxy, "n_trials": n_trials})
            settings.check_search(asked)
            tune = asked
        except BadInput as refused:
            st.error(plain(str(refused)))
    if st.button("Start tuning", width="stretch", disabled=tune is None, key="tune-start") and tune is not None:
        study_id = Studies(state.store()).create(tune, device=device)
        state.executor().submit(study_id)
        _show(values, study_id)


@st.cache_data(ttl=60, show_spinner=False)
def _proxies_here(dataset: str) -> tuple[str, ...]:
    """Available datasets that may serve as proxy for this one."""
    return tuple(name for name in settings.proxies(dataset) if datasets.available(datasets.card(name)) is None)


def _show(values: Mapping[str, object], study_id: str | None) -> None:
    """Adds the tuning to the form's current link and reruns the page."""
    linked = link.parameters()
    form_link = train_form.CODEC.write({**values, "study": study_id})
    st.session_state["show-study"] = form_link | {key: linked[key] for key in ("run", "f") if key in linked}
    st.rerun()


# The audit of a run: its button, its progress, and the proved lower bound next to claimed and accounted ε.


WHAT = WORDS["tuning_panel"]["audit"]


def first(run: Run) -> Callable[[], None] | None:
    """What draws the button of a run's first audit; None where it has had one, or can have none: `panel` then says more."""
    spec = run.readable_spec
    if spec is None or run.status != "finished" or Audits(state.store()).of_run(run.id) or refusal(spec) is not None:
        return None
    return partial(_button, run, None, is_refused=False, help_text=WHAT)


def audit_panel(run: Run, *, always: bool = False) -> None:
    """Draws the newest audit of a finished run, refreshed every second while active, or a button if there is none.

    `always`: explains audits even if there is none yet, and shows the results of every ε without a press.
    """
    if run.readable_spec is None or run.status != "finished":
        return
    run_audits = Audits(state.store()).of_run(run.id)
    if run_audits and not run_audits[0].turn.is_over:
        _watch_audit(run.id)
    else:
        _draw_audit_panel(run, run.readable_spec, run_audits, always=always)


@state.each_second
def _watch_audit(run_id: str) -> None:
    run, run_audits = state.store().get(run_id), Audits(state.store()).of_run(run_id)
    if not run_audits or run_audits[0].turn.is_over or run.readable_spec is None:
        st.rerun()  # the audit has ended: rerun the page without a timer
    else:
        _draw_audit_panel(run, run.readable_spec, run_audits, always=True)


def _draw_audit_panel(run: Run, spec: RunSpec, run_audits: list[Audit], *, always: bool) -> None:
    refused = refusal(spec) if not run_audits else None
    with st.container(key="card-audit", gap="small"):
        with st.container(key="status-line-audit", horizontal=True, vertical_alignment="center", gap="small"):
            if run_audits:
                st.html(run_panel.pill(audit_words(run_audits[0])), width="stretch")
            else:
                st.markdown("**Audit**", width="stretch", help=None if always else WHAT)
            _button(run, run_audits[0].turn if run_audits else None, is_refused=refused is not None)
        if run_audits and not run_audits[0].turn.is_over:
            done, n_budgets = len(run_audits[0].results), len(spec.privacy.epsilons)
            st.html(run_panel.segments(done / n_budgets, n_budgets))
        run_panel.draw_refusal()
        if refused is not None:
            st.markdown(plain(f"{capital(methods.card(spec.method).title)} {refused[0]}."))
            if refused[1] is not None:
                with st.expander("A command audits its settings", key="audit-command"):
                    st.code(refused[1], language=None, wrap_lines=True)
        elif always and not any(audit.results for audit in run_audits):
            st.caption(WHAT)
        if run_audits:
            run_panel.log(run_audits[0].turn, "audit-log")
        _results(run_audits, methods.standing(spec), is_open=always)


def audit_words(audit: Audit) -> status_line.StatusLine:
    """The status line of an audit."""
    run, done, budgets = audit.turn, len(audit.results), audit.turn.spec.privacy.epsilons
    fraction = done / len(budgets)
    kept = f"{done} of {len(budgets)} budgets were audited" if done else "nothing was proved yet"
    elapsed = run.seconds_taken or 0.0
    left = seconds_left(fraction, elapsed, run.estimate_seconds)
    when = f"{status_line.between(*left)} left" if left is not None else f"{span(elapsed)} so far"
    doing = f"a training with planted data {epsilon_phrase(budgets[min(done, len(budgets) - 1)])}"
    busy = status_line.StatusLine("Running", "Audit", f"{doing} · {when}", "busy", fraction)
    finished = status_line.StatusLine("Finished", "Audit", f"took {span(elapsed)}", "good")
    return status_line.of_turn(run, "Audit", fraction, busy=busy, done=finished, kept=kept)


def _button(run: Run, turn: Run | None, *, is_refused: bool, help_text: str | None = None) -> None:
    def start() -> None:
        state.executor().submit(Audits(state.store()).create(run.id))

    if turn is None or not run_panel.stop_button(turn, "audit-stop"):
        label = "Audit this run" if turn is None else "Audit again"
        st.button(label, key="audit-start", disabled=is_refused, help=help_text, on_click=run_panel.attempt(start))


def _results(run_audits: list[Audit], standing: Standing, *, is_open: bool) -> None:
    """Draws the results of the newest audit that has any, ε by ε, and an error for every result that exceeds its ledger."""
    for result in [result for audit in run_audits for result in audit.results if result.exceeds]:
        st.error(plain(exceeding(result)))
    if not (results := next((audit.results for audit in run_audits if audit.results), ())):
        return
    finite = [result for result in results if math.isfinite(result.claimed)]
    strongest = max(finite or results, key=lambda result: result.lower_bound)
    st.markdown(plain(reading(strongest)))
    with st.expander("Claimed, accounted and audited ε of every budget", expanded=is_open, key="audit-table"):
        layout.draw_table(("claimed", "accounted: ε at most", "audited: ε at least", "right guesses"), (
            (epsilon_label(one.claimed, standing), claim_calculator.bound(one.accounted), f"**{at_least(one.lower_bound)}**",
             "" if one.right is None or one.guessed is None else f"{one.right:,} of {one.guessed:,}")
            for one in results
        ))  # fmt: skip
        caught = "" if strongest.detects is None else f" It would have detected {strongest.detects} nine times in ten."
        st.caption(plain(f"Assumed: {strongest.assumes}. {WORDS['tuning_panel']['limit']}{caught}"))


def reading(result: Audited) -> str:
    """A sentence: the audit's guesses and what they prove."""
    planted = result.unit.partition(",")[0]
    guesses = f"{result.right:,} of {result.guessed:,} guesses" if result.right is not None else "the guesses"
    guessed = (
        f"Someone who guesses which of {result.trials:,} planted {planted} were in the training is right in {guesses} "
        f"{epsilon_phrase(result.claimed)}"
    )
    if result.lower_bound == 0:
        return f"{guessed}. Tossing a coin could do as well: this proves nothing about ε."
    return f"{guessed}; this proves ε ≥ {at_least(result.lower_bound)} at {100 * result.confidence:g}\u00a0% confidence."


def exceeding(result: Audited) -> str:
    """A sentence: the audit proves more than the ledger accounts for."""
    bounds = {"proven": at_least(result.lower_bound), "accounted": shown_number(result.accounted)}
    return WORDS["tuning_panel"]["exceeding"].format(**bounds)
