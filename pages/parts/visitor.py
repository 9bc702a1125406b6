"""Who is visiting: a random token in a cookie, which scripts of a page cannot read, or the account that is logged in.

Nothing else is known of a visitor. A classroom knows the browser alone, whoever is logged in.
"""

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.errors import StreamlitAuthError

from dpcl_core import machine
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.runs import queue
from dpcl_core.unforeseen import masked
from pages.parts.text import WORDS, plain

# Logins of a shared server: the account in place of the browser, by Streamlit's own mechanism.
#
# They are on where the server's `.streamlit/secrets.toml` names a provider (`[auth]`, OpenID Connect). Of an account a
# digest is kept, nothing else; what the provider says besides stays in a cookie of the visitor's browser.


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
        st.markdown(WORDS["visitor"]["login"])
        if lacking := machine.lacking(["authlib"]):
            st.error(f"The login of this server {lacking}")
            return
        # What is written on the button of each provider in the secrets, by its name there (None: it has none).
        auth = st.secrets["auth"]
        named = [name for name, one in auth.items() if isinstance(one, Mapping) and "client_id" in one]
        unnamed: dict[str | None, str] = {None: "Log in"} if "client_id" in auth or not named else {}
        for provider, label in (unnamed | {name: f"Log in with {name.capitalize()}" for name in named}).items():
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


COOKIE: Final = "dpcl-visitor"
_SECONDS: Final = 400 * 86_400  # the longest that browsers keep a cookie
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


def token() -> str:
    """The token of this page's browser; where it keeps no cookie, one for this visit."""
    kept = checked(st.context.cookies.get(COOKIE))
    return kept or str(st.session_state.setdefault("visitor-token", secrets.token_hex(16)))


def digest() -> str:
    """What is kept of this visitor beside what the visitor made: the digest of the account, else of the token."""
    return account() or sha256(token().encode()).hexdigest()


def address() -> str | None:
    """The address that this visitor's runs, data and rooms count for; None for an account.

    Behind a proxy that the server trusts (`FORWARDED_ALLOW_IPS`), the one from which the proxy was asked.
    """
    return None if account() is not None else queue.address_of(host())


def host() -> str:
    """The address from which this visitor's browser asks."""
    found = st.context.ip_address  # none: this computer's
    return found if isinstance(found, str) else "127.0.0.1"


def checked(cookie: object) -> str | None:
    """The token, if the cookie's value is one."""
    return cookie if isinstance(cookie, str) and _TOKEN.fullmatch(cookie) else None


class GivesToken:
    """Gives a browser that has none its cookie, with the page that it opens first."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and adds the cookie to the answer if it is a page for a browser without one."""
        if scope["type"] != "http" or _token_of(scope) is not None:
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    value = f"{COOKIE}={secrets.token_hex(16)}; Path=/; Max-Age={_SECONDS}; HttpOnly; SameSite=Lax"
                    # A proxy says that the browser asked over HTTPS; who lies harms no cookie but the one that he gets.
                    said = Headers(scope=scope).get("x-forwarded-proto", scope["scheme"])
                    is_https = said.partition(",")[0].strip().lower() == "https"
                    headers.append("set-cookie", f"{value}; Secure" if is_https else value)
            await send(message)

        await self.app(scope, receive, sent)


def _token_of(scope: Scope) -> str | None:
    """The token in a request, whatever other cookies a browser sends with it: a strict reader refuses all for one name."""
    sent = ";".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
    cookies = (part.strip().partition("=") for part in sent.split(";"))
    return next((found for name, _, value in cookies if name == COOKIE and (found := checked(value.strip('"')))), None)


# Whose data are whose. On a server that others reach, each browser sees its own data and those of the computer.


WHERE: Final = "The file goes no further than the computer that serves this page."
HERE: Final = ("localhost", "127.0.0.1", "::1")


def is_shared() -> bool:
    """Whether other computers reach this server."""
    return queue.VARIABLE in os.environ or st.get_option("server.address") not in HERE


def is_mine(name: str) -> bool:
    """Whether this visitor may use a dataset, and see the runs on it: public data, the computer's, and the visitor's own."""
    return not name.startswith("own:") or not is_shared() or own.owner(name) in ("", digest())


def may_delete(name: str) -> bool:
    """Whether this visitor may delete data: on a server that others reach, the visitor's own and not the computer's."""
    return not is_shared() or own.owner(name) == digest()


def check_owner(name: str) -> None:
    """Raises BadInput for data of another visitor, who has a link or guesses a name; the same where there are none."""
    if not is_mine(name):
        raise BadInput("data.dataset", name, "is none of your data on this server: choose others, or bring your own")


def mine(names: Iterable[str]) -> list[str]:
    """Those of the datasets that this visitor may use."""
    return [name for name in names if is_mine(name)]
