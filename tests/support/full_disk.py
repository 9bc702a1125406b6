"""A disk that is full, for the files of this process."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
