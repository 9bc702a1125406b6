"""Links as nobody's page would write them: keys that pages read, and others, with values of every kind."""

import json
import random
from importlib import import_module
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from pages.parts import lesson_stage, link, train_form

_ROOT = Path(__file__).resolve().parents[2]
_ODD = (
    "", " ", "\0", "-", ",", ",,,", "a,b", "%2C", "%", "\u202e", "é" * 50, "x" * 3000, "0", "1", "-1", "2", "999999",
    "9" * 5000, "1e309", "inf", "∞", "nan", "1,inf", "0.5", "-0", "true", "None", "[]", "{}", "<script>alert(1)</script>",
    "](http://x)", "../../etc/passwd", "own:x", "own:../x", "digits", "small", "federated", "lm-tiny", "lite0",
    "abcdefghijkl", "0" * 32, "1;2", "$x$", ":red[x]", "١٢",
)  # fmt: skip
_OTHERS = ("v", "large", "run", "preset", "question", "room", "from", "zz", "é", "embed")
_SECONDS = 600  # of a page on a busy machine


def _drawn(page: str, draw: random.Random) -> dict[str, str]:
    """The query parameters of a link to a page: half of its values are of the right kind."""
    query: dict[str, str] = {}
    if page == "train":
        query = {"m": draw.choice(list(methods.CARDS)), "s": draw.choice(list(scenarios.CARDS))}
        codec = train_form.codec(query["m"], query["s"])
    else:
        codec = getattr(import_module(f"pages.{page}"), "CODEC", lesson_stage.CODEC)
    for field in draw.choices(codec.fields, k=draw.choice([1, 2, 4, 8, 16])):
        query[field.key] = _plausible(field.kind, draw) if draw.random() < 0.6 else draw.choice(_ODD)
    return query | {draw.choice(_OTHERS): draw.choice(_ODD) for _ in range(draw.choice([0, 0, 1, 2]))}


def trouble(draw: random.Random) -> str:
    """What a visitor of a link to a page sees that nobody foresaw, and where it happened; empty if the page is drawn."""
    page = draw.choice(sorted(path.stem for path in (_ROOT / "pages").glob("*.py") if path.stem != "__init__"))
    query = _drawn(page, draw)
    test = AppTest.from_file(str(_ROOT / "app.py"), default_timeout=_SECONDS).switch_page(f"pages/{page}.py")
    for key, value in query.items():
        test.query_params[key] = value
    test.run()
    test.run()  # once more: a fresh server starts over when a link is its first request
    if not test.exception:
        return "" if test.title else "the page has no title"
    where = " | ".join(line.strip() for line in test.exception[0].stack_trace[-2:])
    return f"{test.exception[0].value} at {where}; {page}?{json.dumps(query)[:500]}"


def _plausible(kind: object, draw: random.Random) -> str:
    """A text that this kind of value can be read from, or nearly."""
    match kind:
        case link.Choice(options):
            return draw.choice(options)
        case link.Flag():
            return draw.choice("01")
        case link.Whole(low, high):
            return str(draw.choice([low, high, low + 1, draw.randint(low, high), min(high, 3)]))
        case link.Number(low, high):
            return str(draw.choice([low, high, 1.0, 0.1, 8.0, 1e-9, 1e9]))
        case link.Maybe(inner):
            return draw.choice(["-", _plausible(inner, draw)])
        case link.Many(inner):
            return ",".join(_plausible(inner, draw) for _ in range(draw.choice([1, 2, 3, 7])))
        case _:
            return draw.choice(["digits", "pixels", "pii-synthetic-tiny", "lite0", "minilm", "a", "1,2", "1.5"])
