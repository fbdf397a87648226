"""The one place where parameters are checked: what passes comes out plain, what does not is one kind of error."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import erasable
from erasable import ErasableClassifier, ErasableGeneralClassifier, ErasableKernelClassifier
from erasable.classes import FiniteClass, KernelBall, LinearBall, NumericClass
from erasable.coresets import IndependentSample, LeverageThreshold, RandomSubsample, SinglePass, Staged
from erasable.errors import ConfigurationError
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.features import FrozenMap, HashedText, NystroemFeatures, RandomFourierFeatures
from erasable.validation import (
    choice,
    finite_number,
    function,
    number_between,
    number_not_negative,
    positive_number,
    seed,
    switch,
    text,
    whole_number,
)

NO_NUMBERS = (None, "1", b"1", True, np.True_, 1j, [1.0], np.array([1.0]), {}, object, math.nan, float("inf"), 10**400)
NO_INTEGERS = (None, "1", True, np.True_, 1.0, np.float64(1.0), Fraction(1), [1], math.nan)


@pytest.mark.parametrize("given", [0.5, np.float32(0.5), Fraction(1, 2), np.longdouble(0.5)], ids=repr)
@pytest.mark.parametrize("check", [finite_number, positive_number, number_not_negative])
def test_numbers_come_out_as_plain_floats(check, given):
    found = check(given, "capacity")
    assert type(found) is float
    assert found == 0.5
    assert number_between(given, "capacity", 0.5, 1.0, closed="low") == 0.5


@pytest.mark.parametrize("given", [3, np.int8(3), np.uint64(3)], ids=repr)
def test_integers_come_out_as_plain_ones(given):
    for found in (whole_number(given, "degree"), whole_number(given, "degree", 3, 3), seed(given)):
        assert type(found) is int
        assert found == 3
    assert type(finite_number(given, "capacity")) is float


@pytest.mark.parametrize("given", NO_NUMBERS, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("check", [finite_number, positive_number, number_not_negative])
def test_what_is_no_finite_number_is_refused(check, given):
    with pytest.raises(ConfigurationError, match=r"^capacity must be .*finite number.*; got .{1,60}\.$"):
        check(given, "capacity")
    with pytest.raises(ConfigurationError, match=r"^capacity must be a number above 0; got "):
        number_between(given, "capacity", 0.0, math.inf)


@pytest.mark.parametrize("given", NO_INTEGERS, ids=lambda v: str(v)[:20])
def test_what_is_no_integer_is_refused(given):
    with pytest.raises(ConfigurationError, match=r"^horizon must be a positive integer; got "):
        whole_number(given, "horizon")
    with pytest.raises(ConfigurationError, match=r"^random_state must be a non-negative integer, for a refit"):
        seed(given)


def test_limits_are_said_and_kept():
    assert whole_number(4, "bits", 4, 20) == 4
    assert whole_number(20, "bits", 4, 20) == 20
    for given in (3, 21):
        with pytest.raises(ConfigurationError, match=f"bits must be an integer between 4 and 20; got {given}"):
            whole_number(given, "bits", 4, 20)
    with pytest.raises(ConfigurationError, match="rows must be an integer, at least 2; got 1"):
        whole_number(1, "rows", 2)
    with pytest.raises(ConfigurationError, match="positive finite number; got 0"):
        positive_number(0, "capacity")
    with pytest.raises(ConfigurationError, match="not negative; got -1e-300"):
        number_not_negative(-1e-300, "threshold")
    assert math.copysign(1.0, number_not_negative(-0.0, "threshold")) == 1.0


@pytest.mark.parametrize(
    ("closed", "inside", "says"),
    [
        ("", (0.5,), "above 0 and below 1"),
        ("low", (0.0, 0.5), "at least 0 and below 1"),
        ("high", (0.5, 1.0), "above 0 and at most 1"),
        ("both", (0.0, 0.5, 1.0), "between 0 and 1"),
    ],
)
def test_an_interval_has_its_ends_or_not(closed, inside, says):
    for value in (-0.1, 0.0, 0.5, 1.0, 1.1):
        if value in inside:
            assert number_between(value, "kappa", 0.0, 1.0, closed=closed) == value
        else:
            with pytest.raises(ConfigurationError, match=f"kappa must be a number {says}; got {value}"):
                number_between(value, "kappa", 0.0, 1.0, closed=closed)


def test_a_seed_may_have_a_limit():
    assert seed(2**64 - 1, most=2**64 - 1) == 2**64 - 1
    assert seed(2**80) == 2**80
    for given in (-1, 2**64, np.random.default_rng(0), np.random.RandomState(0)):
        with pytest.raises(ConfigurationError, match=r"random_state must be a non-negative integer up to 1844674407"):
            seed(given, most=2**64 - 1)


def test_switches_choices_texts_and_functions():
    assert switch(np.True_, "one_shot") is True
    assert choice(np.str_("rbf"), "kernel", ("rbf", "poly")) == "rbf"
    assert text(np.str_("a"), "name") == "a"
    assert function(len, "function") is len
    for given in (0, 1, "yes", None, np.array([True])):
        with pytest.raises(ConfigurationError, match="one_shot must be True or False; got "):
            switch(given, "one_shot")
    for given in ("RBF", None, 3, ["rbf"], np.array(["rbf", "poly"])):
        with pytest.raises(ConfigurationError, match="kernel must be one of 'rbf', 'poly'; got "):
            choice(given, "kernel", ("rbf", "poly"))
    for given in (True, 1):
        with pytest.raises(ConfigurationError, match=r"nu must be one of 0.5, 1.5; got "):
            choice(given, "nu", (0.5, 1.5))
    with pytest.raises(ConfigurationError, match="name must be text; got bytes"):
        text(b"a", "name")
    with pytest.raises(ConfigurationError, match="sup must be callable; got int"):
        function(3, "sup")


@pytest.mark.parametrize("given", [np.full((3, 3), 12345.678), [12345.678] * 3, "12345.678" * 30, 10**5000], ids=type)
def test_rows_given_in_the_place_of_a_parameter_are_not_quoted(given):
    for check in (finite_number, positive_number, number_not_negative, whole_number, seed, switch, text):
        if check is whole_number and isinstance(given, int):
            continue
        if (check is text and isinstance(given, str)) or (check is seed and isinstance(given, int)):
            continue
        with pytest.raises(ConfigurationError) as caught:
            check(given, "capacity")
        assert "1234" not in str(caught.value)
        assert len(str(caught.value)) < 120
    with pytest.raises(ConfigurationError, match="; got int"):
        whole_number(10**5000, "horizon", 1, 10)


SUP, ERM = (lambda X, Q: np.ones(len(X))), (lambda X, y: len)
PARAMETERS = {
    LeverageThreshold: {
        "numbers": ["threshold", "capacity"],
        "integers": ["grid_bits"],
        "switches": ["fit_intercept"],
        "given": {"threshold": 0.1},
    },
    RandomSubsample: {"numbers": ["fraction"], "integers": ["random_state"], "given": {"fraction": 0.5}},
    IndependentSample: {"numbers": ["rate", "balance"], "integers": ["random_state"], "given": {"rate": 0.5}},
    SinglePass: {"numbers": ["threshold"], "given": {"function_class": LinearBall(), "threshold": 0.1}},
    Staged: {"numbers": ["delta"], "integers": ["max_stages"], "given": {"function_class": LinearBall()}},
    LinearBall: {"numbers": ["radius"], "integers": ["grid_bits"], "switches": ["fit_intercept"]},
    KernelBall: {
        "numbers": ["radius", "gamma", "nu", "coef0"],
        "integers": ["degree", "grid_bits"],
        "choices": ["kernel"],
    },
    FiniteClass: {"texts": ["name"], "given": {"functions": [len, len]}},
    NumericClass: {
        "texts": ["name"],
        "optional numbers": ["rate"],
        "functions": ["sup", "erm"],
        "given": {"sup": SUP, "erm": ERM},
    },
    RandomFourierFeatures: {"numbers": ["gamma"], "integers": ["n_features_out", "random_state"]},
    NystroemFeatures: {"numbers": ["gamma"], "choices": ["kernel"], "given": {"landmarks": [[1.0]]}},
    HashedText: {"integers": ["n_features_out"], "choices": ["analyzer"], "switches": ["lowercase"]},
    FrozenMap: {
        "integers": ["n_features_out"],
        "choices": ["takes"],
        "switches": ["one_at_a_time"],
        "functions": ["function"],
        "given": {"function": np.sin, "name": "sine", "n_features_out": 2},
    },
    ErasableClassifier: {
        "optional numbers": ["capacity", "threshold", "kappa"],
        "integers": ["grid_bits"],
        "switches": ["fit_intercept"],
        "choices": ["selection"],
    },
    ErasableKernelClassifier: {
        "numbers": ["capacity", "gamma", "nu", "coef0"],
        "optional numbers": ["threshold"],
        "integers": ["degree", "grid_bits"],
        "choices": ["kernel", "selection"],
    },
    ErasableGeneralClassifier: {"numbers": ["threshold"], "choices": ["sampler"]},
    CoreSetUnlearner: {
        "switches": ["one_shot", "reproducible"],
        "choices": ["core_set", "learner"],
        "given": {"core_set": RandomSubsample(0.5), "learner": ErasableClassifier(threshold=0.1, feature_map=None)},
    },
}
WRONG = {
    "numbers": NO_NUMBERS,
    "optional numbers": [wrong for wrong in NO_NUMBERS if wrong is not None],
    "integers": (*NO_INTEGERS, -(10**30)),
    "switches": (0, 1, "yes", None, [True]),
    "choices": ("sigmoid", 3, ["rbf"], object()),
    "texts": (b"a", 3, ["a"]),
    "functions": (3, "f", [len]),
}


@pytest.mark.parametrize("made", PARAMETERS, ids=lambda made: made.__name__)
def test_a_parameter_that_cannot_work_is_one_kind_of_error_everywhere(made):
    """An estimator keeps its parameters as they are until it is fitted."""
    described = PARAMETERS[made]
    cases = [(name, wrong) for kind, values in WRONG.items() for name in described.get(kind, ()) for wrong in values]
    for name, wrong in cases:
        with pytest.raises(ConfigurationError, match=name):
            made(**{**described.get("given", {}), name: wrong}).fit(np.eye(4), [0, 1, 0, 1])


def test_no_room_below_the_operations_checks_numbers_by_itself():
    """``numbers`` tells integers and real numbers from others; ``core.grid`` asks whether it got one or several."""
    source = Path(erasable.__file__).parent
    rooms = ("core", "classes", "coresets", "features", "models", "store", "estimators", "audit")
    importing = [
        str(path.relative_to(source))
        for room in rooms
        for path in sorted((source / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import) and any(alias.name == "numbers" for alias in node.names)
    ]
    assert importing == ["core/grid.py"]
