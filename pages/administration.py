"""Page for the administrator of a shared server: who uses how much, what can be stopped or deleted, and what is kept."""

from datetime import UTC, datetime

import streamlit as st

from dpcl_core.backbones import catalog
from dpcl_core.figures.picture import counted
from dpcl_core.runs import administration, queue
from pages.parts import figure_card, layout, state
from pages.parts.text import WORDS

_OPEN = "administrator"  # session key
_MOST = 100  # visitors that are listed


@state.guarded
def page() -> None:
    """The page."""
    layout.header("Administration", "Who uses this server, and how much?", help_text=WORDS["administration"]["help"])
    if (limits := queue.limits()) is None:
        st.info("This server is not shared: nobody owns a run and nothing is limited. `dpcl app --shared` serves many.")
        return
    if st.session_state.get(_OPEN):
        _watched(limits)
        figure_card.draw()
        return
    with layout.card("administration-key"), st.form("administration", border=False):
        typed = st.text_input("Key", type="password", help="`dpcl app --key` prints it on the server.")
        is_asked = st.form_submit_button("Open", type="primary")
    if is_asked and administration.is_key(typed):
        st.session_state[_OPEN] = True
        st.rerun()
    elif is_asked:
        st.error("key: is not this server's; on the server, `dpcl app --key` prints it.")


@st.fragment(run_every=5.0)
@state.guarded
def _watched(limits: queue.Limits) -> None:
    """Draws all visitors and their open runs."""
    store = state.whole_store()
    used, open_runs = administration.usage(store), store.unfinished()
    with layout.card("administration-runs"):
        st.header("Waiting and under way", anchor=False)
        if not open_runs:
            st.caption("No run waits or is under way.")
        for run in open_runs:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                of = _name(run.owner) if run.owner is not None else "from a terminal"
                words = f"**{run.status}** on {run.device}, {of}, since {_when(run.created)} (`{run.id}`)"
                st.markdown(words, width="stretch")
                if st.button("Stop", key=f"stop-run-{run.id}", disabled=run.status == "stopping"):
                    store.request_stop(run.id)
                    st.rerun(scope="fragment")
    with layout.card("administration-visitors"):
        st.header("Visitors", anchor=False)
        if not used:
            st.caption("No visitor has started a run or brought data yet.")
        for one in used[:_MOST]:
            _visitor(one, limits)
        if len(used) > _MOST:
            st.caption(f"The {_MOST} who use most, of {len(used):,}.")


def _visitor(one: administration.Usage, limits: queue.Limits) -> None:
    """Draws what a visitor uses, with the buttons that stop and delete."""
    store = state.whole_store()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(
            f"**{_name(one.owner)}**: {one.waiting} waiting, {one.active} under way, {one.over} over, {one.trash} in the "
            f"trash; {counted(one.datasets, 'dataset')}{' and an upload' * one.uploads}; {one.megabytes:.1f} of "
            f"{limits.megabytes} MB; last start {'never' if one.latest is None else _when(one.latest)}",
            width="stretch",
        )
        if st.button("Stop all", key=f"stop-{one.owner}", disabled=not one.waiting + one.active):
            st.toast(f"{counted(administration.stop(store, one.owner), 'run')} asked to stop.")
        has_runs, has_data = bool(one.over + one.trash), bool(one.datasets or one.uploads)
        with st.popover("Delete", disabled=not (has_runs or has_data)):
            if has_runs:
                st.markdown("The results of all this visitor's runs that are over, for good?")
                if st.button("Delete them", key=f"delete-{one.owner}", type="primary"):
                    st.toast(f"{counted(administration.delete(store, queue.Visitor(one.owner, limits)), 'run')} deleted.")
            if has_data:
                st.markdown("All data that this visitor has brought, with every run on them, for good?")
                if st.button("Delete the data", key=f"delete-data-{one.owner}", type="primary"):
                    _delete_data(one.owner)


@state.guarded
def _delete_data(owner: str) -> None:
    """Deletes a visitor's data, or says what is in the way."""
    try:
        deleted = administration.delete_data(state.whole_store(), owner)
    finally:  # some of the data may be gone
        for kind in catalog.COMPUTED:
            catalog.clean(kind)
    st.toast(f"{counted(deleted, 'dataset')} deleted.")


def _name(owner: str) -> str:
    return f"visitor {owner[:6]}"


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


if __name__ == "__main__":
    page()
