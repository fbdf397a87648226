"""Names in files: lower case, words joined by hyphens, and the same words as in Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

from erasable.classes import FiniteClass, KernelBall, LinearBall, NumericClass
from erasable.coresets import LeverageThreshold, RandomSubsample, SinglePass, Staged, SupportVectors
from erasable.features import FrozenMap, HashedText, NystroemFeatures, RandomFourierFeatures
from erasable.models.files import SHARD
from erasable.models.state import KINDS
from erasable.schemas import Schema, YesNo

TAG = re.compile(r"[a-z]+(-[a-z]+)*")
DESCRIBED = {
    "linear-ball": LinearBall(),
    "kernel-ball": KernelBall(),
    "finite": FiniteClass([len, len]),
    "numeric": NumericClass(len, len),
    "leverage-threshold": LeverageThreshold(0.1),
    "random-subsample": RandomSubsample(0.5, random_state=2**80),
    "single-pass": SinglePass(KernelBall(), 0.1),
    "staged": Staged(LinearBall()),
    "support-vectors": SupportVectors(),
    "random-fourier-features": RandomFourierFeatures(4, random_state=3),
    "nystroem-features": NystroemFeatures([[1.0]]),
    "hashed-text": HashedText(4),
    "frozen": FrozenMap(np.sin, "sine", 2),
    "schema": Schema([YesNo(name="member")]),
}


@pytest.mark.parametrize("tag", DESCRIBED)
def test_a_description_begins_with_its_tag(tag):
    described = DESCRIBED[tag].describe()
    assert TAG.fullmatch(tag)
    assert next(iter(described.items())) in (("class", tag), ("map", tag))


@pytest.mark.parametrize("tag", DESCRIBED)
def test_the_other_members_are_parameters_by_their_names_in_python(tag):
    made = DESCRIBED[tag]
    members = set(made.describe()) - {"class", "map", "bits", "tolerance"}  # these are constants of the program
    assert all(hasattr(made, name) for name in members)
    assert "seed" not in members


def test_formats_are_named_alike():
    assert {*KINDS, SHARD} == {
        "erasable-linear",
        "erasable-linear-sharded",
        "erasable-regression",
        "erasable-regression-sharded",
        "erasable-shard",
        "erasable-kernel",
        "erasable-general",
        "erasable-core-set",
        "erasable-model",
    }
