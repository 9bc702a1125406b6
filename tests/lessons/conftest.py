"""Features of the digits are kept in a home of the tests' own."""

from collections.abc import Iterator

import pytest

from dpcl_core.lessons import label


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCL_HOME", str(tmp_path_factory.mktemp("lessons")))
        yield


@pytest.fixture(scope="session")
def told(_home: None) -> label.Neighbours:
    """The digits 0 to 8, and one person with a 9."""
    return label.neighbours()
