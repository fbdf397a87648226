"""Code of a user with all public names; never called, only read by strict type checkers (test_strict.py)."""

from pathlib import Path
from typing import assert_type

import numpy as np

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    ModelFile,
    Schema,
    TableEncoder,
    evidence,
    learn,
    load,
    model_in,
    plan,
    verify,
)
from erasable.audit.keys import new_key, read_public_key
from erasable.audit.receipts import Receipt, check_receipt
from erasable.classes import LinearBall
from erasable.coresets import RandomSubsample
from erasable.errors import ErasableError, VerificationError
from erasable.features import RandomFourierFeatures
from erasable.models.reports import ForgetReport, LearnReport, VerifyReport


def use() -> None:
    X = np.zeros((10, 2))
    y = np.zeros(10)

    classifier = ErasableClassifier(threshold=0.1, loss="logistic", alpha=0.1, feature_map=RandomFourierFeatures(20))
    assert_type(classifier.fit(X, y, ids=range(10), subjects=["ann"] * 10), ErasableClassifier)
    assert_type(classifier.partial_fit(X, y, ids=range(10, 20)), ErasableClassifier)
    assert_type(classifier.forget(ids=[1, 2]), ForgetReport)
    assert_type(classifier.forget(subjects=["ann"]), ForgetReport)
    assert_type(classifier.state_digest(), str)
    print(classifier.predict(X).shape, classifier.predict_proba(X).shape)
    classifier.save("m.erasable")
    classifier.save(Path("m.erasable"))
    print(classifier.capacity, classifier.core_ids_)
    assert_type(classifier.score(X, y), float)
    assert_type(classifier.set_params(threshold=0.2), ErasableClassifier)
    print(classifier.get_params()["threshold"])

    ErasableRegressor(target_range=(0.0, 1.0), feature_map=None).fit(X, y).predict(X)
    assert_type(ErasableRegressor(target_range=(0.0, 1.0), feature_map=None).fit(X, y).score(X, y), float)
    ErasableKernelClassifier("rbf", gamma=2.0).fit(X, y).predict(X)
    ErasableGeneralClassifier(LinearBall()).fit(X, y).predict(X)
    CoreSetUnlearner(RandomSubsample(0.2), ErasableClassifier(feature_map=None)).fit(X, y).predict(X)

    report = verify(classifier)
    assert_type(report, VerifyReport)
    print(report.core_rows)
    assert_type(learn(classifier, X, y), LearnReport)
    loaded = load("m.erasable")
    print(loaded.predict(X))
    print(model_in(loaded))
    planned = plan(X, y)
    print(planned.parameters)

    file = ModelFile("m.erasable")
    assert_type(file.forget(ids=[1]), ForgetReport)

    schema = Schema.load("schema.toml")
    print(TableEncoder(schema).fit_transform({"a": [1.0]}))
    print(evidence("m.erasable", "receipts", "page.html"))

    try:
        verify(loaded)
    except VerificationError as error:
        print(error)
    except ErasableError as error:
        print(error)

    key = new_key()
    assert_type(check_receipt("{}", key.public), Receipt)
    print(read_public_key("signer.pub.pem").keyid)
