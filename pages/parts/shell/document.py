"""The document that a browser gets first: the framework's own, with what a browser would otherwise have to find out.

It has the page's title, so that a tab and the preview of a link name it before any script runs; the server's address, for
which the framework would ask first at the page's own address; the scripts that every page needs soon; the app's style;
and a history of one entry for each act of the visitor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pages.parts.shell import style

APP: Final = "DP continual learning"
WITHOUT_SCRIPTS: Final = "This app needs JavaScript."
_STATIC: Final = Path(st.__file__).parent / "static"
# The parts of the framework that draw a heading and HTML: found by name only once the first message with one comes.
_PRELOADED: Final = ("Html", "purify.es", "rehype-raw", "hastscript", "web-namespaces")
# A proxy may serve the app below a path of its own, which only the browser sees. With the configuration at hand the browser
# connects without asking; but an account is believed only together with the cookie of an answer, so without it, it asks.
_ADDRESS: Final = """<script>
(() => {
  const page = %s, path = location.pathname;
  if (!path.endsWith(page)) return;
  window.__streamlit = {BACKEND_BASE_URL: location.origin + path.slice(0, path.length - page.length)};
  if (/(^|; )_streamlit_xsrf=/.test(document.cookie))
    window.__streamlit.HOST_CONFIG = {allowedOrigins: [location.origin], useExternalAuthToken: false};
})();
</script>
"""
# The framework adds an entry to the history for every address that a page writes: one for a link, one more for the view that
# the page behind it begins with. Here whatever follows one act of the visitor is one entry, so that Back undoes one act.
_HISTORY: Final = """<script>
(() => {
  const push = history.pushState, replace = history.replaceState;
  let acted = false;
  for (const kind of ["pointerdown", "keydown", "click", "input"]) addEventListener(kind, () => { acted = true; }, true);
  addEventListener("popstate", () => { acted = false; }, true);
  history.pushState = (...entry) => {
    (acted ? push : replace).apply(history, entry);
    acted = false;
  };
})();
</script>
"""


def title(page: str) -> str:
    """What a tab is called that shows a page."""
    return f"{page} · {APP}"


def routes(pages: Iterable[tuple[str, str]]) -> list[Route]:
    """The addresses of pages, each by name and title; the name of the first leads to the server's own address.

    What somebody adds to a page's address, as in /lessons/3, leads to the page: the framework's document would stay empty.
    Only one part, since the framework looks for its server at a page's address, too, and must not find it there.
    """
    named = [(f"/{name}", title(called)) for name, called in pages]
    base = f"/{st.get_option('server.baseUrlPath').strip('/')}".rstrip("/")
    away = [_leading(base + named[0][0], "./"), *(_leading(f"{base}{path}/{{more}}", f"..{path}") for path, _ in named)]
    return [*away, *(_route(base + path, of_page(path, called)) for path, called in [("/", named[0][1]), *named[1:]])]


def of_page(path: str, called: str) -> str:
    """The document of the page at an address below the server's own."""
    text = (_STATIC / "index.html").read_text(encoding="utf-8")
    scripts = [f"./static/js/{file.name}" for name in _PRELOADED for file in (_STATIC / "static/js").glob(f"{name}.*.js")]
    preloads = "".join(f'<link rel="modulepreload" crossorigin href="{each}">\n' for each in scripts)
    text = text.replace("<title>Streamlit</title>", f"<title>{escape(called)}</title>")
    text = re.sub("<noscript>.*?</noscript>", f"<noscript>{WITHOUT_SCRIPTS}</noscript>", text, flags=re.DOTALL)
    text = text.replace("</head>", f"{preloads}{_ADDRESS % json.dumps(path)}{_HISTORY}</head>")
    # After the framework's rules, which are in the head, and before a page's own, such as those of the presenter's size.
    return text.replace("<body>", f"<body>{style.in_document()}")


def is_own(url: str | None, names: Collection[str]) -> bool:
    """Whether a visit that began at this address got one of these documents: not where no page has its name."""
    return url is not None and urlsplit(url).path.rpartition("/")[2] in ("", *names)


def _leading(path: str, to: str) -> Route:
    return Route(path, lambda _: RedirectResponse(to))


def _route(path: str, text: str) -> Route:
    async def answer(_: Request) -> Response:
        return HTMLResponse(text, headers={"cache-control": "no-cache"})

    return Route(path, answer)
