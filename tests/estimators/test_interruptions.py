"""A model that is changed or interrupted while it learns or forgets never lies about what it holds."""

import numpy as np
import pytest

from erasable import ErasableClassifier, learn, verify
from erasable.errors import ChangedMeanwhileError, ErasableError
from erasable.models.heads import linear as exact_sums
from erasable.models.heads import linear as linear_head
from tests.estimators.cases import classifier, make_rows

N = 240
X, Y = make_rows(N, 3)

MORE = np.random.default_rng(3).standard_normal((3000, X.shape[1]))


def test_an_interrupt_before_the_change_changes_nothing():
    clf = classifier(threshold=0.02).fit(X, Y)
    before = clf.state_digest()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(clf, MORE, np.arange(3000) % 2, ids=np.arange(3000) + 1000, progress=stop)
    assert clf.state_digest() == before
    verify(clf)


@pytest.mark.parametrize(
    ("room", "where"), [(linear_head, "sums_by_class"), (exact_sums, "add_rows")], ids=["learning", "forgetting"]
)
def test_an_interrupt_within_the_change_makes_the_model_refuse(room, where, monkeypatch):
    """Half a change is neither state: nothing is answered from it, and fit starts anew."""
    clf = classifier(threshold=0.001).fit(X, Y)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(room, where, stop)
        learning = {"X": MORE[:50], "y": np.zeros(50, int), "ids": np.arange(50) + 1000}
        change, asked = (clf.forget, {"ids": clf.core_ids_}) if where == "add_rows" else (clf.partial_fit, learning)
        with pytest.raises(KeyboardInterrupt):
            change(**asked)
    for ask in (
        lambda: clf.predict(X),
        lambda: clf.state_digest(),
        lambda: clf.forget(ids=[1]),
        lambda: clf.partial_fit(X, Y, ids=np.arange(N) + 5000),
        lambda: verify(clf),
        lambda: clf.coef_,
        lambda: clf.__getstate__(),
    ):
        with pytest.raises(ChangedMeanwhileError, match="interrupted"):
            ask()
    clf.fit(X, Y)
    assert clf.state_digest() == classifier(threshold=0.001).fit(X, Y).state_digest()


def test_more_features_than_the_machine_can_hold_are_refused():
    from scipy.sparse import csr_array

    rows = csr_array((np.ones(2), ([0, 1], [5, 6])), shape=(2, 10**7))
    with pytest.raises(ErasableError, match="GiB"):
        ErasableClassifier(threshold=0.1).fit(rows, [0, 1])
