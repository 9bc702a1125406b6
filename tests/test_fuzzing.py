"""Nothing that anybody can type, link to, upload or send is met with anything but use or one sentence.

Here a small sample; `make fuzz` tries far more and writes the counts into docs/fuzzing.md. A finding is printed with the
seed and the number that draw it again.
"""

import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import streamlit as st

from tests.fuzz import files, links, messages, settings
from tests.support import serving

RECORD = Path(__file__).resolve().parent.parent / "docs" / "fuzzing.json"
RUN_SECONDS, RUN_MEGABYTES = 2.0, 16_000
# How many of each a night tries; files: of each door.
NIGHT = {"settings": 100_000, "runs": 250, "links": 2_000, "files": 400} | dict.fromkeys(messages.SENDERS, 2_000)
_TITLES = {
    "settings": "settings through `checks.parse` and `checks.check_run`",
    "runs": f"first {RUN_SECONDS:g} s of runs of settings that were accepted", "links": "links to pages",
    "files": "files with changed bytes or values",
    "no files": "pipes, devices, folders, circles, huge files in their place",
    "frames": "connections with bytes that are no frames", "messages": "connections with wrong messages",
    "requests": "requests",
}  # fmt: skip
_INTRODUCTION = """# What strangers may send

Made by `make fuzz`. Settings are drawn from the schemas of all methods, streams, data and privacy settings, within their
bounds and far outside; links from the keys of every page; files are good ones with seeded changes, at every place where a
file comes in; connections and requests go to a real server. A finding is anything but use or one sentence: another
exception, a page that breaks off, a run that fails at once for a reason that its settings show, a server that ends or
answers with a traceback. Accepted: settings with which a run could start; of the others, all that was met as it should be.

| what | tried | accepted | findings | seed |
| --- | --- | --- | --- | --- |
"""
Counts = Mapping[str, int]


def fuzz(kind: str, seed: str, n: int, folder: Path) -> Mapping[str, Counts]:
    """What came of n draws of a kind, by the names of the record; accepted settings are those with which a run may start."""
    match kind:
        case "settings":
            return {kind: _counted(kind, seed, n, lambda draw: settings.refusal(settings.drawn(draw)) is None)}
        case "runs":
            return {kind: fuzz_runs(seed, n)}
        case "links":
            return {kind: _counted(kind, seed, n, lambda draw: _used(links.trouble(draw)))}
        case "files":
            return fuzz_files(seed, n, folder)
        case _:
            with server(folder) as port:
                return {kind: fuzz_server(kind, seed, n, port)}


def fuzz_runs(seed: str, n: int) -> Counts:
    """Starts runs of settings that were accepted, or of what their refusals offer; no method has more than its share."""
    started: Counter[object] = Counter()

    def is_accepted(draw: random.Random) -> bool:
        while True:
            raw = settings.drawn(draw)
            usable = raw if settings.refusal(raw) is None else settings.mended(raw)
            if usable is not None and started[usable["method"]] <= n // 12:
                break
        started[usable["method"]] += 1
        failure = settings.first_steps(usable, RUN_SECONDS, RUN_MEGABYTES)
        return _used(failure and f"{failure}; {usable}")

    return _counted("runs", seed, n, is_accepted)


def fuzz_files(seed: str, n: int, folder: Path) -> Mapping[str, Counts]:
    """Changed files, and paths that are no files, at every door."""
    changed, none = Counter[str](), Counter[str]()
    for door in files.doors(folder):
        _used(door.trouble())
        changed.update(_counted(f"files {door.path.name}", seed, n, lambda draw, at=door: _used(files.changed(at, draw))))
        for what, wrong in files.no_files(door):
            none.update(tried=1, accepted=int(not wrong), findings=int(bool(wrong)))
            if wrong:
                print(f"FOUND {door.path.name}, {what}: {wrong}", flush=True)
    return {"files": changed, "no files": none}


def fuzz_server(kind: str, seed: str, n: int, port: int) -> Counts:
    return _counted(kind, seed, n, lambda draw: _used(messages.SENDERS[kind](port, draw)))


def _used(trouble: str) -> bool:
    """True: there is nothing between use and trouble, as there is with settings, which may be refused."""
    assert not trouble, trouble
    return True


@contextmanager
def server(home: Path) -> Iterator[int]:
    """A server on a port of this computer; at the end it must still be up and healthy."""
    with serving.serving(home) as (port, process):
        yield port
        assert process.poll() is None, "the server ended"
        assert serving.is_healthy(port)


def _counted(kind: str, seed: str, n: int, is_accepted: Callable[[random.Random], bool]) -> Counts:
    """Tries n draws of a kind and prints every one that is met with anything but use or one sentence."""
    counts = {"tried": 0, "accepted": 0, "findings": 0}
    for number in range(n):
        counts["tried"] += 1
        try:
            counts["accepted"] += int(is_accepted(random.Random(f"{seed} {kind} {number}")))
        except Exception as error:
            counts["findings"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FOUND {kind} {seed!r} {number}: {error!r:.600} at {where.filename}:{where.lineno}", flush=True)
    return counts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    st.cache_resource.clear()
    st.cache_data.clear()
    return tmp_path


@pytest.mark.parametrize(("kind", "n"), [("settings", 250), ("links", 6), ("files", 2)])
def test_settings_links_and_files_are_used_or_refused(kind: str, n: int, home: Path) -> None:
    for counts in fuzz(kind, "sample", n, home).values():
        assert counts["tried"] >= n
        assert counts["findings"] == 0


def test_a_server_outlasts_what_strangers_send(home: Path) -> None:
    with server(home) as port:
        for kind in messages.SENDERS:
            assert fuzz_server(kind, "sample", 15, port)["findings"] == 0


def page(record: Mapping[str, Mapping[str, object]]) -> str:
    """The counts as a page of the documentation."""
    rows = [
        f"| {title} | {own['tried']:,} | {own['accepted']:,} | {own['findings']} | `{own['seed']}` |"
        for kind, title in _TITLES.items() if (own := record.get(kind))
    ]  # fmt: skip
    return _INTRODUCTION + "\n".join(rows) + "\n"


def test_the_page_has_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert RECORD.with_suffix(".md").read_text(encoding="utf-8") == page(record)
    assert set(record) == set(_TITLES)
    assert all(own["findings"] == 0 for own in record.values())


def main(seed: str, named: Sequence[str]) -> int:
    """Tries the named kinds, or all, and writes the counts down after each; gives the number of findings."""
    warnings.simplefilter("ignore")
    record: dict[str, Mapping[str, object]] = {}
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCL_HOME", root)
        patch.delenv("DPCL_STORE", raising=False)
        patch.setenv("HF_HUB_OFFLINE", "1")
        for kind in named or NIGHT:
            for name, counts in fuzz(kind, seed, NIGHT[kind], Path(root)).items():
                print(f"{name}: {counts}", flush=True)
                record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
                record[name] = {**counts, "seed": seed}
                RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
                RECORD.with_suffix(".md").write_text(page(record), encoding="utf-8")
    return sum(int(str(counts["findings"])) for counts in record.values())


if __name__ == "__main__":
    # python -m tests.test_fuzzing [SEED [KIND ...]]; the seed is today unless one is given
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else time.strftime("%Y-%m-%d"), sys.argv[2:]) > 0)
