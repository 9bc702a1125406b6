"""What a visitor sees of an error that nobody foresaw: one sentence with a number, under which the log has the rest."""

from __future__ import annotations

import logging

import streamlit as st

from dpcl_core import unforeseen
from pages.parts.shell import forged
from pages.parts.shell.text import plain


def shown(error: Exception) -> bool:
    """Shows the sentence where the page broke off; True: the framework need show nothing more."""
    st.error(plain(forged.SENTENCE if forged.is_reading(error) else unforeseen.recorded(error)))
    return True


class Masking(logging.Filter):
    """Takes secrets out of the tracebacks that the framework writes on standard error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record; none is dropped."""
        if record.exc_info and record.exc_info[1] is not None:
            record.msg, record.args = f"{record.getMessage()}\n{unforeseen.trace(record.exc_info[1])}", ()
            record.exc_info = None
        return True
