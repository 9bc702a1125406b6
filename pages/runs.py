"""Runs page: all runs with their states, actions on the ticked ones, and the comparison of several."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import fmean
from typing import Any, cast, get_args

import pandas as pd
import streamlit as st

from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.figures.picture import epsilons_text, run_label
from dpcl_core.methods import catalog as methods
from dpcl_core.results import method_title
from dpcl_core.runs.administration import empty_trash
from dpcl_core.runs.run import End, Run, Status
from dpcl_core.spec import DataSpec, RunSpec
from pages.parts import compare, comparison, fields, layout, link, run_panel, state, status_line, tuning_panel
from pages.parts.text import WORDS, plain

STATUSES: tuple[Status, ...] = ("queued", "starting", "running", "stopping", "finished", "cancelled", "failed", "lost")
SORTS = {"newest": "Newest first", "accuracy": "Best accuracy first", "name": "By name", "seconds": "Longest first"}
HELP = WORDS["runs"]["help"].format(most=fields.LISTED)
_NAMED = 5  # runs of the trash that are named
_SIZES = re.compile(r"subset: [^()]*")  # in the title of a dataset; the table has no room for them
_COLUMNS = {
    "run": st.column_config.TextColumn("Run", width=64),
    "status": st.column_config.TextColumn("State", width="small"),
    "name": st.column_config.TextColumn("Name", width=180),
    "method": st.column_config.TextColumn("Method", width=130),
    "data": st.column_config.TextColumn("Data", width=160),
    "layer": st.column_config.TextColumn("Layer", width=98, help="How its settings relate to the publication of its method"),
    "epsilons": st.column_config.TextColumn("ε", width=145),
    "accuracy": st.column_config.NumberColumn("AA, largest ε", width=98, format="%.1f %%", help=WORDS["runs"]["accuracy"]),
    "started": st.column_config.DatetimeColumn("Started (UTC)", width=102, format="D MMM, HH:mm"),
    "seconds": st.column_config.NumberColumn("Seconds", width="small", format="%.1f"),
}
_SHOWN = 8  # runs that the table shows at a time, so that what is compared begins on the first screen
_COMPARED = "runs-compared"  # session key: the ticked runs that are compared
_ROWS = "runs-rows"  # session key: the rows of the table as it was drawn last
CODEC = link.Codec(
    link.Field("status", "st", "state", link.Many(link.Choice(STATUSES)), ()),
    link.Field("sort", "so", "order", link.Choice(tuple(SORTS)), "newest"),
    link.Field("search", "q", "search", link.Text(60), ""),
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    *compare.FIELDS,
)
VIEWS = {"list": "All runs", "compare": "Compare"}


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one table: which runs, in order, and those that the link names. `ticked`: places ticked at first."""

    number: int
    ids: tuple[str, ...]
    linked: tuple[str, ...]
    ticked: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"runs-table-{self.number}"


@state.guarded
def page() -> None:
    """The page."""
    if layout.open_view(VIEWS) == "compare":
        compare.page(CODEC)
        return
    store = state.store()
    view = state.View("runs", CODEC)
    counts = store.n_listed()
    notices = list(view.read.notices)
    # The runs that the link names, which the list has however many are newer.
    linked = (*view["runs"], *([] if view["run"] is None else [view["run"]]))
    known = {*(store.listed(linked) if linked else ()), *st.session_state.get("runs-deleted", ())}
    notices += [f"The link asks for run {run_id}, which is not in this store." for run_id in linked if run_id not in known]
    layout.header("Runs", "What ran, and what is running?", is_shared=bool(counts), help_text=HELP, notices=notices)
    if refused := st.session_state.pop("runs-refused", None):
        st.error(plain(refused))
    done, deleted = st.session_state.pop("runs-done", None), st.session_state.get("runs-deleted")
    if done or deleted:
        with st.container(key="runs-message", horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(plain(done or "Deleted runs can be restored."), width="content")
            if deleted:
                st.button("Undo delete", key="undo-delete", on_click=_restore, args=(deleted,))
    if not counts:
        with st.container(key="card-empty"):
            st.markdown("**No runs yet.** The Train page shows a finished example; a run of your own takes a few seconds.")
            st.page_link("pages/train.py", label="Start a run")
        _trash()
        return
    _controls(view, counts)
    # One line per device: the current run or tuning, and the number of waiting ones.
    busy = {run.device: run for run in reversed(store.unfinished()) if run.status != "queued"}
    for device, (n_active, waiting) in store.queues().items():
        what = "free" if not n_active else "a run of another visitor"
        if (run := busy.get(device)) is not None:
            what = f"{run.status} “{plain(run.name)}”"
        st.caption(f"Queue on {device}: {what}; {waiting} waiting.")
    is_active = _is_active(counts)
    st.fragment(state.guarded(_list), run_every=2.0 if is_active else None)(view.values, linked, is_active)
    compare.draw(view, cast("tuple[str, ...]", st.session_state[_COMPARED]))
    view.commit()
    _trash()


def _is_active(counts: Mapping[Status, int]) -> bool:
    return not counts.keys() <= {*get_args(End)}


def _controls(view: state.View, counts: Mapping[Status, int]) -> None:
    start = view["status"]
    kept = (*start, *st.session_state.get(view.key("status"), ()))  # also after the last run of a chosen state has gone
    with st.container(key="runs-controls", horizontal=True, vertical_alignment="bottom", gap="small"):
        picked = st.pills(
            "State", [name for name in STATUSES if name in counts or name in kept], selection_mode="multi", default=start,
            format_func=lambda name: f"{name} ({counts.get(name, 0)})", key=view.key("status"),
            help="Nothing chosen: all states.",
        )  # fmt: skip
        view.values["status"] = tuple(picked)
        fields.select(view, "sort", "Order", SORTS, width=210)
        view.keep("search", fields.search(view.key("search"), str(view["search"])))


def _list(values: dict[str, object], linked: tuple[str, ...], was_active: bool) -> None:
    """Draws the table and its buttons: by itself every other second, and after each press in it.

    The page around it is drawn again where that press has done something, whose message, counts, queue and trash lie there,
    and where runs have begun or ended, since the page sets the timer.
    """
    store = state.store()
    counts = store.n_listed()
    has_acted = "runs-done" in st.session_state or "runs-refused" in st.session_state
    if has_acted or not counts or was_active != _is_active(counts):
        st.rerun()
    shown = _chosen(values, linked)
    frame = table(shown, store.final_accuracies([run.id for run in shown]))
    if values["sort"] == "accuracy":
        order = frame["accuracy"].fillna(-1).sort_values(ascending=False, kind="stable").index
        frame, shown = frame.loc[order].reset_index(drop=True), [shown[i] for i in order]
    if frame.empty:
        _compare(())
        st.info("No run matches these filters. Remove a state or clear the search.")
        return
    if len(shown) >= fields.LISTED:
        st.caption(f"The table has no more than {fields.LISTED} runs: choose a state or search for others.")
    rows = _rows([run.id for run in shown], linked)
    event = st.dataframe(
        frame, key=rows.key, on_select="rerun", selection_mode="multi-row",
        selection_default={"selection": {"rows": list(rows.ticked)}}, hide_index=True,
        height="content" if len(frame) <= _SHOWN else 330, placeholder="", column_config=_COLUMNS,
        alt=f"{len(frame)} runs with state, name, method, data, budgets, accuracy, start and duration",
    )  # fmt: skip
    picked = [shown[row] for row in _ticked(event, len(shown))]
    finished = tuple(run.id for run in picked if comparison.has_result(run))[: comparison.MOST]
    _actions(picked, finished)
    _compare(finished if len(finished) > 1 else ())


def _compare(run_ids: tuple[str, ...]) -> None:
    """Lets the page below the list compare these runs; it is drawn again where a tick has changed them."""
    before = st.session_state.get(_COMPARED)
    st.session_state[_COMPARED] = run_ids
    if layout.is_alone() and before != run_ids:
        st.rerun()


def _rows(ids: list[str], linked: tuple[str, ...]) -> _Rows:
    """The table's rows. A browser knows its ticks by position only: where the runs change or move, the table is a new one
    that begins with the same runs ticked, those of them that are left."""
    before: _Rows | None = st.session_state.get(_ROWS)
    if before is not None and (before.ids, before.linked) == (tuple(ids), linked):
        return before
    ticked = {*linked}
    if before is not None and before.linked == linked and before.key in st.session_state:
        ticked = {before.ids[row] for row in _ticked(st.session_state[before.key], len(before.ids))}
    places = tuple(place for place, run_id in enumerate(ids) if run_id in ticked)
    rows = _Rows(0 if before is None else before.number + 1, tuple(ids), linked, places)
    st.session_state[_ROWS] = rows
    return rows


def _ticked(table_state: Mapping[str, Any], n_rows: int) -> list[int]:
    return [int(row) for row in table_state["selection"]["rows"] if int(row) < n_rows]


def _chosen(values: dict[str, object], linked: tuple[str, ...]) -> list[Run]:
    store, states, text = state.store(), cast("tuple[Status, ...]", values["status"]), str(values["search"])
    selected = store.list_runs(fields.LISTED, states=states, only=fields.wanted(text, store))
    if linked and not states and not text:
        selected = [*store.listed(set(linked) - {run.id for run in selected}).values(), *selected]
    if values["sort"] == "name":
        selected.sort(key=lambda run: run.name.lower())
    if values["sort"] == "seconds":
        selected.sort(key=lambda run: -(run.seconds_taken or 0.0))
    return selected


def table(runs: list[Run], accuracies: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """One row per run; accuracy in percent (NaN: unfinished). `accuracies`: as `Store.final_accuracies` gives them."""
    in_words = cache(_in_words)  # of settings that many runs share; what is said of data changes with their files
    rows = [
        (
            # Rounded here, because a browser rounds 48.25 to 48.3 and the sentences of other pages, in Python, to 48.2.
            run.id[:6], run.status, run.name, method, _SIZES.sub("subset", data), layer, budgets,
            round(100 * fmean(known), 1) if (known := accuracies.get(run.id)) else None, run.started, run.seconds_taken,
        )
        for run in runs
        for method, data, layer, budgets in [in_words(run.readable_spec)]
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"accuracy": "float64", "started": "float64"})
    return frame.assign(started=pd.to_datetime(frame["started"], unit="s"))


def _in_words(spec: RunSpec | None) -> tuple[str, str, str, str]:
    """Method, data, layer (a dash if unknown) and budgets of a run; None: its settings cannot be read."""
    if spec is None:
        return "?", "?", "–", "?"
    layer, is_finite = methods.layer(spec), any(map(math.isfinite, spec.privacy.epsilons))
    budgets = run_label(epsilons_text(spec.privacy.epsilons), methods.standing(spec) if is_finite else "bound")
    return method_title(spec), _data(spec.data), "–" if layer is None else layer.name, budgets


def _data(data: DataSpec) -> str:
    facts = state.unless_refused(datasets.facts_of, data)
    # Without the files the title would be that of the full set, though the run may have used only a part.
    return facts.title if facts is not None and facts.is_here else f"{data.dataset} (no longer here)"


def _actions(picked: list[Run], finished: tuple[str, ...]) -> None:
    """Draws what can be done with the ticked runs, of which these `finished` ones can be compared."""
    if not picked:
        st.caption("Tick a run to open, stop, resume, repeat, rename or delete it; tick several to compare them.")
        return
    if len(picked) > 1:
        with st.container(key="runs-actions", horizontal=True, vertical_alignment="center", gap="small"):
            if len(finished) > 1:
                st.markdown(f"**{len(finished)} finished runs are compared below.**", width="content")
            else:
                st.caption("Only finished runs can be compared: tick two of them.", width="content")
            if all(map(state.store().may_change, picked)):
                st.button(f"Delete these {len(picked)}", key="delete-many", on_click=lambda: _delete(picked))
        return
    (run,) = picked
    # The run's state in words, from what it has said; a finished one's needs no events, and they may be many.
    is_short = run.status == "finished" or run.readable_spec is None
    line = status_line.status_of_run(run, (), time.time()) if is_short else run_panel.looked_at(run, state.run_result(run))
    with st.container(key="card-chosen"):
        st.markdown(f"**{plain(run.name)}** · {line.label.lower()} · {plain(line.detail or line.headline)}")
        method, data, _, budgets = _in_words(run.readable_spec)
        st.caption(plain(f"{method} · {data} · ε = {budgets}"))
        if run.error:
            st.caption(plain(run.error))
        with st.container(key="runs-actions", horizontal=True, vertical_alignment="center", gap="small"):
            st.page_link("pages/train.py", label="Open", query_params={"v": "1", "run": run.id})
            is_mine = state.store().may_change(run)
            if is_mine and run.status in ("queued", "starting", "running"):
                st.button("Stop", key="runs-stop", on_click=_do, args=(run_panel.stop, run.id))
            refusal, queued = None, f"“{run.name}” is in the queue again"
            if run.is_over:
                resume = partial(_do, run_panel.resume, run.id, done=f"{queued}, after its last finished task.")
                refusal = run_panel.resume_button(run, "runs-resume", resume)
                again = "Run again" if run.status == "finished" else "Retry"
                st.button(again, key="runs-retry", on_click=partial(_do, run_panel.retry, run.id, done=f"{queued}."))
                run_panel.export(run.id)
            if is_mine:
                with st.popover("Rename"):
                    st.text_input("New name", run.name, key=f"name-{run.id}", max_chars=100)
                    st.button("Save name", key="runs-rename", on_click=_rename, args=(run.id,))
            if is_mine and run.status not in ("starting", "running", "stopping"):
                st.button("Delete", key="runs-delete", on_click=lambda: _delete([run]))
        if refusal is not None:
            st.caption(refusal)
    tuning_panel.audit_panel(run)


def _do(action: Callable[..., object], *of: object, done: str = "") -> None:
    _is_done(action, *of, done=done)


def _is_done(action: Callable[..., object], *of: object, done: str = "") -> bool:
    """Carries out an action on a run and returns whether it succeeded; a refusal becomes the page's message."""
    try:
        action(*of)
    except (BadInput, StoreTrouble) as refused:
        st.session_state["runs-refused"] = str(refused)
        return False
    st.session_state["runs-done"] = done
    return True


def _rename(run_id: str) -> None:
    _do(state.store().rename, run_id, str(st.session_state[f"name-{run_id}"]), done="Renamed.")


def _delete(runs: list[Run]) -> None:
    if deleted := [run.id for run in runs if _is_done(state.store().delete, run.id)]:
        st.session_state["runs-deleted"] = deleted
        st.session_state["runs-done"] = f"Deleted {len(deleted)} run{'s' if len(deleted) > 1 else ''}."


def _trash() -> None:
    """Draws what was deleted and can be restored, and a button that deletes it for good."""
    if not (deleted := state.store().trash()):
        return
    with st.expander(f"Trash ({len(deleted)})", key="trash"):
        names = ", ".join(f"“{plain(run.name)}”" for run in deleted[:_NAMED])
        more = f" and {len(deleted) - _NAMED} more" if len(deleted) > _NAMED else ""
        st.markdown(f"{names}{more}. Emptying deletes their results for good; runs on your own data stay counted as looks.")
        with st.container(key="trash-actions", horizontal=True, gap="small"):
            st.button("Restore all", key="trash-restore", on_click=_restore, args=([run.id for run in deleted],))
            st.button("Empty the trash", key="trash-empty", on_click=_empty_trash)


def _restore(run_ids: list[str]) -> None:
    st.session_state.pop("runs-deleted", None)
    for run_id in run_ids:
        _do(state.store().restore, run_id, done="Restored.")


def _empty_trash() -> None:
    _do(empty_trash, state.store(), done="The trash is empty.")
    st.session_state.pop("runs-deleted", None)


if __name__ == "__main__":
    page()
