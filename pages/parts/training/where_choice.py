"""Where a run of Train is carried out, and on which device: choices only where there is more than one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import streamlit as st

from pages.parts.shell import ownership, state

if TYPE_CHECKING:
    from dpcl_core.runs.run import Split

_HERE, _ALL, _RAY = "This computer", "All machines", "Ray cluster"
_HELP = (
    "Elsewhere, models of a run that share no work are learned in parts, each by the next free machine. "
    "The result stays that of the unsplit run."
)


def device_choice() -> str:
    """Draws the choice where the computer has a graphics card; the name of the chosen device."""
    from dpcl_core.runs import devices

    titles = {device.name: device.title for device in devices.found()}
    names = list(titles)
    if len(names) == 1:
        return names[0]
    return st.selectbox(
        "Device", names, index=names.index(devices.default()), format_func=lambda name: titles[name], key="device",
        help="Runs on different devices do not wait for each other. The last digits of a result depend on the device.",
    )  # fmt: skip


def split_choice(device: str) -> Split | None:
    """Draws the choice; how a run on this device is split among machines, None for a run of this computer alone."""
    from dpcl_core import packages
    from dpcl_core.runs import executors, machines
    from dpcl_core.runs.run import Split

    store = state.store()
    if ownership.is_shared() or not machines.can_share(store):
        return None
    present = machines.present(store)
    offered = [_HERE]
    if len(present) > 1:
        offered.append(_ALL)
    if os.environ.get("RAY_ADDRESS") and packages.lacking(("ray",)) is None:
        offered.append(_RAY)
    if len(offered) == 1:
        return None
    titles = {_ALL: f"{_ALL}: {', '.join(present)}"}
    chosen = st.selectbox("Where", offered, format_func=lambda name: titles.get(name, name), key="where", help=_HELP)
    if chosen == _HERE:
        return None
    kind = "cpu" if device == "cpu" else "cuda"
    name = executors.checked("local" if chosen == _ALL else "ray")
    return Split(executors.n_devices(name, kind, store), name, kind)
