"""Bounds for Algorithm 2, held against classes and samplers of the package and against a class done by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from erasable.classes import FiniteClass, LinearBall
from erasable.coresets import SinglePass, Staged
from erasable.errors import ConfigurationError, InputError
from erasable.theory import (
    excess_risk,
    general_capacity,
    general_excess_risk,
    printed_general_excess_risk,
    single_pass_size,
    stage_threshold,
    staged_size,
)
