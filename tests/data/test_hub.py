"""Downloads: whole or not at all, found again without asking, and one sentence where there is none."""

from __future__ import annotations

import errno
import http.client
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NoReturn

import huggingface_hub
import pytest

from dpcl_core.data import catalog, files
from dpcl_core.data.load import load_dataset
from dpcl_core.errors import DataMissing
from dpcl_core.spec import DataSpec
from tests.data.making import picture, write
from tests.support.waiting import NEVER_SECONDS

SVHN = DataSpec(dataset="svhn")


@pytest.fixture
def online(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub that is reachable and has SVHN in two training pieces, beside other files."""

    def download(repository: str, *, repo_type: str, allow_patterns: list[str], local_dir: Path) -> None:
        assert (repository, repo_type) == ("ufldl-stanford/svhn", "dataset")
        assert allow_patterns == ["cropped_digits/train-*.parquet", "cropped_digits/test-*.parquet"]
        folder = Path(local_dir) / "cropped_digits"
        for piece in (0, 1):
            images = [{"bytes": picture(10 * piece + i), "path": None} for i in range(10)]
            write(folder, f"train-0000{piece}-of-00002-abc", image=images, label=range(10))
        write(folder, "test-00000-of-00001", image=[picture()] * 10, label=range(10))
        write(Path(local_dir) / "full_numbers", "train-00000-of-00001", image=[b"no"], label=[0])

    monkeypatch.setattr(files, "is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return data_dir.parent / "home" / "hub"


def test_a_download_is_put_into_the_cache_and_found_again(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_dataset(SVHN)
    assert found.train.labels.tolist() == [*range(10), *range(10)]
    assert found.title == "SVHN (subset: 20 of 73,257 training and 10 of 26,032 test images)"
    assert [int(batch[0, 0, 0, 0]) for batch in found.train.images.batches(4, 1, 1)] == list(range(20))
    names = ["test-00000-of-00001.parquet", "train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    assert sorted(path.name for path in (online / "svhn").iterdir()) == names
    assert [path.name for path in online.iterdir()] == ["svhn"]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    monkeypatch.setattr(files, "is_reachable", lambda: False)
    assert len(load_dataset(SVHN).train) == 20
    assert catalog.available(catalog.card("svhn")) is None


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_download_without_the_files_leaves_nothing(is_lost: bool, online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, local_dir: Path, **__: object) -> None:
        write(Path(local_dir) / "cropped_digits", "other", image=[b"x"], label=[0])
        if is_lost:
            raise ConnectionError("lost")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(DataMissing, match=rf"did not give it \({'ConnectionError' if is_lost else 'FileNotFoundError'}\)$"):
        load_dataset(SVHN)
    assert list(online.iterdir()) == []


def test_a_full_disk_stays_a_full_disk(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(OSError, match="No space left"):
        load_dataset(SVHN)


def test_two_downloads_at_once_both_succeed(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = huggingface_hub.snapshot_download

    def slower(*args: object, **settings: object) -> None:
        ours(*args, **settings)  # type: ignore[arg-type]
        write(online / "svhn", "train", image=[picture()] * 10, label=range(10))
        write(online / "svhn", "test", image=[picture()] * 10, label=range(10))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", slower)
    assert len(load_dataset(SVHN).train) == 10
    assert [path.name for path in online.iterdir()] == ["svhn"]


def test_offline_nothing_is_asked(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_answers", lambda _: pytest.fail("asked the network although HF_HUB_OFFLINE is set"))
    with pytest.raises(DataMissing, match="it is not on this computer, and the Hugging Face hub cannot be reached"):
        load_dataset(SVHN)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    files._answers.cache_clear()
    yield  # type: ignore[misc]
    files._answers.cache_clear()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (urllib.error.HTTPError("", 405, "", {}, None), True),  # type: ignore[arg-type]
        (urllib.error.URLError("no such host"), False),
        (TimeoutError(), False),
        (http.client.BadStatusLine("SSH-2.0-nothing"), False),
    ],
)
def test_what_counts_as_an_answer(answer: Exception, expected: bool, asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(*_: object, **__: object) -> NoReturn:
        raise answer

    monkeypatch.setattr(urllib.request, "urlopen", reply)
    assert files.is_reachable() is expected


def test_a_silent_network_costs_one_second_once(asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asks, never = list[int](), threading.Event()

    def slow(*_: object, **__: object) -> NoReturn:
        asks.append(1)
        never.wait(NEVER_SECONDS)
        raise OSError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", slow)
    monkeypatch.setattr(time, "monotonic", lambda: 1e6)
    assert not files.is_reachable()  # though no answer has come
    assert not files.is_reachable()
    never.set()
    assert asks == [1]
