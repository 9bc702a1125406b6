"""The events of Google's dp_accounting, without the package around them: with its accountants it takes a second to load."""

import sys
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["dp"]
_NAME = "dp_accounting.dp_event"


def _alone() -> ModuleType:
    """The library's module of events. Whoever imports the library later gets the same classes."""
    package = None if "dp_accounting" in sys.modules or _NAME in sys.modules else util.find_spec("dp_accounting")
    if package is None or package.origin is None:
        return import_module(_NAME)
    spec = util.spec_from_file_location(_NAME, Path(package.origin).parent / "dp_event.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[_NAME] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    import dp_accounting as dp
else:
    dp = _alone()
