"""Published numbers: leads links of earlier days to the paper's side of its question."""

from __future__ import annotations

import streamlit as st

from pages.parts import link

if __name__ == "__main__":
    st.switch_page("pages/questions.py", query_params={**link.parameters(), "w": "paper"})
