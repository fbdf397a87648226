"""Learners of the allow-list: the state is that of learning the rows left, and the learner that of training on them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from erasable import ErasableClassifier, ErasableRegressor, ModelFile, load, verify
from erasable.core.layout import parse, parts
from erasable.engines import Local
from erasable.errors import ConfigurationError, EmptiedClassWarning, InputError, StateFormatError, VerificationError
from erasable.estimators.trained import train
from erasable.models.heads import Learner
from erasable.models.heads.allowed import LEARNERS
from erasable.models.state import State
from erasable.operations.learn import Columns, LearnOptions, learn_table
from erasable.tables import stream_table
from tests.schemas.raw import columns, draft, frames, table, write

D, N = 3, 60
RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(N, D)), 2)
Y = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=N) > 0.2, "rare", "usual")
TARGETS = np.clip(np.round(X[:, 0] * 3 + X[:, 1], 2), -5, 5)
IDS = np.array([f"row {i}" for i in range(N)])
SUBJECTS = [f"person {i % 9}" for i in range(N)]
SMALL = {"lightgbm": LGBMClassifier(n_estimators=5, min_child_samples=2), "random_forest": RandomForestClassifier(5)}
SMALL |= {
    "hist_gradient_boosting": HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
    "sklearn_logistic": LogisticRegression(),
}
INDEPENDENT = {"selection": "independent", "rate": 0.5, "random_state": 3}
SHARES = {"usual": 0.75, "rare": 0.25}
SELECTIONS = {
    "leverage": {"threshold": 0.1},
    "sampled": {"threshold": 0.3, "sample_rate": 0.3},
    "independent": INDEPENDENT,
    "every row": INDEPENDENT | {"rate": 1.0},
    "balanced": INDEPENDENT | {"balance": 1.0, "class_shares": SHARES},
    "moments": INDEPENDENT | {"moments": [0.25, 0.5, 0.25]},
}
MODELS = {(s, name): ErasableClassifier(learner=SMALL[name], **SELECTIONS[s]) for s in SELECTIONS for name in SMALL}
subsets = st.sets(st.integers(0, N - 1))
few = settings(max_examples=25)


def learnt(model, rows):
    rows = sorted(rows)
    return clone(model).fit(X[rows], Y[rows], ids=IDS[rows], subjects=[SUBJECTS[i] for i in rows])


def forgotten(model, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptiedClassWarning)
        model.forget(ids=ids)
    return model


def bits(model):
    return model.model_.snapshot().to_bytes()


@few
@given(subsets, st.sampled_from([m for (s, _), m in MODELS.items() if s in ("independent", "every row", "balanced")]))
def test_independent_selection_forgets_as_if_the_rows_had_never_come(gone, model):
    left = set(range(N)) - gone
    if left:
        assert bits(forgotten(learnt(model, range(N)), IDS[sorted(gone)])) == bits(learnt(model, left))


@few
@given(st.data(), st.sampled_from([m for (s, _), m in MODELS.items() if s in ("leverage", "sampled")]))
def test_leverage_forgets_as_if_the_other_core_rows_had_come_alone(data, model):
    clf = learnt(model, range(N))
    core = clf.core_ids_.tolist()
    gone = data.draw(st.lists(st.sampled_from(core), unique=True, max_size=len(core) - 1))
    forgotten(clf, gone)
    kept = [int(key.split()[1]) for key in clf.core_ids_]
    assert bits(clf) == bits(learnt(model, kept))


@few
@given(st.permutations(range(N)), st.integers(1, N - 1), st.sampled_from(list(SMALL)))
def test_batches_in_any_order_give_the_same_state(order, cut, name):
    model = clone(MODELS["independent", name])
    for part in (list(order[:cut]), list(order[cut:])):
        model.partial_fit(X[part], Y[part], ids=IDS[part], subjects=[SUBJECTS[i] for i in part])
    assert bits(model) == bits(learnt(MODELS["independent", name], range(N)))


@pytest.mark.parametrize("case", list(MODELS), ids=" ".join)
def test_forgetting_trains_again_and_a_file_brings_the_same_learner_back(case, tmp_path):
    clf = learnt(MODELS[case], range(N))
    before = clf.predict_proba(X)
    forgotten(clf, clf.core_ids_[:3])
    again = clone(MODELS[case]).fit(*_rows_of(clf))
    assert (clf.predict_proba(X) == again.predict_proba(X)).all()
    assert not (clf.predict_proba(X) == before).all()
    clf.save(tmp_path / "m.erasable")
    back = load(tmp_path / "m.erasable")
    assert bits(back) == bits(clf) == (tmp_path / "m.erasable").read_bytes()
    assert (back.predict_proba(X) == clf.predict_proba(X)).all()
    assert (back.predict(X) == clf.predict(X)).all()
    assert back.model_.head == clf.model_.head
    found = verify(clf)
    assert found.learner.compared
    assert found.digest == verify(back).digest
    assert found.learner == verify(back).learner  # trained for the predictions above
    assert "the same bits for the same library version and platform" in str(clf.guarantee)


def _rows_of(clf):
    kept = [int(key.split()[1]) for key in clf.core_ids_]
    return X[kept], Y[kept], IDS[kept], [SUBJECTS[i] for i in kept]


def test_the_learner_is_trained_on_the_rows_that_were_kept():
    """The oracle: LightGBM itself, on the stored rows in their order."""
    clf = learnt(MODELS["independent", "lightgbm"], range(N))
    rows, labels, *_ = _rows_of(clf)
    own = LGBMClassifier(n_estimators=5, min_child_samples=2, deterministic=True, force_row_wise=True, random_state=0)
    own.set_params(verbose=-1, n_jobs=1).fit(rows, labels)
    assert (own.predict_proba(X) == clf.predict_proba(X)).all()
    assert (own.predict(X) == clf.predict(X)).all()


@pytest.mark.parametrize("name", ["lightgbm", "sklearn_logistic"])
def test_balance_is_taken_back(name):
    clf = learnt(MODELS["balanced", name], range(N))
    tilts = clf.model_.selection.tilts_of(("rare", "usual"))
    fitted = clf.model_.head.fitted(clf.model_)
    own = fitted.probabilities(clf.model_.head.seen(clf.model_, X)) / tilts
    assert np.allclose(clf.predict_proba(X), own / own.sum(axis=1, keepdims=True), rtol=1e-12)
    log_odds = np.log(clf.predict_proba(X)[:, 1] / clf.predict_proba(X)[:, 0])
    assert np.allclose(clf.decision_function(X), log_odds, rtol=1e-9)
    assert (clf.predict(X) == np.where(clf.decision_function(X) > 0, "usual", "rare")).all()


def test_a_refused_call_changes_nothing():
    clf = learnt(MODELS["independent", "lightgbm"], range(N))
    before, learner = bits(clf), clf.predict_proba(X)
    for X_bad, y_bad, ids in (([[np.inf] * D], ["rare"], ["new"]), (X[:1], ["rare"], IDS[:1]), (X[:1], [3], ["new"])):
        with pytest.raises(InputError):
            clf.partial_fit(X_bad, y_bad, ids=np.repeat(ids, 1) if ids[0] == "new" else clf.core_ids_[:1])
    with pytest.raises(ConfigurationError):
        clf.set_params(learner="random_forest").partial_fit(X[:1], Y[:1], ids=["new"])
    assert bits(clf) == before
    assert (clf.predict_proba(X) == learner).all()


def test_weights_reach_the_learner():
    weights = np.where(Y == "rare", 4.0, 1.0)
    clf = clone(MODELS["every row", "lightgbm"]).fit(X, Y, ids=IDS, sample_weight=weights)
    plain = clone(MODELS["every row", "lightgbm"]).fit(X, Y, ids=IDS)
    assert clf.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean()
    assert verify(clf).digest != verify(plain).digest


def test_one_class_and_fixed_classes():
    rows = np.flatnonzero(Y == "rare")
    one = clone(MODELS["every row", "lightgbm"]).fit(X[rows], Y[rows], ids=IDS[rows])
    assert (one.predict(X) == "rare").all()
    assert (one.predict_proba(X) == 1.0).all()
    assert verify(one).core_rows
    fixed = clone(MODELS["every row", "lightgbm"]).set_params(classes=["other", "rare", "usual"]).fit(X, Y, ids=IDS)
    assert fixed.predict_proba(X).shape == (N, 3)
    assert (fixed.predict_proba(X)[:, 0] == 0.0).all()
    assert np.allclose(fixed.predict_proba(X).sum(axis=1), 1.0)
    three = np.array(["a", "b", "c"])[np.arange(N) % 3]
    several = clone(MODELS["every row", "lightgbm"]).fit(X, three, ids=IDS)
    assert several.decision_function(X).shape == (N, 3)
    assert set(several.predict(X)) <= {"a", "b", "c"}


# -- regressions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["lightgbm", "hist_gradient_boosting", "extra_trees", "sklearn_ridge"])
def test_regressors_forget_too(learner, tmp_path):
    reg = ErasableRegressor((-5, 5), learner=learner, **INDEPENDENT).fit(X, TARGETS, ids=IDS)
    reg.forget(ids=IDS[:20])
    again = clone(reg).fit(X[20:], TARGETS[20:], ids=IDS[20:])
    assert bits(reg) == bits(again)
    assert (reg.predict(X) == again.predict(X)).all()
    assert (np.abs(reg.predict(X)) <= 5).all()
    reg.save(tmp_path / "r.erasable")
    back = load(tmp_path / "r.erasable")
    assert type(back) is ErasableRegressor
    assert (back.predict(X) == reg.predict(X)).all()
    assert verify(back).digest == reg.state_digest()


def test_several_targets_need_a_learner_that_has_them():
    both = np.column_stack([TARGETS, -TARGETS])
    with pytest.raises(ConfigurationError, match="predicts one number"):
        ErasableRegressor((-9, 9), learner="lightgbm", **INDEPENDENT).fit(X, both, ids=IDS)
    reg = ErasableRegressor((-9, 9), learner=Ridge(), **INDEPENDENT).fit(X, both, ids=IDS)
    assert reg.predict(X).shape == (N, 2)


# -- raw tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selecting", [{"selection": "independent", "rate": 0.6}, {"threshold": 0.3}], ids=["i", "l"])
def test_a_learner_sees_the_raw_columns_of_a_table(selecting, tmp_path):
    named, schema = columns(), draft()
    learner = LGBMClassifier(n_estimators=10, min_child_samples=3)
    clf = ErasableClassifier(learner=learner, feature_map=schema, **selecting)
    clf.fit(table(), named["outcome"], ids=named["row_id"], subjects=named["person"])
    raw = schema.keeping_raw.prepared(table()).raw
    place = {key: i for i, key in enumerate(named["row_id"])}
    kept = [place[key] for key in clf.core_ids_]
    assert np.array_equal(clf.model_.core.rows(), raw[kept], equal_nan=True)
    path = tmp_path / "m.erasable"
    clf.save(path)
    report = ModelFile(path).forget(subjects=["person-003", "person-007"], digests=True)
    clf.forget(subjects=["person-003", "person-007"])
    assert report.digest == clf.state_digest() == verify(load(path)).digest
    assert (load(path).predict_proba(table()) == clf.predict_proba(table())).all()
    (row,) = clf.rows_of(ids=[clf.core_ids_[0]]).rows
    i = place[clf.core_ids_[0]]
    assert row.cells["town"].text == named["town"][i]
    assert row.cells["age"].missing if named["age"][i] is None else row.values["age"] == named["age"][i]


# -- files ------------------------------------------------------------------------------------------------------------


def altered(data, **changes):
    """A state with other entries in its header, sealed as ours are."""
    meta, tensors = parse(data)
    kinds = {"int64": "I64", "int32": "I32", "int16": "I16", "uint8": "U8", "uint16": "U16", "float32": "F32"}
    meta = {k: v for k, v in meta.items() if k != "checksum"} | changes
    return b"".join(parts(meta, {n: (kinds[a.dtype.name], a) for n, a in tensors.items()}))


STATE = bits(learnt(MODELS["independent", "lightgbm"], range(N)))


def test_altering_nothing_alters_nothing():
    assert altered(STATE) == STATE
    assert State.from_bytes(STATE).verify().core_rows


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": "os.system"},
        {"learner": "sklearn.svm.SVC"},
        {"learner": 3},
        {"learner": None},
        {"learner": ["lightgbm"]},
        {"learner": "sklearn_ridge"},
        {"learner": "sklearn_logistic"},
        {"learner_parameters": None},
        {"learner_parameters": []},
        {"learner_parameters": {"objective": "custom"}},
        {"learner_parameters": {"n_estimators": "5"}},
        {"learner_parameters": {"n_estimators": True}},
        {"learner_parameters": {"n_estimators": 10**9}},
        {"learner_parameters": {"n_estimators": [5]}},
        {"learner_parameters": {"n_estimators": 100}},
        {"learner_parameters": {"learning_rate": 1}},
        {"learner_parameters": {"learning_rate": "nan"}},
        {"learner_parameters": {"learning_rate": "0x1p0 "}},
        {"learner_parameters": {"learning_rate": "junk"}},
        {"learner_parameters": {"boosting_type": "rf"}},
        {"learner_parameters": {"model_file": "/etc/passwd"}},
        {"learner_parameters": {"callbacks": {"name": "os.system"}}},
        {"learner_parameters": {"class_weight": {"rare": 3}}},
        {"learner_parameters": {"random_state": -1}},
        {"raw_columns": 4},
        {"raw_columns": "3"},
        {"selection": "independent"},
        {"head": "learner"},
        {"head": "named-learner-regression"},
    ],
    ids=str,
)
def test_a_hostile_file_is_refused(changes, tmp_path):
    path = tmp_path / "m.erasable"
    path.write_bytes(altered(STATE, **changes))
    with pytest.raises(StateFormatError):
        load(path)


def test_changed_rows_do_not_verify():
    meta, tensors = parse(STATE)
    other_nan = np.array([0x7FF8000000000001]).view(np.float64)[0]  # a missing cell has one form
    for j, bad in ((0, other_nan), (1, np.inf), (2, -0.0)):
        rows = tensors["rows"].copy()
        rows.view(np.float64)[1, j] = bad
        data = altered(b"".join(parts(_unsealed(meta), _typed(tensors | {"rows": rows}))))
        with pytest.raises(VerificationError):
            State.from_bytes(data).verify()
    ids_swapped = State.from_bytes(STATE)
    order = [1, 0, *range(2, len(ids_swapped.ids))]
    with pytest.raises(VerificationError):
        ids_swapped.part(order).verify()


def _unsealed(meta):
    return {k: v for k, v in meta.items() if k != "checksum"}


def _typed(tensors):
    kinds = {"int64": "I64", "int32": "I32", "int16": "I16", "uint8": "U8", "uint16": "U16", "float32": "F32"}
    return {n: (kinds[a.dtype.name], a) for n, a in tensors.items()}


def test_verify_finds_a_learner_that_was_trained_on_other_rows():
    clf, other = learnt(MODELS["every row", "lightgbm"], range(N)), learnt(MODELS["every row", "lightgbm"], range(9, N))
    clf.predict(X), other.predict(X)
    clf.model_.cache["learner"] = other.model_.cache["learner"]
    with pytest.raises(VerificationError, match="not what training lightgbm"):
        verify(clf)


def test_the_state_holds_no_version_and_no_learner():
    meta, tensors = parse(STATE)
    assert meta["learner"] == "lightgbm"
    assert meta["learner_parameters"] == {"min_child_samples": 2, "n_estimators": 5}
    assert "4.7" not in str({k: v for k, v in meta.items() if k != "checksum"})
    assert not any("learner" in n for n in tensors)
    assert meta["version"] == 2


def test_another_process_trains_the_same_learner(tmp_path):
    clf = learnt(MODELS["independent", "lightgbm"], range(N))
    clf.save(tmp_path / "m.erasable")
    code = f"from erasable import load, verify; print(verify(load({str(tmp_path / 'm.erasable')!r})).learner.digest)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == verify(clf).learner.digest


@pytest.mark.parametrize("name", list(LEARNERS))
def test_training_twice_gives_the_same_bits(name, monkeypatch):
    pytest.importorskip(LEARNERS[name].module, reason="an optional library")
    head = Learner(name) if name != "sklearn_ridge" else None
    if head is None:
        return
    codes, y = (None, 4, None), np.arange(300) % 2
    rows = np.column_stack([np.arange(300) % 17, np.arange(300) % 4, RNG.normal(size=300)])
    rows[::11, 0] = np.nan if head.allowed.sees_raw else 0.0
    first = train(head, rows, y, None, codes if head.allowed.sees_raw else None)
    if name == "lightgbm":  # which gives the same bits with any number of threads
        monkeypatch.setattr("erasable.estimators.trained._THREADS", 2)
    again = train(head, rows.copy(), y, None, codes if head.allowed.sees_raw else None)
    assert first.facts == again.facts
    assert (first.probabilities(rows) == again.probabilities(rows)).all()


def test_hessboost_keeps_its_promise_of_exact_updates():
    """Deleting rows in place gives the bits of training without them; at the cost of training, so it is not used."""
    hessboost = pytest.importorskip("hessboost", reason="an optional library")
    online = pytest.importorskip("hessboost.online")
    rows, y = RNG.normal(size=(400, 4)), np.arange(400) % 2
    given = {"objective": "binary:logistic", "max_depth": 4, "tree_method": "hist", "nthread": 1}
    model = online.OnlineModel.train(given, hessboost.DMatrix(rows, label=y), 20, mode=online.Exact())
    gone = [3, 17, 250]
    model.update(deletions=gone)
    left = np.setdiff1d(np.arange(400), gone)
    again = hessboost.train(given, hessboost.DMatrix(rows[left], label=y[left]), 20, verbose_eval=False)
    assert model.model.save_raw() == again.save_raw()


@pytest.mark.parametrize("learner", ["lightgbm", "hist_gradient_boosting", "random_forest", "sklearn_ridge"])
def test_a_regression_of_one_row_predicts_its_target(learner):
    reg = ErasableRegressor((0, 10), learner=learner, selection="independent", rate=1.0)
    reg.fit(X[:30], np.arange(30) / 3, ids=np.arange(30))
    reg.forget(ids=range(1, 30))
    assert np.allclose(reg.predict(X[:5]), 0.0, atol=1e-3)
    assert verify(reg).core_rows == 1


# -- parameters --------------------------------------------------------------------------------------------------------


def test_loss_and_learner_exclude_each_other():
    for one in ({"loss": "logistic"}, {"loss": "squared"}, {"alpha": 3.0}, {"class_weight": "balanced"}):
        with pytest.raises(ConfigurationError, match="learner="):
            ErasableClassifier(learner="lightgbm", **one).fit(X, Y)


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        ("svm", "learner must be one of"),
        (LGBMClassifier, "the class LGBMClassifier"),
        (LGBMRegressor(), "got LGBMRegressor"),
        (Ridge(), "got Ridge"),
        (LGBMClassifier(objective=lambda y, p: (p - y, p)), "objective"),
        (LGBMClassifier(n_estimators=0), "n_estimators"),
        (LGBMClassifier(class_weight={"rare": 3}), "class_weight"),
        (HistGradientBoostingClassifier(early_stopping=True), "early_stopping"),
        ({"learner": "lightgbm", "leaves": 3}, "no parameter 'leaves'"),
        ({"num_leaves": 3}, "learner must be one of"),
        (object(), "got object"),
    ],
)
def test_other_learners_and_parameters_are_refused(learner, match):
    with pytest.raises(ConfigurationError, match=match):
        ErasableClassifier(learner=learner).fit(X, Y)


def test_a_name_a_dictionary_and_an_estimator_name_one_model():
    given = ["random_forest", {"learner": "random_forest"}, RandomForestClassifier(), RandomForestClassifier(n_jobs=2)]
    found = {ErasableClassifier(learner=learner).fit(X, Y, ids=IDS).state_digest() for learner in given}
    assert len(found) == 1
    deeper = ErasableClassifier(learner={"learner": "random_forest", "max_depth": 3}).fit(X, Y, ids=IDS)
    assert deeper.state_digest() not in found
    same = ErasableClassifier(learner=RandomForestClassifier(max_depth=3, random_state=0)).fit(X, Y, ids=IDS)
    assert same.state_digest() == deeper.state_digest()


# -- tables, engines and rounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("selecting", [{"selection": "independent", "rate": 0.6}, {"threshold": 0.3}], ids=["i", "l"])
def test_one_digest_from_every_container_in_any_blocks_and_with_an_engine(selecting, tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.models.row_source._FIRST_BYTES", 2_000)
    monkeypatch.setattr("erasable.models.row_source._FIRST_ROWS", 0)
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 4_000)
    named, schema, given = columns(), draft(), {"learner": "lightgbm", **selecting}
    clf = ErasableClassifier(feature_map=schema, **given)
    digest = clf.fit(table(), named["outcome"], ids=named["row_id"], subjects=named["person"]).state_digest()
    for name, frame in frames(table()):
        again = clone(clf).fit(frame, named["outcome"], ids=named["row_id"], subjects=named["person"])
        assert again.state_digest() == digest, name
    local = clone(clf).set_params(engine=Local(threads=1))
    local.fit(table(), named["outcome"], ids=named["row_id"], subjects=named["person"])
    assert local.state_digest() == digest
    for form in ("raw.csv", "raw.parquet"):
        path = tmp_path / f"{form}.erasable"
        source = write(table(), str(tmp_path / form))
        options = LearnOptions(budget_bytes=50_000)
        learn_table(path, source, Columns(schema=schema), parameters=given, options=options)
        assert load(path).state_digest() == digest, form


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_numbers_and_the_container_do_not_matter(dtype):
    rows = X.astype(np.float32)
    model = MODELS["leverage", "lightgbm"]
    expected = clone(model).fit(rows.astype(np.float64), Y, ids=IDS)
    for given_rows in (rows.astype(dtype), sp.csr_array(rows.astype(dtype)), np.asfortranarray(rows.astype(dtype))):
        found = clone(model).fit(given_rows, Y, ids=IDS)
        assert bits(found) == bits(expected)
        assert (found.predict_proba(given_rows) == expected.predict_proba(rows)).all()


def test_replacing_rows_is_forgetting_and_learning_them():
    clf = clone(MODELS["independent", "lightgbm"]).fit(X, Y, ids=IDS)
    clf.partial_fit(X[:9] + 1, Y[:9], ids=IDS[:9], replace=True)
    changed = X.copy()
    changed[:9] += 1
    assert bits(clf) == bits(clone(MODELS["independent", "lightgbm"]).fit(changed, Y, ids=IDS))


def test_pickles_and_copies_hold_the_state_and_train_again():
    clf = learnt(MODELS["independent", "lightgbm"], range(N))
    expected = clf.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf), clf.model_.predictor()):
        assert (other.predict_proba(X) == expected).all()
    assert b"leaf_value" not in pickle.dumps(clf)


def test_the_predictor_of_a_service_holds_no_rows():
    clf = learnt(MODELS["independent", "lightgbm"], range(N))
    told = pickle.dumps(clf.model_.predictor())
    assert IDS[0].encode() not in told
    assert X[0].tobytes() not in told
