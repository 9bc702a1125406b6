"""The audit of a run: its button, its progress, and the proved lower bound next to claimed and accounted ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from dpcl_core.figures.picture import epsilon_label, epsilon_phrase, span
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import at_least, shown
from dpcl_core.runs import progress_estimate
from dpcl_core.runs.audits import Audit, Audits, refusal
from pages.parts.claims import calculator
from pages.parts.shell import layout, state, status_line
from pages.parts.shell.text import capital, plain
from pages.parts.training import run_panel

if TYPE_CHECKING:
    from dpcl_core.privacy.lower_bound import Audited
    from dpcl_core.privacy.statement import Standing
    from dpcl_core.runs.run import Run
    from dpcl_core.spec import RunSpec

WHAT = (
    "An audit repeats the training with the run's settings and with planted examples, each included by the toss of a coin. "
    "It then guesses from the release which were included. Many right guesses prove a lower bound on ε. "
    "The audit runs in the background, in a separate process, and reads none of the run's own data."
)
LIMIT = "An audit can show that a guarantee is broken. It can never prove that one holds: a better attack may find more."


def audits() -> Audits:
    """The audits of the app's store."""
    return Audits(state.store())


def first(run: Run) -> Callable[[], None] | None:
    """What draws the button of a run's first audit; None where it has had one, or can have none: `panel` then says more."""
    spec = run.readable_spec
    if spec is None or run.status != "finished" or audits().of_run(run.id) or refusal(spec) is not None:
        return None
    return partial(_button, run, None, is_refused=False, help_text=WHAT)


def panel(run: Run, *, always: bool = False) -> None:
    """Draws the newest audit of a finished run, refreshed every second while active, or a button if there is none.

    `always`: explains audits even if there is none yet, and shows the results of every ε without a press.
    """
    if run.readable_spec is None or run.status != "finished":
        return
    run_audits = audits().of_run(run.id)
    if run_audits and not run_audits[0].turn.is_over:
        _watch(run.id)
    else:
        _draw(run, run.readable_spec, run_audits, always=always)


@st.fragment(run_every=1.0)
@state.guarded
def _watch(run_id: str) -> None:
    run, run_audits = state.store().get(run_id), audits().of_run(run_id)
    if not run_audits or run_audits[0].turn.is_over or run.readable_spec is None:
        st.rerun()  # the audit has ended: rerun the page without a timer
    else:
        _draw(run, run.readable_spec, run_audits, always=True)


def _draw(run: Run, spec: RunSpec, run_audits: list[Audit], *, always: bool) -> None:
    refused = refusal(spec) if not run_audits else None
    with st.container(key="card-audit", gap="small"):
        with st.container(key="status-line-audit", horizontal=True, vertical_alignment="center", gap="small"):
            if run_audits:
                st.html(run_panel.pill(words(run_audits[0])), width="stretch")
            else:
                st.markdown("**Audit**", width="stretch", help=None if always else WHAT)
            _button(run, run_audits[0].turn if run_audits else None, is_refused=refused is not None)
        if run_audits and not run_audits[0].turn.is_over:
            done, n_budgets = len(run_audits[0].results), len(spec.privacy.epsilons)
            st.html(run_panel.segments(done / n_budgets, n_budgets))
        if message := st.session_state.pop("refused", None):
            st.error(plain(message))
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


def words(audit: Audit) -> status_line.StatusLine:
    """The status line of an audit."""
    run, done, budgets = audit.turn, len(audit.results), audit.turn.spec.privacy.epsilons
    fraction = done / len(budgets)
    kept = f"{done} of {len(budgets)} budgets were audited" if done else "nothing was proved yet"
    elapsed = run.seconds_taken or 0.0
    left = progress_estimate.seconds_left(fraction, elapsed, run.estimate_seconds)
    when = f"{status_line.between(*left)} left" if left is not None else f"{span(elapsed)} so far"
    doing = f"a training with planted data {epsilon_phrase(budgets[min(done, len(budgets) - 1)])}"
    busy = status_line.StatusLine("Running", "Audit", f"{doing} · {when}", "busy", fraction)
    finished = status_line.StatusLine("Finished", "Audit", f"took {span(elapsed)}", "good")
    return status_line.of_turn(run, "Audit", fraction, busy=busy, done=finished, kept=kept)


def _button(run: Run, turn: Run | None, *, is_refused: bool, help_text: str | None = None) -> None:
    def start() -> None:
        state.executor().submit(audits().create(run.id))

    if turn is None or not run_panel.stop_button(turn, "audit-stop"):
        label = "Audit this run" if turn is None else "Audit again"
        st.button(label, key="audit-start", disabled=is_refused, help=help_text, on_click=run_panel.attempt(start))


def _results(run_audits: list[Audit], standing: Standing, *, is_open: bool) -> None:
    """Draws the results of the newest audit that has any, ε by ε, and an error for every result that exceeds its ledger."""
    for result in [result for audit in run_audits for result in audit.results if result.exceeds]:
        st.error(plain(exceeding(result)))
    results = next((audit.results for audit in run_audits if audit.results), ())
    if not results:
        return
    finite = [result for result in results if math.isfinite(result.claimed)]
    strongest = max(finite or results, key=lambda result: result.lower_bound)
    st.markdown(plain(reading(strongest)))
    with st.expander("Claimed, accounted and audited ε of every budget", expanded=is_open, key="audit-table"):
        layout.table(("claimed", "accounted: ε at most", "audited: ε at least", "right guesses"), (
            (epsilon_label(one.claimed, standing), calculator.bound(one.accounted), f"**{at_least(one.lower_bound)}**",
             _right(one))
            for one in results
        ))  # fmt: skip
        caught = "" if strongest.detects is None else f" It would have detected {strongest.detects} nine times in ten."
        st.caption(plain(f"Assumed: {strongest.assumes}. {LIMIT}{caught}"))


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
    return (
        f"The audit proves ε ≥ {at_least(result.lower_bound)}, but the ledger accounts for only {shown(result.accounted)}: "
        "the run's release reveals more about people than it promises. Do not release it, and report this."
    )


def _right(result: Audited) -> str:
    return "" if result.right is None or result.guessed is None else f"{result.right:,} of {result.guessed:,}"


