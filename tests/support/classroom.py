"""A class in its room, as forty browsers are: each asks for the room twice a second, and votes once."""

import http.client
import json
import math
import random
import threading
import time
from collections.abc import Iterator

from tests.support.together import together

N_VISITORS, EVERY_SECONDS = 40, 0.5
TEACHER = "f" * 32
TOKENS = tuple(f"{number:032x}" for number in range(N_VISITORS))
_AFTER_SECONDS = 5.0  # how long visitors look on after the last vote


class Visitor:
    """A browser's requests beside its page, over a connection that stays open."""

    def __init__(self, url: str, code: str, token: str) -> None:
        self._client = http.client.HTTPConnection(url.removeprefix("http://"))
        self._path, self._headers = f"/rooms/{code}", {"cookie": f"dpcl-visitor={token}", "content-type": "application/json"}

    def look(self) -> dict:
        """The open question as this visitor sees it."""
        return self._asked("GET", "", None)

    def vote(self, poll: str, choice: int) -> dict:
        """Sends an answer; gives the question as the visitor then sees it."""
        return self._asked("POST", "/vote", json.dumps({"poll": poll, "choice": choice}))

    def _asked(self, method: str, beyond: str, body: str | None) -> dict:
        self._client.request(method, self._path + beyond, body, self._headers)
        return json.loads(self._client.getresponse().read())["poll"]


def waits(url: str, code: str, poll: str, within: float) -> list[float]:
    """Seconds from each vote until each visitor's page has it; all vote at random times `within` so many seconds."""
    voted: list[float] = []  # when the n-th vote was sent
    seen: list[list[float]] = [[] for _ in TOKENS]  # when a visitor first saw n votes
    lock, begin = threading.Lock(), time.monotonic() + 2 * EVERY_SECONDS

    def visit(number: int) -> None:
        visitor = Visitor(url, code, TOKENS[number])
        for at, is_vote in _times(number, begin, within):
            time.sleep(max(0.0, at - time.monotonic()))
            if is_vote:
                with lock:
                    voted.append(time.monotonic())
            votes = visitor.vote(poll, number % 2)["votes"] if is_vote else visitor.look()["votes"]
            seen[number] += [time.monotonic()] * (votes - len(seen[number]))

    together(visit, N_VISITORS)
    return [at - sent for of_visitor in seen for sent, at in zip(voted, of_visitor, strict=False)]


def _times(number: int, begin: float, within: float) -> Iterator[tuple[float, bool]]:
    """When a visitor asks, and whether with a vote: twice a second from a moment of its own on."""
    coin = random.Random(number)
    vote, look = begin + within * coin.random(), begin - EVERY_SECONDS * (1 + coin.random())
    until = begin + within + _AFTER_SECONDS
    while look < until:
        if vote < look:
            yield vote, True
            vote = math.inf
        yield look, False
        look = max(look + EVERY_SECONDS, time.monotonic() + EVERY_SECONDS)  # as the page does: after the answer
