"""A provider of logins (OpenID Connect) on a free port of this computer, where anybody is whom they say they are."""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "dpcl", "the-secret-of-this-client"


@dataclass
class Provider:
    """A running provider. `refuses`: whether it answers the next login with an error."""

    url: str = ""
    refuses: bool = False
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "only", "use": "sig"}))
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)  # code: who, and the nonce of the request

    def secrets(self, app: str) -> str:
        """What the app at this address has in its `secrets.toml`."""
        lines = [
            "[auth]", f'redirect_uri = "{app}/oauth2callback"', f'cookie_secret = "{secrets.token_hex(32)}"',
            f'client_id = "{CLIENT}"', f'client_secret = "{SECRET}"',
            f'server_metadata_url = "{self.url}/.well-known/openid-configuration"',
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def metadata(self) -> dict[str, object]:
        """What the provider says of itself."""
        return {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks", "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }  # fmt: skip

    def page(self, query: dict[str, str]) -> str:
        """A page with a link for each person, who thereby logs in."""
        links = []
        for person in ("ada", "grace"):
            code = secrets.token_hex(8)
            self.asked[code] = person, query.get("nonce", "")
            answer = {"error": "access_denied"} if self.refuses else {"code": code}
            back = f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}"
            links.append(f'<a href="{back.replace("&", "&amp;")}">{person}</a>')
        return f"<!doctype html><title>Provider</title>{' '.join(links)}"

    def token(self, form: dict[str, str]) -> dict[str, object]:
        """The signed token for a code, once."""
        person, nonce = self.asked.pop(form["code"])
        now = int(time.time())
        claims = {
            "iss": self.url, "sub": f"number-of-{person}", "aud": CLIENT, "iat": now, "exp": now + 600, "nonce": nonce,
            "email": f"{person}@example.org",
        }  # fmt: skip
        signed = jwt.encode({"alg": "RS256", "kid": "only"}, claims, self.key)
        return {"access_token": secrets.token_hex(8), "token_type": "Bearer", "expires_in": 600, "id_token": signed}


@contextmanager
def running() -> Iterator[Provider]:
    """A provider that answers until the block ends."""
    provider = Provider()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(asked.query).items()}
                self._send(provider.page(query), "text/html")
            elif asked.path == "/jwks":
                self._send(json.dumps({"keys": [provider.key.as_dict(private=False)]}), "application/json")
            else:
                self._send(json.dumps(provider.metadata()), "application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._send(json.dumps(provider.token(form)), "application/json")

        def _send(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
