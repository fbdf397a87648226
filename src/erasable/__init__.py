"""Machine learning that can forget, bit for bit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from erasable.errors import (
    BusyError,
    ChangedMeanwhileError,
    ConfigurationError,
    EmptiedClassWarning,
    ErasableError,
    ExactnessError,
    InputError,
    InputTypeError,
    NoRowsError,
    NotErasedError,
    ReceiptError,
    SignatureError,
    StaleReportError,
    StateFormatError,
    StoreError,
    UnknownOutcomeError,
    VerificationError,
)

if TYPE_CHECKING:
    from erasable.estimators import (
        CoreSetUnlearner,
        ErasableClassifier,
        ErasableGeneralClassifier,
        ErasableKernelClassifier,
        ErasableMappedClassifier,
        ForgetReport,
        Guarantee,
        InterpolatedClassifier,
        LearnReport,
        RemovalReport,
        load,
    )
    from erasable.operations import VerifyReport, learn, verify
    from erasable.operations.files import FileReport, ModelFile, Request
    from erasable.operations.plan import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "BusyError",
    "ChangedMeanwhileError",
    "ConfigurationError",
    "CoreSetUnlearner",
    "EmptiedClassWarning",
    "ErasableClassifier",
    "ErasableError",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "ErasableMappedClassifier",
    "ExactnessError",
    "FileReport",
    "ForgetReport",
    "Guarantee",
    "InputError",
    "InputTypeError",
    "InterpolatedClassifier",
    "LearnReport",
    "ModelFile",
    "NoRowsError",
    "NotErasedError",
    "Plan",
    "ReceiptError",
    "RemovalReport",
    "Request",
    "SignatureError",
    "StaleReportError",
    "StateFormatError",
    "StoreError",
    "UnknownOutcomeError",
    "VerificationError",
    "VerifyReport",
    "learn",
    "load",
    "plan",
    "verify",
]

# Where a name is found when it is first asked for: `import erasable` and `erasable --help` load neither NumPy nor
# scikit-learn. What is not listed comes from `erasable.estimators`.
_ELSEWHERE = {
    "FileReport": "erasable.operations.files",
    "ModelFile": "erasable.operations.files",
    "Plan": "erasable.operations.plan",
    "Request": "erasable.operations.files",
    "VerifyReport": "erasable.operations",
    "learn": "erasable.operations",
    "plan": "erasable.operations.plan",
    "verify": "erasable.operations",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_ELSEWHERE.get(name, "erasable.estimators")), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
