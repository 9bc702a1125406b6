"""How fast this computer is just now: its speed changes by half from hour to hour, and other figures with it."""

TIMES = 20_000_000
TITLE = "for comparison: Python adds 1, twenty million times"


def counted() -> int:
    """Adds 1 twenty million times."""
    count = 0
    while count < TIMES:
        count += 1
    return count
