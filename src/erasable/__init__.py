"""Machine learning that can forget, bit for bit."""

from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    ExactnessError,
    InputError,
    InputTypeError,
    NoRowsError,
    StaleReportError,
    StateFormatError,
    VerificationError,
)
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
)
from erasable.operations import VerifyReport, learn, verify
from erasable.operations.plan import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "ChangedMeanwhileError",
    "ConfigurationError",
    "CoreSetUnlearner",
    "ErasableClassifier",
    "ErasableError",
    "ErasableGeneralClassifier",
    "ErasableKernelClassifier",
    "ErasableMappedClassifier",
    "ExactnessError",
    "ForgetReport",
    "Guarantee",
    "InputError",
    "InputTypeError",
    "InterpolatedClassifier",
    "LearnReport",
    "NoRowsError",
    "Plan",
    "RemovalReport",
    "StaleReportError",
    "StateFormatError",
    "VerificationError",
    "VerifyReport",
    "learn",
    "plan",
    "verify",
]
