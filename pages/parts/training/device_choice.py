"""The device that Train's runs and tunings use: a choice only where there is one."""

from __future__ import annotations

import streamlit as st


def choice() -> str:
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
