"""Several at once, as two people at two pages are."""

import threading
from collections.abc import Callable


def together(act: Callable[[int], object], n: int) -> None:
    """Calls `act` with 0 to n - 1, each in a thread of its own, and waits for all."""
    threads = [threading.Thread(target=act, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
