"""Logins of a shared server: the account in place of the browser, by Streamlit's own mechanism.

They are on where the server's `.streamlit/secrets.toml` names a provider (`[auth]`, OpenID Connect). Of an account a digest
is kept, nothing else; what the provider says besides stays in a cookie of the visitor's browser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

import streamlit as st
from streamlit.errors import StreamlitAuthError

from dpcl_core import packages
from dpcl_core.masking import masked
from pages.parts.shell.text import plain

WHY = """Your runs and data are kept for your account: you find them again in any browser, and nobody else can change them.
Of the account, this server keeps a digest and no name."""
_LOGGED_IN = "is_logged_in"  # key that Streamlit's user has only where the secrets name a provider


def account() -> str | None:
    """The digest of the account that is logged in, from its issuer and its subject; None: nobody is."""
    user = st.user.to_dict()  # once: every look at it looks for the secrets, too
    issuer, subject = user.get("iss"), user.get("sub")
    if not user.get(_LOGGED_IN) or not isinstance(issuer, str) or not isinstance(subject, str):
        return None
    return sha256(json.dumps([issuer, subject]).encode()).hexdigest()


def is_missing() -> bool:
    """Whether this server has logins and this visitor has not logged in."""
    return _LOGGED_IN in st.user and account() is None


def ask() -> None:
    """Draws the page in place of one that asks for a login."""
    st.title("Log in", anchor=False)
    with st.container(key="card-login", gap="small"):
        st.markdown(WHY)
        if lacking := packages.lacking(["authlib"]):
            st.error(f"The login of this server {lacking}")
            return
        for provider, label in _providers().items():
            if st.button(label, type="primary", key=f"login-{provider or 'only'}"):
                try:
                    st.login(provider)
                except StreamlitAuthError as refused:
                    st.error(plain(masked(str(refused))))


def out() -> None:
    """Draws the button that logs out, for somebody who has logged in."""
    if account() is not None:
        name = st.user.get("email") or st.user.get("name")
        st.button("Log out", key="logout", on_click=st.logout, help=f"Logged in as {plain(str(name))}" if name else None)


def _providers() -> dict[str | None, str]:
    """What is written on the button of each provider in the secrets, by its name there (None: it has none)."""
    auth = st.secrets["auth"]
    named = [name for name, one in auth.items() if isinstance(one, Mapping) and "client_id" in one]
    unnamed: dict[str | None, str] = {None: "Log in"} if "client_id" in auth or not named else {}
    return unnamed | {name: f"Log in with {name.capitalize()}" for name in named}
