"""The command line: python -m dpcl_core …

Exit status: 0 success, 1 the run, the store or the program itself failed, 2 the input was wrong (one line on standard
error, no traceback: that of an error that nobody foresaw is in the log of errors).
`verify`: 0 all numbers match, 1 one differs, 2 one cannot be checked.
"""

import atexit
import gc
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

from dpcl_core.cli import output, parser
from dpcl_core.errors import INPUT, BadInput, StoreTrouble


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    output.printable_anywhere()
    gc.set_threshold(200_000)  # what modules make as they load stays: looking through it takes a tenth of a run
    atexit.register(gc.freeze)  # the same at the end, where Python looks through all that is left once more
    try:
        return _carried_out(arguments)
    except (BadInput, StoreTrouble) as error:
        line = output.one_line(error)
        if isinstance(error, BadInput) and error.fix:  # new values mend it
            from dpcl_core.checks import as_sets

            line += f"; add {as_sets(error.fix)}"
        output.say(line)
        return 2 if error.kind in INPUT else 1
    except BrokenPipeError:
        output.give_up()
        sys.stderr.close()  # the reader closed the pipe (… | head): not an error
        return 0
    except KeyboardInterrupt:
        output.say("stopped")
        return 1
    except Exception as error:
        if isinstance(error, OSError) and output.is_unwritable():
            output.say(f"standard output: could not be written: {error.strerror}")
            return 1
        # Nobody foresaw it.
        from dpcl_core import unforeseen

        output.say(unforeseen.recorded(error))
        return 1


def _carried_out(arguments: Sequence[str] | None) -> int:
    for argument in sys.argv[1:] if arguments is None else arguments:
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in argument):
            raise BadInput("command line", argument.replace("\0", "\\0"), "must be text in UTF-8, without NUL")
    try:
        options = parser.read(sys.argv[1:] if arguments is None else arguments)
        module, _, name = options.command.partition(".")  # loaded only now: the version and the help need none of it
        with _ended_by_signals():
            return int(getattr(import_module(f"{__name__}.{module}"), name)(options))
    finally:
        print(end="", flush=True)  # here, where it is seen if it fails


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Takes SIGTERM, as of `timeout` or a cancelled job, and SIGHUP, of a closed terminal, for Ctrl-C.

    Only the first one counts, until the process is over: `timeout` sends two, and the second would break off what ends the
    run, or end the process before it has said how. One that is ignored, as under `nohup`, stays so.
    """
    heard: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) == 1:
            raise KeyboardInterrupt

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may ask for signals
    taken = [one for one in known if is_main and signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_IGN if heard else signal.SIG_DFL)
