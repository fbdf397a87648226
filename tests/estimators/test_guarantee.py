"""What models promise, as a record: of the state or of the model alone, bitwise only where it can be checked."""

from __future__ import annotations

import pytest
from sklearn.linear_model import RidgeClassifier

from erasable import ErasableClassifier, ErasableGeneralClassifier, ErasableKernelClassifier, verify
from erasable.classes import LinearBall
from erasable.coresets import RandomSubsample
from erasable.errors import InputTypeError, VerificationError
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.features import RandomFourierFeatures
from erasable.models.reports import Guarantee
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.estimators.cases import make_rows

X, Y = make_rows(120)
SHARE = RandomSubsample(0.7)
BITWISE = {
    "linear": ErasableClassifier(threshold=0.05),
    "mapped": ErasableClassifier(feature_map=RandomFourierFeatures(20), threshold=0.05),
    "kernel": ErasableKernelClassifier(),
    "general": ErasableGeneralClassifier(LinearBall()),
    "retrained": RetrainedRidge(),
    "core set": CoreSetUnlearner(SHARE, RidgeClassifier()),
    "core set of retrained": CoreSetUnlearner(SHARE, RetrainedRidge()),
}
OF_THE_STATE = {
    "staged": ErasableGeneralClassifier(LinearBall(), sampler="staged"),
    "interpolated": InterpolatedClassifier(SHARE, private_share=0.1, epsilon=1.0, alpha=0.1),
    "interpolated, no noise": InterpolatedClassifier(SHARE, private_share=0.0, epsilon=1.0, alpha=0.1),
    "sisa": SISAClassifier(n_shards=2, n_slices=2),
}
OF_THE_MODEL = {
    "newton": NewtonUnlearner(),
    "newton, squared": NewtonUnlearner("squared"),
    "certified": CertifiedRemovalClassifier(),
    "core set of newton": CoreSetUnlearner(SHARE, NewtonUnlearner("squared")),
}


@pytest.mark.parametrize("name", BITWISE)
def test_what_is_bitwise_has_a_digest_and_verifies(name):
    model = BITWISE[name]
    assert (model.guarantee.of, model.guarantee.bitwise) == ("state", True)
    assert "of the whole stored state, bitwise" in str(model.guarantee)
    model.fit(X, Y)
    model.forget(ids=range(30))
    assert verify(model).digest == model.state_digest()


@pytest.mark.parametrize("name", OF_THE_STATE)
def test_what_no_digest_can_show_is_not_called_bitwise(name):
    promise = OF_THE_STATE[name].guarantee
    assert (promise.of, promise.bitwise) == ("state", False)
    assert "of the whole stored state" in str(promise)
    assert "bitwise" not in str(promise)


@pytest.mark.parametrize("name", OF_THE_MODEL)
def test_what_holds_of_the_model_alone_says_so_and_does_not_verify(name):
    model = OF_THE_MODEL[name]
    promise = model.guarantee
    assert (promise.of, promise.bitwise) == ("model", False)
    assert "of the model alone, not of what is stored" in str(promise)
    assert "Definition 2.3" not in str(promise)
    assert any("stays secret" in assumption for assumption in promise.assumptions)
    model.fit(X, Y)
    model.forget(ids=range(30))
    with pytest.raises((InputTypeError, VerificationError)):
        verify(model)


@pytest.mark.parametrize("kind", [NewtonUnlearner, CertifiedRemovalClassifier])
def test_the_budget_asked_for_is_the_one_promised(kind):
    promise = kind(epsilon=0.5, delta=1e-6).guarantee
    assert (promise.epsilon, promise.delta) == (0.5, 1e-6)


def test_the_text_holds_limits_and_assumptions():
    promise = Guarantee("like new", of="model", epsilon=0.5, delta=1e-6, assumptions=("luck", "time"))
    assert str(promise) == (
        "like new; of the model alone, not of what is stored, epsilon = 0.5, delta = 1e-06; assuming luck; time"
    )
    assert str(Guarantee("like new", of="state", bitwise=True)) == "like new; of the whole stored state, bitwise"
