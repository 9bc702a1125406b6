"""The command line: python -m dpcl_core …

Exit status: 0 success, 1 the run, the store or the program itself failed, 2 the input was wrong (one line on standard
error, no traceback: that of an error that nobody foresaw is in the log of errors).
`verify`: 0 all numbers match, 1 one differs, 2 one cannot be checked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcl_core.errors import INPUT, BadInput, StoreTrouble

if TYPE_CHECKING:
    from dpcl_core.cli.parser import Command


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    from dpcl_core.cli import output

    output.printable_anywhere()
    try:
        return _carried_out(arguments)
    except (BadInput, StoreTrouble) as error:
        output.say(output.one_line(error) + _fix(error))
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
        from dpcl_core.cli import parser, stopping  # loads the catalogs, which refuse a wrong DPCL_METHODS

        options = parser.build().parse_args(arguments)
        command: Command = options.command
        with stopping.ended_by_signals():
            return command(options)
    finally:
        print(end="", flush=True)  # here, where it is seen if it fails


def _fix(error: BadInput | StoreTrouble) -> str:
    """What to add to the command where new values mend it; else nothing."""
    if not isinstance(error, BadInput) or not error.fix:
        return ""
    from dpcl_core.checks import as_sets

    return f"; add {as_sets(error.fix)}"
