"""The panel of a run, active or finished: status line, privacy bar, figures."""

import io
import math
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core import checks
from dpcl_core import export as files
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.events import Leaks, Retained
from dpcl_core.figures import curves
from dpcl_core.figures.picture import Picture, epsilon_label, epsilon_text
from dpcl_core.figures.statistics import MIN_SEEDS
from dpcl_core.papers import measured
from dpcl_core.privacy.statement import shown_number
from dpcl_core.results import Result, rule_title
from dpcl_core.runs import administration, process, resumption
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from pages.parts import anchor_source, fields, layout, pecl_claim, rooms, state, status_line, text, token_heat, train_form
from pages.parts.figure_card import built, show
from pages.parts.text import WORDS, capital, plain

ACTIVE = ("queued", "starting", "running", "stopping")
_ENDED = {"finished": "finished", "failed": "failed", "lost": "been lost"}
_READABLE_EPSILON = 20.0  # above it, e^ε is no number that says anything
_QUIET_SECONDS = 2.0  # a run gives a sign of life four times a second
_WAITS_SECONDS = 5.0  # a store on a busy machine may take nothing for a moment, of which nobody need know
HALVES = (1.75, 1)  # of a run's curve, and of what is said beside it


def status_card(run: Run, result: Result, *, beside: Callable[[], None] | None = None) -> status_line.StatusLine:
    """Draws state, task, ε so far, time left, and the buttons available in this state; `beside` draws a further one.

    Returns the state in words.
    """
    line = looked_at(run, result)
    with st.container(key="card-status", gap="small"):
        with st.container(key="status-line", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(pill(line), width="stretch")
            refusal = _buttons(run, result)
            if beside is not None:
                beside()
        if refusal is not None:
            st.caption(refusal)
        silent = math.inf if run.silent_seconds is None else run.silent_seconds
        if not run.is_over and silent > _QUIET_SECONDS and state.store().is_full():
            st.warning(WORDS["run_panel"]["full"])
        elif run.status in ("running", "stopping") and silent > _WAITS_SECONDS:
            st.info(WORDS["run_panel"]["waits"])
        if line.fraction is not None:
            st.html(segments(line.fraction, 1 if line.is_stage else result.n_tasks))
        if run.status == "failed":
            log(run, "run-log")
    return line


@state.each_second
def watch(run_id: str, *, with_figures: bool = False) -> None:
    """Draws a run under way, refreshed every second; when it ends, draws the page again without a timer."""
    run = state.store().get(run_id)
    if run.is_over:
        st.rerun()
    result = state.run_result(run)
    status_card(run, result)
    if with_figures and not result.accuracy.empty:
        figures(result, result.spec.privacy.usual_epsilon, live=True)


def looked_at(run: Run, result: Result) -> status_line.StatusLine:
    """The status line, whose time left follows what this visitor was shown last."""
    now, key = time.time(), f"look-{run.id}"
    line = status_line.status_of_run(run, result.events, now, st.session_state.get(key))
    st.session_state[key] = status_line.Look(line, now)
    return line


def log(run: Run, key: str) -> None:
    """Draws the log of a run that ended with an error, on demand."""
    if run.status in ("failed", "lost") and run.error_log:
        with st.expander("Details", key=key):
            st.code(run.error_log, language=None)


def statement(result: Result, chosen: float | None, *, is_over: bool) -> None:
    """Draws what is protected in one line that opens; in full where no bound holds, a placeholder before there is one."""
    given = None if chosen is None else result.guarantees.get(chosen)
    if given is not None and given.is_private and given.noise != "seeded":
        times = shown_number(math.exp(given.epsilon)) if given.epsilon < _READABLE_EPSILON else "any number of"
        box = st.expander(f"At most {times} times likelier because of you", key="statement", on_change="rerun")
        if box.open:
            with box:
                pecl_claim.privacy_bar(result.guarantees, chosen=chosen)
    elif result.guarantees:
        pecl_claim.privacy_bar(result.guarantees, chosen=chosen)
    else:
        pecl_claim.pending(result.spec, is_over=is_over)
    pecl_claim.looks(result.spec.data.dataset)


def focus(result: Result, key: str, start: float | None) -> float:
    """The budget whose matrix and statement are shown; a choice if the run has several."""
    budgets = sorted(result.spec.privacy.epsilons)
    default = start if start in budgets else result.spec.privacy.usual_epsilon
    if len(budgets) == 1:
        return float(default)
    with st.container(key="focus-row"):
        return float(fields.buttons("Show ε =", budgets, default, epsilon_text, key=key))


def under_rule(result: Result, key: str, start: str | None) -> Result:
    """The result under the chosen prediction rule, if the method has several; else unchanged."""
    if not result.rules:
        return result
    about = WORDS["run_panel"]["rules"]
    picked = fields.buttons("Prediction rule", result.rules, start, rule_title, key=key, help=about)
    return replace(result, rule=None if picked == result.rules[0] else picked)


def figures(
    result: Result, chosen: float, *, live: bool, places: Sequence[DeltaGenerator] | None = None,
    stream: Callable[[], None] | None = None, has_more: bool = True,
) -> None:  # fmt: skip
    """Draws what moves during a run, and stays afterwards: curve and matrix, in their places if given, forgetting, texts,
    lists, and what it memorised. `stream` draws the stream, beside forgetting; before the first point, in the curve's place.

    `has_more`: once the run is over, further figures follow in views.
    """
    left, right = places or st.columns(HALVES, gap="small")
    if not result.accuracy.empty:
        with left:
            note = "mean, 95 % interval" if len(result.spec.seeds) >= MIN_SEEDS else "line: mean; dots: single seeds"
            picture = _figure(key=_key(result), name="accuracy", dark=text.is_dark(), _result=result)
            show(
                picture, result.provenance, key="accuracy", title=f"{capital(result.score)} over tasks", note=note,
                table=result.scores, linked=True, live=live,
            )  # fmt: skip
        with right:
            _grid(result, chosen, "matrix")
        left, right = st.columns(2, gap="small")
        with left:
            _grid(result, chosen, "forgetting")
    if stream is not None:
        with left if result.accuracy.empty else right:
            stream()
    token_heat.scored_texts(result, chosen, live=live)
    anchor_source.matched(result, chosen, live=live)
    _leaks(result, chosen, live=live)
    if has_more and not live and not result.accuracy.empty:
        _more(result)


def _grid(result: Result, chosen: float, name: str) -> None:
    """Draws the matrix of scores of one budget, or what was forgotten."""
    of: dict[str, Any] = {"epsilon": chosen, "n_tasks": result.n_tasks, "standing": result.standing}
    title, note, build = "Forgetting", "points lost since best", curves.forgetting_grid
    if name == "matrix":
        of["score"] = result.score
        title, note, build = "Who remembers what", f"{result.score} %", curves.accuracy_matrix
    picture = built(build, result.accuracy, **of)
    show(picture, None, key=name, title=title, note=f"{epsilon_label(chosen, result.standing)}, {note}", live=True)


@st.fragment
def _leaks(result: Result, chosen: float, *, live: bool) -> None:
    """Draws what a language model has memorised and its planted secrets; once the run is over, as after any task."""
    found = [event for event in result.events if isinstance(event, Leaks | Retained) and event.cell.epsilon == chosen]
    tasks = sorted({event.task for event in found if event.task >= 0})
    if not live and len(tasks) > 1:
        key = f"leaks-after-{result.run_id}-{chosen:g}"
        last = st.select_slider("After task", tasks, tasks[-1], format_func=lambda task: f"{task + 1}", key=key)
        result = replace(result, events=tuple(event for event in found if event.task <= last))
    if found:
        token_heat.leak_figures(result, chosen, live=live)


def _more(result: Result) -> None:
    """Draws the further figures of a run that is over, one at a time."""
    spec, source = result.spec, result.provenance
    figure = partial(_figure, key=_key(result), dark=text.is_dark(), _result=result)

    def forgetting() -> None:
        title = "Points lost since the best"
        show(figure(name="forgetting"), source, key="forgetting-curve", title=title, note="mean over earlier tasks")

    def costs() -> None:
        show(
            figure(name="tradeoff"), source, key="trade-off", table=result.finished_accuracy, linked=True,
            title=f"Final {result.score} and forgetting against the budget",
            note="dots: trained models" + ("; bars: 95 % interval over seeds" if len(spec.seeds) >= MIN_SEEDS else ""),
        )  # fmt: skip

    def settings() -> None:
        st.code(checks.to_toml(spec), language="toml")
        st.code(checks.command_line(spec), language="bash", wrap_lines=True)

    draw = {"What privacy costs": costs} if not result.finished_accuracy.empty else {}
    layout.views({**draw, "Forgetting over tasks": forgetting, "Settings": settings}, "more-figures")


def _key(result: Result) -> tuple[object, ...]:
    """What the pictures of a run depend on: the store and what is seen of it, run, number of events, rule, ceiling."""
    return (*state.where(), result.run_id, len(result.events), result.rule, result.ceiling)


@st.cache_resource(max_entries=120, show_spinner=False)
def _figure(key: tuple[object, ...], name: str, dark: bool, _result: Result) -> Picture:
    """A figure of a run by its name in `Result.figure`, cached for all visitors until the run has new events."""
    return replace(_result, name="this run").figure(name, dark=dark)


def pill(line: status_line.StatusLine) -> str:
    """The status line as HTML; screen readers announce its changes."""
    return (
        f'<div class="run-state {line.tone}" role="status"><span class="pill">{escape(line.label)}</span> '
        f"<b>{escape(line.headline) if line.headline != line.label else ''}</b> "
        f'<span class="soft">{escape(line.detail)}</span></div>'
    )


def segments(fraction: float, n_tasks: int) -> str:
    """A progress bar as HTML, one segment per task."""
    n = min(n_tasks, 20)
    widths = (100 * min(1.0, max(0.0, fraction * n - part)) for part in range(n))
    parts = "".join(f'<i><b style="width:{width:.0f}%"></b></i>' for width in widths)
    done = f'aria-label="Work done" aria-valuenow="{100 * fraction:.0f}"'
    return f'<div class="run-bar" role="progressbar" {done}>{parts}</div>'


def _buttons(run: Run, result: Result) -> str | None:
    """Draws what can be done with a run; returns why one that ended before its time cannot go on."""
    if stop_button(run, "stop"):
        return None

    def again() -> None:
        st.session_state["show-run"] = retry(run.id)

    refusal = resume_button(run, "resume")
    if run.readable_spec is not None:
        st.button("Retry" if run.status != "finished" else "Run again", key="retry", on_click=attempt(again))
    if run.status == "finished":
        st.page_link("pages/runs.py", label="Compare", query_params={"view": "compare", "r": run.id})
    if result.events:
        export(run.id)
    return refusal


def stop_button(run: Run, key: str) -> bool:
    """Draws Stop for an active run that this visitor may stop; returns whether it is active."""
    is_active = run.status in ACTIVE
    if is_active and state.store().may_change(run):
        stop_or_stopping(key, run.status, attempt(lambda: stop(run.id)))
    return is_active


def stop_or_stopping(key: str, status: str, press: Callable[[], None]) -> None:
    """Draws Stop, which calls `press`, or that what was active stops already."""
    if status == "stopping":
        st.button("Stopping …", key=key, disabled=True)
    else:
        st.button("Stop", key=key, type="primary", on_click=press)


def stop(run_id: str) -> None:
    """Requests a run to stop. Raises BadInput if the run had already ended."""
    state.store().request_stop(run_id)
    state.executor().schedule()
    status = state.store().status(run_id)
    if status not in ("stopping", "cancelled"):
        raise BadInput("run", run_id, f"had {_ENDED[status]} before Stop reached it; its results are kept")


def resume_button(run: Run, key: str, on_click: Callable[[], None] | None = None) -> str | None:
    """Draws Resume for a run that ended before its time. Where it cannot go on, returns a sentence on why, if its error
    does not say it already."""
    if run.status in ("lost", "cancelled", "failed"):
        if (why := resumption.why_not(state.store(), run.id)) is not None:
            return None if why in (run.error or "") else f"It cannot be resumed: {plain(why)}."
        click = on_click or attempt(lambda: resume(run.id))
        st.button("Resume", key=key, on_click=click, help="Goes on after the last task that it had learned.")
    return None


def resume(run_id: str) -> None:
    """Puts a run back into the queue. Raises BadInput where it cannot be resumed."""
    resumption.resume(state.store(), run_id)
    state.executor().submit(run_id)


def retry(run_id: str) -> str:
    """Queues a new run with the same settings; returns its id."""
    fresh = state.store().retry(run_id)
    rooms.share([fresh])
    state.executor().submit(fresh)
    return fresh


def attempt(action: Callable[[], None]) -> Callable[[], None]:
    """Wraps an action as a callback that shows BadInput and StoreTrouble instead of raising them."""

    def callback() -> None:
        try:
            action()
        except (BadInput, StoreTrouble) as refused:
            st.session_state["refused"] = train_form.in_words(refused) if isinstance(refused, BadInput) else str(refused)

    return callback


def draw_refusal() -> None:
    """Draws what a press was refused for, once."""
    if refused := st.session_state.pop("refused", None):
        st.error(plain(refused))


def export(run_id: str) -> None:
    """Draws the downloads of a run, made on demand: everything as a zip, the report and the table."""
    store = state.store()  # here: a download has no visitor
    if (box := layout.popover("Export", "export")) is None:
        return
    with box:
        top, inside = f"run-{run_id}", "Report, classifiers, tables, figures, notebook, settings, card"
        layout.download("Everything (zip)", lambda: archive(files.bundle(store, run_id), f"{top}/"), f"{top}.zip", inside)
        made: dict[str, Callable[[Result], str]] = {
            "report.html": lambda of: of.to_html(administration.sentence(store, of.spec.data.dataset)),
            "accuracy.csv": lambda of: of.scores.to_csv(index=False),
        }
        for name, make in made.items():
            layout.download(name, partial(_file, store, run_id, make), f"{run_id}-{name}")


def _file(store: Store, run_id: str, make: Callable[[Result], str]) -> str:
    run = store.get(run_id)
    return make(Result(run_id, run.name, run.spec, store.events(run_id)))


def archive(contents: Mapping[str, bytes], folder: str = "") -> bytes:
    """The files as a zip, each name after that of their `folder`, if any."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in contents.items():
            made.writestr(f"{folder}{name}", content)
    return packed.getvalue()


# Where a run ended between chance, the untrained network and the ceiling, and a button that computes the ceiling.


def panel(result: Result, chosen: float) -> None:
    """Draws the sentence for the chosen budget, a warning if budgets cannot be told from chance, and the button."""
    if not (said := result.placed(chosen)):
        return
    lost, _, rule = result.lost.partition(". ")
    with st.container(key="references-row", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{plain(said)}**", help=f"{WORDS['run_panel']['help']} {plain(rule)}", width="stretch")
        if result.run_id is not None and result.references.ceiling is None:
            _button(result)
    if lost:
        st.warning(plain(f"{lost}."))


def _button(result: Result) -> None:
    if (wanted := state.unless_refused(measured.settings, result.spec)) is None:
        return  # a person's own data, or no method that takes these tasks at once
    under_way = next((run for run in state.store().unfinished() if run.readable_spec == wanted), None)
    if under_way is not None:
        _watch(under_way.id)
        return
    if state.is_ceiling_tried(result.spec):
        st.caption("No ceiling: learning all tasks at once reached less than other runs do, or than the untrained network.")
        return
    press = attempt(lambda: _start(result, wanted))
    st.button("Compute the ceiling", key="ceiling", help=WORDS["run_panel"]["ceiling"], on_click=press)


@state.each_second
def _watch(run_id: str) -> None:
    """Draws the state of the ceiling's run; when it ends, reruns the page without a timer."""
    run = state.store().get(run_id)
    if run.is_over:
        state.look_for_ceilings()
        st.rerun()
    st.caption(f"Ceiling: {run.status} …", width="content")


def _start(result: Result, wanted: RunSpec) -> None:
    """Queues the run of the ceiling, unless it has ended meanwhile. Raises BadInput if it cannot be carried out here."""
    state.look_for_ceilings()
    if state.is_ceiling_tried(result.spec):
        return
    checks.check_run(wanted)
    state.executor().submit(state.store().create(wanted, name=f"Ceiling of {result.name}"[:100], device=process.default()))
