"""The status line of a run in every state. Pure: no streamlit, and the clock is an argument."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpcl_core.events import Event, Progress, Started, TaskLearned, of_kind
from dpcl_core.figures.picture import counted, span
from dpcl_core.methods import catalog as methods
from dpcl_core.paths import asset_table
from dpcl_core.privacy.statement import shown_number
from dpcl_core.runs.run import Left, Run, fraction_done, n_trained_together, seconds_left, stage, steady

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_WIDE = 10.0  # times its shortest: a time left that says nothing as a range
_FIXES = asset_table("pages.toml")["fixes"]


@dataclass(frozen=True, slots=True)
class StatusLine:
    """A run's state in words. `fraction`: share of the work done, never decreasing; None if not applicable.

    `is_stage`: that share is of a stage before the first task, such as computing features. `left`: seconds left,
    from shortest to longest; None if unknown.
    """

    label: str
    headline: str
    detail: str
    tone: Literal["calm", "busy", "good", "bad"]
    fraction: float | None = None
    is_stage: bool = False
    left: Left | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The line at the last look, and when that was (seconds since 1970)."""

    line: StatusLine
    at: float


def status_of_run(run: Run, events: Sequence[Event], now: float, before: Look | None = None) -> StatusLine:
    """The status line of a run at the time `now` (seconds since 1970). `before`: the last look at the same run."""
    if run.status == "queued":
        place = run.place_in_queue
        where = f"place {place} in the queue for {run.device}" if place is not None else f"waiting for {run.device}"
        if (takes := run.estimate_seconds) is not None:  # from a quarter less to a half more
            where += f" · then about {between(0.75 * takes, 1.5 * takes)}"
        return StatusLine("Queued", "Queued", where, "calm")
    if run.status == "starting":
        return _preparing(run, events, now, before)
    if run.status == "running":
        return _running(run, events, now, before)
    if run.status == "stopping":
        detail = "ends within a few seconds; results so far are kept"
        return StatusLine("Stopping", "Stopping", detail, "busy", _fraction(run, events))
    if run.status == "cancelled":
        has_learned = any(isinstance(event, TaskLearned) for event in events)
        kept = "the curves so far are kept" if has_learned else "no task had been learned yet"
        fraction = _fraction(run, events) or None
        if run.error:  # the server stopped it, not a person
            return StatusLine("Cancelled", _sentence(run.error), kept, "bad", fraction)
        return StatusLine("Cancelled", "Cancelled", f"stopped on request; {kept}", "calm", fraction)
    if run.status == "failed":
        why = run.error or "The run ended with an error that left no message."
        return StatusLine("Failed", _sentence(why), _FIXES.get(run.error_kind or "internal", _FIXES["internal"]), "bad")
    if run.status == "lost":
        at = run.heartbeat or run.finished or run.started
        when = f" at {time.strftime('%H:%M:%S', time.localtime(at))}" if at is not None else ""
        detail = "Its worker process has ended. Results so far are kept; Retry starts the run again with the same settings."
        return StatusLine("Lost", run.error or f"The computer stopped this run{when}.", detail, "bad")
    taken = run.seconds_taken
    return StatusLine("Finished", "Finished", "" if taken is None else f"took {span(taken)}", "good")


def of_turn(
    turn: Run, what: str, fraction: float, *, busy: StatusLine, done: StatusLine, kept: str, stops: str = ""
) -> StatusLine:
    """The status line of an audit or a tuning (`what`).

    `busy`, `done`: its lines while it runs and when it is finished. `kept`: what remains if it ends early. `stops`: what is
    kept while it stops.
    """
    match turn.status:
        case "queued":
            place = f"place {turn.place_in_queue} in the queue for {turn.device}" if turn.place_in_queue else ""
            return StatusLine("Queued", f"{what} queued", place, "calm")
        case "stopping":
            return StatusLine("Stopping", f"{what} stops", f"within a few seconds{stops}", "busy", fraction)
        case "cancelled":
            return StatusLine("Cancelled", f"{what} stopped on request", kept, "calm", fraction)
        case "failed" | "lost":
            why = turn.error or f"The {what.lower()} ended without a message."
            return StatusLine(turn.status.capitalize(), why, kept, "bad", fraction or None)
    return done if turn.status == "finished" else busy


def _sentence(text: str) -> str:
    """An error message as a sentence: capitalised unless it begins with the name of a setting or file."""
    start = text[0].upper() + text[1:] if text.split(maxsplit=1)[0].isalpha() else text
    return start if start.endswith((".", "!", "?")) else f"{start}."


def _running(run: Run, events: Sequence[Event], now: float, before: Look | None) -> StatusLine:
    opened = next(of_kind(events, Started), None)
    if opened is None or stage(events) is not None:
        return _preparing(run, events, now, before)
    fraction = _fraction(run, events)
    task = min(_tasks_done(run, events) + 1, opened.n_tasks)
    learning = f"learning {opened.task_names[task - 1]}" if task <= len(opened.task_names) else ""
    left = _left(run, fraction, now, before, is_stage=False)
    detail = " · ".join(filter(None, [learning, _spent(run, events), _left_words(left)]))
    headline = f"Task {task} of {opened.n_tasks}"
    if (spec := run.readable_spec) is not None and (n_groups := spec.n_cells // n_trained_together(spec)) > 1:
        # Which of several trainings this is, where models are trained one after another.
        learned = sum(isinstance(event, TaskLearned) for event in events)
        number = min(learned // (n_trained_together(spec) * opened.n_tasks) + 1, n_groups)
        headline = f"Training {number} of {n_groups} · {headline}"
    return StatusLine("Running", headline, detail, "busy", fraction, left=left)


def _preparing(run: Run, events: Sequence[Event], now: float, before: Look | None) -> StatusLine:
    """Before the first task: the stage with a bar of its own, once it has counted something."""
    starting, running = ("Starting", "Starting", "the worker is loading"), ("Running", "Preparing", "opening the data")
    label, headline, without_word = starting if run.status == "starting" else running  # until the run says something itself
    doing = stage(events)
    if doing is None or doing.phase != "backbone" or doing.total <= 1:
        said = next((event.text for event in reversed(events) if isinstance(event, Progress)), "")
        return StatusLine(label, headline, f"{said or without_word} · {_since(run)}", "busy")
    fraction = doing.done / doing.total
    left = _left(run, fraction, now, before, is_stage=True)
    took = f"{_left_words(left)} for this step" if left is not None else _since(run)
    detail = f"{doing.text} · {doing.done:,} of {doing.total:,} · {took}"
    return StatusLine(label, headline, detail, "busy", fraction, is_stage=True, left=left)


def _spent(run: Run, events: Sequence[Event]) -> str:
    spec = run.readable_spec
    if spec is not None and all(map(math.isinf, spec.privacy.epsilons)):
        return "no noise"
    if spec is not None and methods.is_nominal(spec.method):
        return "ε only claimed, no bound"
    spent = [event.epsilon for event in events if isinstance(event, TaskLearned) and math.isfinite(event.cell.epsilon)]
    return f"largest ε accounted so far {shown_number(max(spent))}" if spent else ""


def _tasks_done(run: Run, events: Sequence[Event]) -> int:
    """Tasks that every active model has learned; of models trained one after another, the newest group counts."""
    counts = {event.cell: event.task + 1 for event in of_kind(events, TaskLearned)}
    opened = next(of_kind(events, Started), None)
    if under_way := [count for count in counts.values() if opened is None or count < opened.n_tasks]:
        return min(under_way)
    spec = run.readable_spec
    return max(counts.values(), default=0) if len(counts) == (spec.n_cells if spec is not None else 1) else 0


def _fraction(run: Run, events: Sequence[Event]) -> float:
    return fraction_done(run.readable_spec, events) if run.readable_spec is not None else 0.0


def _left(run: Run, fraction: float, now: float, before: Look | None, *, is_stage: bool) -> Left | None:
    """The seconds left of a stage, or of the whole run; close to those of the last look at the same."""
    taken = run.seconds_taken
    if run.started is None or taken is None:
        return None
    # Every process that goes on with the run begins a stage anew.
    so_far = (now - run.started,) if is_stage else (taken, run.estimate_seconds)
    fresh = seconds_left(fraction, *so_far)
    if fresh is None or before is None or before.line.left is None or before.line.is_stage is not is_stage:
        return fresh
    return steady(fresh, before.line.left, now - before.at)


def _left_words(left: Left | None) -> str:
    """The time left; only at most how long where the range is too wide to say more."""
    if left is None:
        return ""
    low, high = left
    if high > _WIDE * max(1.0, low):
        return f"up to {between(high, high).rpartition('–')[2]} left"
    return f"{between(low, high)} left"


def _since(run: Run) -> str:
    return "starting now" if run.seconds_taken is None else f"{span(run.seconds_taken)} so far"


def between(low: float, high: float) -> str:
    """A range of durations (seconds) in whole units."""
    if high < 90:
        first, last = max(1, round(low)), max(2, math.ceil(high))
        return f"{first}–{last} s"
    if high < 5400:
        return f"{max(1, round(low / 60))}–{max(2, math.ceil(high / 60))} min"
    return f"{low / 3600:.1f}–{high / 3600:.1f} h"


def about(seconds: float) -> str:
    """A duration of which the order of magnitude is known, by its first digit: "about 2 hours"."""
    unit, length = next((unit, length) for unit, length in _UNITS if seconds >= length or length == 1)
    digit = 10 ** math.floor(math.log10(max(1.0, seconds / length)))
    return f"about {counted(max(1, digit * round(seconds / length / digit)), unit)}"


