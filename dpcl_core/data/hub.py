"""Downloads public datasets from the Hugging Face hub into the cache."""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from dpcl_core import paths
from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard
from dpcl_core.errors import DataMissing

_PROBE_SECONDS = 1.0
_PROBE_LASTS_SECONDS = 300


def is_reachable() -> bool:
    """Whether the hub answers within a second; cached for five minutes. False with HF_HUB_OFFLINE=1."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return False
    return _answers(int(time.monotonic() // _PROBE_LASTS_SECONDS))


def fetch(card: DatasetCard) -> None:
    """Downloads the dataset into the cache, under the names that `files.find` expects.

    An interrupted download leaves nothing behind. Raises DataMissing naming the files to add, OSError for a full disk.
    """
    assert card.hub is not None
    if not is_reachable():
        raise DataMissing(files.FIELD, card.name, _wish(card, "the Hugging Face hub cannot be reached"))
    from huggingface_hub import snapshot_download  # takes a second to import, and only downloads need it

    target = paths.inside(files.cache_dir(), card.folder, files.FIELD)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    patterns = {split: pattern for split, pattern in (("train", card.hub.train), ("test", card.hub.test)) if pattern}
    try:
        paths.made(partial.parent)
        snapshot_download(
            card.hub.repository, repo_type="dataset", allow_patterns=list(patterns.values()), local_dir=partial / "download"
        )
        (partial / "ready").mkdir()
        for split, pattern in patterns.items():
            _gather(partial / "download", pattern, partial / "ready", split)
        _put(partial / "ready", target)
    except Exception as error:  # the hub's client raises many kinds of error, all with the same meaning for the user
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        reason = f"the Hugging Face hub did not give it ({type(error).__name__})"
        raise DataMissing(files.FIELD, card.name, _wish(card, reason)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _gather(download: Path, pattern: str, ready: Path, split: str) -> None:
    """Moves a split's files to `split-00000-of-NNNNN.parquet`, in the order of their names on the hub."""
    shards = sorted(path for path in download.rglob("*.parquet") if fnmatch(path.relative_to(download).as_posix(), pattern))
    if not shards:
        raise FileNotFoundError(pattern)
    for index, path in enumerate(shards):
        path.rename(ready / f"{split}-{index:05d}-of-{len(shards):05d}.parquet")


def _put(ready: Path, target: Path) -> None:
    try:
        ready.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:  # another process has just put the same files there
            raise


def _wish(card: DatasetCard, reason: str) -> str:
    return f"{files.wish(card)}; it is not on this computer, and {reason}"


@lru_cache(maxsize=1)
def _answers(_period: int) -> bool:
    answer: list[bool] = []
    thread = threading.Thread(target=_ask, args=(answer,), daemon=True)  # name resolution alone can hang for many seconds
    thread.start()
    thread.join(_PROBE_SECONDS)
    return bool(answer)


def _ask(answer: list[bool]) -> None:
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    with suppress(OSError, ValueError, http.client.HTTPException):
        with suppress(urllib.error.HTTPError):  # an error status is an answer, too
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_PROBE_SECONDS).close()
        answer.append(True)
