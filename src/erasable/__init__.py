"""Machine learning that can forget, bit for bit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from erasable.version import VERSION

if TYPE_CHECKING:
    from erasable.estimators.core_set import CoreSetUnlearner
    from erasable.estimators.files import load
    from erasable.estimators.kernel import ErasableGeneralClassifier, ErasableKernelClassifier
    from erasable.estimators.linear import ErasableClassifier, ErasableRegressor
    from erasable.estimators.table_encoder import TableEncoder
    from erasable.operations.evidence import evidence
    from erasable.operations.learn import learn
    from erasable.operations.model_file import ModelFile
    from erasable.operations.plan import plan
    from erasable.operations.verify import model_in, verify
    from erasable.schemas.schema import Schema

__version__ = VERSION

__all__ = [
    "CoreSetUnlearner",
    "ErasableClassifier",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "ErasableRegressor",
    "ModelFile",
    "Schema",
    "TableEncoder",
    "evidence",
    "learn",
    "load",
    "model_in",
    "plan",
    "verify",
]

# Where a name is found when it is first asked for: `import erasable` and `erasable --help` load neither NumPy nor
# scikit-learn. Errors are in `erasable.errors`, reports in `erasable.models.reports`.
_HOMES = {
    "CoreSetUnlearner": "erasable.estimators.core_set",
    "ErasableClassifier": "erasable.estimators.linear",
    "ErasableGeneralClassifier": "erasable.estimators.kernel",
    "ErasableKernelClassifier": "erasable.estimators.kernel",
    "ErasableRegressor": "erasable.estimators.linear",
    "ModelFile": "erasable.operations.model_file",
    "evidence": "erasable.operations.evidence",
    "Schema": "erasable.schemas.schema",
    "TableEncoder": "erasable.estimators.table_encoder",
    "learn": "erasable.operations.learn",
    "load": "erasable.estimators.files",
    "model_in": "erasable.operations.verify",
    "plan": "erasable.operations.plan",
    "verify": "erasable.operations.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
