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
from erasable.estimators import ErasableClassifier, ForgetReport, LearnReport
from erasable.operations import VerifyReport, learn, verify

__version__ = "0.1.0"

__all__ = [
    "ChangedMeanwhileError",
    "ConfigurationError",
    "ErasableClassifier",
    "ErasableError",
    "ExactnessError",
    "ForgetReport",
    "InputError",
    "InputTypeError",
    "LearnReport",
    "NoRowsError",
    "StaleReportError",
    "StateFormatError",
    "VerificationError",
    "VerifyReport",
    "learn",
    "verify",
]
