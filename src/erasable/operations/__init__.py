"""Use cases: one function each."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from erasable.operations.learn import learn
    from erasable.operations.verify import VerifyReport, verify, verify_state

__all__ = ["VerifyReport", "learn", "verify", "verify_state"]

# Found when first asked for: operations on files and folders need no scikit-learn, which takes a second to load.
_HOME = {"VerifyReport": "verify", "learn": "learn", "verify": "verify", "verify_state": "verify"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Operations(ModuleType):
    """Keeps ``learn`` and ``verify`` the functions: importing their modules would put those in their place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Operations
