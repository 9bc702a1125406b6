"""What tests of whole networks share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home folder of its own, and one thread: two tests of a file then leave each other alone."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
