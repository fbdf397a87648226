"""Independent selection through the estimators: equal to learning all surviving rows, with public constants."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import log_loss

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor, load
from erasable.core.names import keyed_hash
from erasable.engines import Local
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.models.strategies import Head
from erasable.operations.export import export

RNG = np.random.default_rng(5)
N, D = 400, 4
X = RNG.normal(size=(N, D))
Y = np.where(X[:, 0] + RNG.logistic(size=N) > 2.0, "rare", "usual")
IDS = np.arange(N) * 7
SHARES = {"rare": 0.125, "usual": 0.875}
MOMENTS = {"uniform": None, "columns": np.full(D, 1 / D), "matrix": np.eye(D) / D}


def classifier(**options):
    return ErasableClassifier(selection="independent", **{"rate": 0.3, **options})


def kernel(**options):
    return ErasableKernelClassifier(selection="independent", **{"rate": 0.3, **options})


def product(A, B):
    """A kernel of the caller's: sums in one order, whatever else is in the call."""
    return sum(np.multiply.outer(A[:, j], B[:, j]) for j in range(A.shape[1]))


KINDS = {
    "squared": classifier(loss="squared"),
    "logistic": classifier(loss="logistic", alpha=0.1, moments=MOMENTS["columns"]),
    "balanced": classifier(loss="logistic", balance=1.0, class_shares=SHARES, moments=MOMENTS["matrix"]),
    "half balanced": classifier(loss="squared", balance=0.5, class_shares=SHARES),
    "every row": classifier(loss="squared", rate=1.0),
    "kernel": kernel(gamma=0.5),
    "balanced kernel": kernel(balance=1.0, class_shares=SHARES, moments=np.ones(D)),
    "kernel function": kernel(kernel=product, balance=0.5, class_shares=SHARES),
    "regression": ErasableRegressor((-9.0, 9.0), selection="independent", rate=0.3, moments=MOMENTS["columns"]),
}


def labels(model):
    return X[:, 0] if isinstance(model, ErasableRegressor) else Y


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_engines_and_batches_give_the_state_of_one_fit(kind):
    model, y = clone(KINDS[kind]), labels(KINDS[kind])
    expected = clone(model).fit(X, y, ids=IDS).state_digest()
    turned = RNG.permutation(N)
    for part in np.array_split(turned, 4):
        model.partial_fit(X[part], y[part], ids=IDS[part])
    assert model.state_digest() == expected
    assert clone(model).set_params(engine=Local(threads=1)).fit(X, y, ids=IDS).state_digest() == expected
    assert clone(model).fit(sp.csr_array(X), y, ids=IDS).state_digest() == expected
    assert clone(model).fit(X, y, ids=IDS, subjects=[f"p{i % 9}" for i in IDS]).state_digest() != expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_goes_on_where_the_model_stopped(kind, tmp_path):
    model, y = clone(KINDS[kind]), labels(KINDS[kind])
    model.fit(X[:300], y[:300], ids=IDS[:300])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", like=clone(model) if kind == "kernel function" else None)
    assert again.state_digest() == model.state_digest()
    again.partial_fit(X[300:], y[300:], ids=IDS[300:])
    assert again.state_digest() == clone(model).fit(X, y, ids=IDS).state_digest()
    assert load(tmp_path / "m", like=clone(model)).state_digest() == model.state_digest()
    with pytest.raises(ConfigurationError, match="other parameters"):
        load(tmp_path / "m", like=clone(model).set_params(rate=0.5))
    assert again.model_.format_version == 2


def test_without_ids_rows_are_numbered_by_fit_alone():
    by_position = classifier().fit(X, Y)
    assert by_position.state_digest() == classifier().fit(X, Y, ids=np.arange(N)).state_digest()
    with pytest.raises(InputError, match="needs ids"):
        classifier().partial_fit(X, Y)
    with pytest.raises(InputError, match="needs ids"):
        by_position.partial_fit(X, Y)


@pytest.mark.parametrize("loss", ["squared", "logistic", "kernel"])
@pytest.mark.parametrize("classes", [2, 4])
def test_predictions_take_the_balance_back(loss, classes):
    rng = np.random.default_rng(1)
    y = rng.choice(classes, size=3000, p=[0.7, *np.full(classes - 1, 0.3 / (classes - 1))])
    rows = rng.normal(size=(3000, 3)) + np.eye(4)[y][:, :3]
    shares = {0: 0.75, **dict.fromkeys(range(1, classes), 0.25 / (classes - 1))}
    options = {"balance": 1.0, "class_shares": shares}
    model = kernel(gamma=0.1, **options) if loss == "kernel" else classifier(loss=loss, **options)
    model.fit(rows, y)
    tilts = model.model_.selection.tilts_of(model.classes_)
    raw = model.model_.head.scores(model.model_, rows)
    raw = raw if classes > 2 else raw[:, 0]
    if (loss, classes) == ("logistic", 2):  # the constant is part of the intercept
        raw = raw + np.log(tilts[1] / tilts[0])
    learnt = model.model_.probabilities_for_scores(raw)
    assert (learnt.argmax(axis=1) > 0).mean() > 0.4  # as many of each class were stored
    expected = learnt / tilts / (learnt / tilts).sum(axis=1, keepdims=True)
    found = model.predict_proba(rows)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (model.predict(rows) == model.classes_[found.argmax(axis=1)]).all()
    assert found[:, 0].mean() == pytest.approx((y == 0).mean(), abs=0.05)
    if loss == "logistic":
        assert log_loss(y, found) < log_loss(y, learnt)


def test_scores_beyond_one_keep_their_order():
    scores = np.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    found = Head.untilted(None, scores, np.array([0.2, 1.0]))
    assert (np.diff(found) > 0).all()
    assert found[[0, 1, 5, 6]].tolist() == [-3.0, -1.0, 1.0, 2.0]


REFUSED = [
    ({"threshold": 0.1}, "threshold cannot be set"),
    ({"kappa": 0.5}, "kappa cannot be set"),
    ({"sample_rate": 0.5}, "sample_rate cannot be set"),
    ({"order": "given"}, "order"),
    ({"rate": 0.0}, "rate must be"),
    ({"rate": "a"}, "rate must be"),
    ({"moments": [1.0]}, "moments must be"),
    ({"moments": "x"}, "moments must be"),
    ({"moments": -np.ones(D)}, "moments must be"),
    ({"moments": np.eye(D) * 3}, "positive semidefinite|no matrix"),
    ({"balance": 1.0}, "needs class_shares"),
    ({"balance": 2.0, "class_shares": SHARES}, "balance must be"),
    ({"balance": "much", "class_shares": SHARES}, "balance must be"),
    ({"balance": 1.0, "class_shares": SHARES, "class_weight": "balanced"}, "leave one of them out"),
    ({"class_shares": ["rare"]}, "must be a dictionary"),
    ({"class_shares": {"rare": 0.0, "usual": 1.0}}, "every share"),
    ({"class_shares": SHARES, "classes": ["a", "b"]}, "class_shares must name"),
    ({"selection": "other"}, "selection must be"),
    ({"selection": "leverage"}, "rate are for independent selection"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda v: str(v)[:40])
@pytest.mark.parametrize("make", [classifier, kernel])
def test_what_cannot_be_is_refused_and_changes_nothing(make, options, message):
    if not options.keys() <= make().get_params().keys():
        pytest.skip("a kernel model has no such parameter")
    model = make().fit(X, Y)
    before = model.state_digest()
    model.set_params(**options)
    with pytest.raises(ConfigurationError, match=message):
        model.fit(X, Y)
    with pytest.raises(ConfigurationError):
        model.partial_fit(X, Y, ids=IDS + N * 7)
    assert model.state_digest() == before


@pytest.mark.parametrize("make", [classifier, kernel])
def test_a_file_of_the_other_kind_is_refused(make, tmp_path):
    make().fit(X, Y).save(tmp_path / "m")
    other = kernel if make is classifier else classifier
    with pytest.raises(ConfigurationError, match="another kind"):
        load(tmp_path / "m", like=other())


@pytest.mark.parametrize("make", [classifier, kernel])
def test_a_label_without_a_share_is_refused(make):
    with pytest.raises(InputError):
        make(balance=1.0, class_shares={"rare": 0.25, "other": 0.75}).fit(X, Y)


@pytest.mark.parametrize("make", [classifier, kernel])
def test_the_guarantee_names_all_surviving_rows(make):
    model = make()
    assert "all surviving rows" in str(model.guarantee)
    assert model.fit(X, Y).guarantee == model.guarantee != type(model)().guarantee


def test_an_export_takes_the_balance_back_or_is_refused(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    model = classifier(loss="logistic", balance=1.0, class_shares=SHARES).fit(X, Y)
    export(model, tmp_path / "m.onnx", input_type="float64")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    found = session.run(None, {session.get_inputs()[0].name: X})
    assert (np.asarray(found[0]) == model.predict(X)).all()
    np.testing.assert_allclose(found[1], model.predict_proba(X), atol=1e-9)
    with pytest.raises(InputTypeError, match="with balance can be exported if"):
        export(clone(KINDS["half balanced"]).fit(X, Y), tmp_path / "n.onnx")


def test_a_report_says_the_share_next_to_the_rate():
    report = classifier().learn(X, Y, ids=IDS)
    assert (report.rate, report.share) == (0.3, report.core_rows_added / N)
    assert report.share_text == f"{100 * report.share:.3g}% of these rows are stored, for a rate of 0.3. " + (
        "Chance explains the difference."
    )
    assert classifier(rate=1.0).learn(X, Y).share_text == "100% of these rows are stored, for a rate of 1."
    other = ErasableClassifier().learn(X, Y)
    assert (other.rate, other.share_text) == (None, None)
    assert other.share == other.core_rows_added / N


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"moments": np.full(D, 2.0)}, "because moments are rounded or not those of these rows, and no row's chance"),
        ({"balance": 1.0, "class_shares": {"rare": 0.875, "usual": 0.125}}, "because the class shares are not those"),
        ({}, "because of these ids: a sender who knows the key can choose"),
    ],
)
def test_a_report_says_why_the_share_is_not_the_rate(options, reason):
    kept = classifier().fit(X, Y, ids=IDS).core_ids_
    chosen = np.isin(IDS, kept) if not options else np.ones(N, dtype=bool)
    for model in (classifier(**options), classifier(engine=Local(threads=1), **options)):
        text = model.learn(X[chosen], Y[chosen], ids=IDS[chosen]).share_text
        assert f" They differ {reason}" in text


def test_rows_without_weight_do_not_count_towards_the_share():
    weights = np.where(np.arange(N) < 100, 1.0, 0.0)
    report = classifier().learn(X, Y, ids=IDS, sample_weight=weights)
    assert report.share == report.core_rows_added / 100


def test_ids_chosen_for_one_key_are_drawn_like_any_others_under_another():
    """Who knows the key can have every row kept; who does not, cannot."""
    ids = np.arange(40_000)
    chosen = ids[keyed_hash(ids, 0).astype(float) < 0.1 * 2**64][:2_000]
    rows, labels = np.ones((2_000, 2)), np.arange(2_000) % 2
    known = ErasableClassifier(selection="independent", rate=0.1).fit(rows, labels, ids=chosen)
    secret = ErasableClassifier(selection="independent", rate=0.1, random_state=2**100 + 1).fit(
        rows, labels, ids=chosen
    )
    assert known.n_core_ == 2_000
    assert 150 < secret.n_core_ < 250
