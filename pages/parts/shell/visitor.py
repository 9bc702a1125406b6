"""Who is visiting: a random token in a cookie, which scripts of a page cannot read, or the account that is logged in.

Nothing else is known of a visitor. A classroom knows the browser alone, whoever is logged in.
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Final

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpcl_core.runs import visitors
from pages.parts.shell import login

COOKIE: Final = "dpcl-visitor"
_SECONDS: Final = 400 * 86_400  # the longest that browsers keep a cookie
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_STATE: Final = "visitor-token"


def token() -> str:
    """The token of this page's browser; where it keeps no cookie, one for this visit."""
    kept = checked(st.context.cookies.get(COOKIE))
    if kept is None:
        kept = st.session_state.setdefault(_STATE, secrets.token_hex(16))
    return kept


def digest() -> str:
    """What is kept of this visitor beside what the visitor made: the digest of the account, else of the token."""
    return login.account() or sha256(token().encode()).hexdigest()


def address() -> str | None:
    """The address that this visitor's runs, data and rooms count for; None for an account.

    Behind a proxy that the server trusts (`FORWARDED_ALLOW_IPS`), the one from which the proxy was asked.
    """
    return None if login.account() is not None else visitors.address_of(host())


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
                    headers.append("set-cookie", f"{value}; Secure" if _is_https(scope) else value)
            await send(message)

        await self.app(scope, receive, sent)


def _is_https(scope: Scope) -> bool:
    """Whether the browser asked over HTTPS, which a proxy says; who lies harms no cookie but the one that he gets."""
    said = Headers(scope=scope).get("x-forwarded-proto", scope["scheme"])
    return said.partition(",")[0].strip().lower() == "https"


def _token_of(scope: Scope) -> str | None:
    """The token in a request, whatever other cookies a browser sends with it: a strict reader refuses all for one name."""
    sent = ";".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
    cookies = (part.strip().partition("=") for part in sent.split(";"))
    return next((found for name, _, value in cookies if name == COOKIE and (found := checked(value.strip('"')))), None)
