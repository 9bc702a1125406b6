"""The form of the public schema: what the columns are, and what is public about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import streamlit as st
from pydantic import ValidationError

from dpcl_core.data import schema
from dpcl_core.errors import first_of

_ROLES = {
    "target": ("Target", "The column to predict; its values are the labels."),
    "text": ("Text", "The column of texts to learn from; no other column is a feature then."),
    "source": ("Source", "Where a row comes from, such as a site: tasks can follow it."),
    "person": ("Person", "Who a row belongs to. The person is protected then, not the row."),
    "time": ("Time", "A column of dates: tasks can follow the months."),
}
_USUAL = {"target": ("label", "target", "class", "y"), "text": ("text", "sentence", "review")}
_NONE = "none"


def form(columns: Sequence[str], features: Sequence[str]) -> schema.Schema:
    """Draws the form for a file with these columns, of which `features` can be described; gives the schema.

    Raises BadInput for a value that is not allowed.
    """
    said: dict[str, object] = {}
    if columns:
        roles = {role: _role(role, columns) for role in _ROLES}
        said["columns"] = {role: column for role, column in roles.items() if column is not None}
        if roles["person"] is not None:
            said["per_person"] = st.number_input(
                "Rows per person that count", 1, 1000, 1, key="own-per-person",
                help="A number of your choice, not read from the rows. Further rows of the person are left out.",
            )  # fmt: skip
    with st.expander("What else is public"):
        said |= _facts()
    if features:
        with st.expander("What is public about the features"):
            said["features"] = _features(features)
    try:
        return schema.Schema.model_validate(said)
    except ValidationError as error:
        raise first_of(error, "schema") from error


def _role(role: str, columns: Sequence[str]) -> str | None:
    title, help_text = _ROLES[role]
    usual = next((name for name in columns if name.lower() in _USUAL.get(role, ())), None)
    options = [_NONE, *columns]
    index = 0 if usual is None else options.index(usual)
    places = range(len(options))  # a column may be called "none"
    chosen = st.selectbox(title, places, index=index, format_func=options.__getitem__, help=help_text, key=f"own-{role}")
    return options[chosen] if chosen else None


def _facts() -> dict[str, object]:
    said: dict[str, object] = {}
    if title := st.text_input("Title", max_chars=80, key="own-title").strip():
        said["title"] = title
    labels = st.text_area(
        "All labels, one per line", key="own-classes",
        help="Empty: the labels of the public test part are public; others are learned under differential privacy.",
    )  # fmt: skip
    if names := [line.strip() for line in labels.splitlines() if line.strip()]:
        said["classes"] = names
    about = st.number_input(
        "Roughly how many training examples", 1, None, None, key="own-n-train",
        help="A number of your choice, not an exact count: it decides δ and how much noise is added.",
    )  # fmt: skip
    if about is not None:
        said["n_train"] = about
    share = st.number_input(
        "Share of rows for the public test part", 0.01, 0.9, None, key="own-held-out",
        help="No budget protects these rows: accuracy is measured on them.",
    )  # fmt: skip
    if share is not None:
        said["held_out"] = share
    return said


def _features(features: Sequence[str]) -> dict[str, Mapping[str, object]]:
    import pandas as pd

    st.markdown(
        "What you know without looking at the rows. With one feature given, columns that are not named are left out; with "
        "none, every number goes through one fixed squashing."
    )
    empty = pd.DataFrame({"column": list(features), "low": math.nan, "high": math.nan, "categories": "", "words": False})
    config = {
        "categories": st.column_config.TextColumn(help="Separated by commas."),
        "words": st.column_config.CheckboxColumn(help="Free text, hashed."),
    }
    edited = st.data_editor(empty, column_config=config, disabled=["column"], hide_index=True, key="own-features")
    said: dict[str, Mapping[str, object]] = {}
    for row in edited.itertuples(index=False):
        one: dict[str, object] = {}
        for bound in ("low", "high"):
            if not pd.isna(getattr(row, bound)):
                one[bound] = float(getattr(row, bound))
        if words := [word.strip() for word in str(row.categories or "").split(",") if word.strip()]:
            one["categories"] = words
        if row.words:
            one["text"] = True
        if one:
            said[str(row.column)] = one
    return said

