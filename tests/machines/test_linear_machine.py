"""Linear models and the oracle live through the same random history; after every step they agree, bit for bit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from erasable import ErasableClassifier, ErasableRegressor, verify
from erasable.errors import ErasableError, InputError
from erasable.models.row_source import Rows
from erasable.models.state import State
from tests.oracle import OracleModel
from tests.regressions import Regression, regressions
from tests.strategies import Batch, Setting, assert_identical, problems, row_weights

KEYS = {
    "int": lambda i: i - 5,
    "str": lambda i: f"r{i}" + "\0" * (i % 2),
    "bytes": lambda i: b"%d" % i + b"\0" * (i % 2),
}
SIZES = [{}, {"block_rows": 1, "chunk_rows": 1}, {"block_rows": 3, "chunk_rows": 2}]
WRONG = {"int": ["7", "8", "9"], "str": [b"r1", b"r2", b"r3"], "bytes": [1, 2, 3]}  # keys of another type


class Classifier(RuleBasedStateMachine):
    """Learn, forget, save, refuse: compared with starting again in rational arithmetic."""

    setting: Setting
    clf: ErasableClassifier | ErasableRegressor
    oracle: OracleModel

    @initialize(
        problem=problems(max_rows=8, max_features=3, weighted=True, losses=["squared", "squared", "logistic"]),
        kind=st.sampled_from(sorted(KEYS)),
        owners=st.sampled_from(sorted(KEYS)),
    )
    def start(self, problem, kind, owners):
        setting, batch = problem
        self.labels = st.sampled_from(sorted(set(batch.y)) if setting.classes is None else list(setting.classes))
        self.begin(setting, batch, setting.classifier, setting.oracle, kind, owners)

    def begin(self, setting, batch, estimator, oracle, kind, owners):
        self.setting, self.pool, self.new_oracle = setting, batch.X, oracle
        self.kind, self.owner_kind = kind, owners
        self.key, self.owner = KEYS[kind], KEYS[owners]
        self.clf, self.oracle = estimator(), oracle()
        self.offered: list = []  # every id ever used

    def fitted(self):
        return self.clf.__sklearn_is_fitted__()

    def batch(self, data, *, n=None):
        """Rows from the pool under ids that the model does not hold; some of them held once."""
        n = n or data.draw(st.integers(1, 6))
        held = set(self.oracle.ids)
        free = [key for key in map(self.key, range(len(held) + 12)) if key not in held]
        ids = data.draw(st.lists(st.sampled_from(free), min_size=n, max_size=n, unique=True))
        rows = [data.draw(st.sampled_from(self.pool)) for _ in range(n)]
        y = [data.draw(self.labels) for _ in range(n)]
        some = data.draw(st.sampled_from([None, st.integers(0, 4), st.lists(st.integers(0, 4), max_size=3)]))
        drawn = None if some is None else [data.draw(some) for _ in range(n)]
        owners = drawn and [self.owner(i) if isinstance(i, int) else [*map(self.owner, i)] for i in drawn]
        return Batch(rows, y, ids, owners, data.draw(st.one_of(st.none(), row_weights(n))))

    # -- changes -------------------------------------------------------------------------------------------------

    @rule(data=st.data(), sizes=st.sampled_from(SIZES), container=st.sampled_from([np.array, sp.csr_array]))
    def learn(self, data, sizes, container):
        batch = self.batch(data)
        self.clf._learn(
            Rows(container(np.array(batch.X)), batch.y, batch.ids, batch.subjects, batch.weights),
            fresh=not self.fitted(),
            streaming=True,
            allow_no_subject=True,
            **sizes,
        )
        batch.learnt_by(self.oracle)
        self.offered += batch.ids

    @precondition(lambda self: self.fitted() and self.kind == "int" and not self.setting.sample_rate)
    @rule(n=st.integers(1, 3), data=st.data())
    def learn_without_ids(self, n, data):
        """Rows are numbered on from the largest id among the core rows, and from 0 where there are none."""
        rows = [data.draw(st.sampled_from(self.pool)) for _ in range(n)]
        start = max(self.oracle.ids) + 1 if self.oracle.ids else 0
        batch = Batch(rows, [data.draw(self.labels)] * n, list(range(start, start + n)), None)
        self.clf.partial_fit(np.array(rows), batch.y)
        batch.learnt_by(self.oracle)

    @precondition(lambda self: self.fitted())
    @rule(data=st.data())
    def fit_again(self, data):
        batch = self.batch(data)
        self.clf.fit(
            np.array(batch.X),
            batch.y,
            ids=batch.ids,
            subjects=batch.subjects,
            sample_weight=batch.weights,
            allow_no_subject=True,
        )
        self.oracle = batch.learnt_by(self.new_oracle())

    @precondition(lambda self: self.fitted() and self.offered)
    @rule(data=st.data())
    def forget_ids(self, data):
        names = data.draw(st.lists(st.sampled_from(self.offered), max_size=6))
        before = len(self.oracle.core)
        report = self.clf.forget(ids=names)
        self.oracle.forget(ids=names)
        assert report.requested == len(set(names))
        assert report.core_rows_removed == before - len(self.oracle.core)
        assert report.core_rows == len(self.oracle.core)
        if data.draw(st.booleans()):
            assert report.digest == self.oracle.digest()
            assert self.clf.forget(ids=names).core_rows_removed == 0

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule(data=st.data())
    def forget_core_rows(self, data):
        names = data.draw(st.lists(st.sampled_from(self.oracle.ids), unique=True, min_size=1))
        assert self.clf.forget(ids=names).core_rows_removed == len(names)
        self.oracle.forget(ids=names)

    @precondition(lambda self: self.fitted())
    @rule(owners=st.lists(st.integers(0, 6), max_size=3))
    def forget_subjects(self, owners):
        names = [self.owner(i) for i in owners]
        self.clf.forget(subjects=names)
        self.oracle.forget(subjects=names)

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule(data=st.data(), owner=st.integers(0, 4))
    def forget_ids_and_subjects_together(self, data, owner):
        name = data.draw(st.sampled_from(self.oracle.ids))
        self.clf.forget(ids=[name], subjects=[self.owner(owner)])
        self.oracle.forget(ids=[name], subjects=[self.owner(owner)])

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule(data=st.data())
    def forget_a_class(self, data):
        label = data.draw(st.sampled_from(self.oracle.labels))
        names = [r.id for r in self.oracle.core if r.label == label]
        self.clf.forget(ids=names)
        self.oracle.forget(ids=names)

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule()
    def forget_everything(self):
        self.clf.forget(ids=self.oracle.ids)
        self.oracle = self.new_oracle()

    # -- what changes nothing --------------------------------------------------------------------------------------

    @precondition(lambda self: self.fitted())
    @rule()
    def forget_the_unknown(self):
        assert self.clf.forget(ids=[self.key(9999)]).core_rows_removed == 0
        assert self.clf.forget(subjects=[self.owner(9999)]).core_rows_removed == 0
        assert self.clf.forget(ids=[]).core_rows_removed == 0

    @precondition(lambda self: self.fitted())
    @rule(how=st.sampled_from(["pickle", "copy", "deepcopy"]))
    def replace_by_a_copy(self, how):
        duplicate = {"pickle": lambda c: pickle.loads(pickle.dumps(c)), "copy": copy.copy, "deepcopy": copy.deepcopy}
        old, self.clf = self.clf, duplicate[how](self.clf)
        if old.n_core_:
            old.forget(ids=old._model.snapshot().ids)  # the original must not share anything with its copy
        assert old.n_core_ == 0

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule()
    def predict(self):
        X = np.array(self.pool)
        assert set(self.clf.predict(X).tolist()) <= set(self.oracle.classes)
        self.clf.decision_function(X)
        self.clf.predict_proba(X)

    @precondition(lambda self: self.fitted())
    @rule()
    def check(self):
        assert verify(self.clf).core_rows == len(self.oracle.core)
        again = State.from_bytes(self.clf._model.snapshot().to_bytes())
        assert again.verify().digest == self.oracle.digest()

    # -- refusals: an error, and not a bit moves ---------------------------------------------------------------------

    @precondition(lambda self: self.fitted())
    @rule(data=st.data(), fault=st.sampled_from(["nan", "inf", "narrow", "wide", "labels", "ids", "owners", "empty"]))
    def refuse_malformed_rows(self, data, fault):
        batch = self.batch(data, n=3)
        X, y, ids, owners = np.array(batch.X), batch.y, batch.ids, batch.subjects
        match fault:
            case "nan":
                X[2, 0] = np.nan
            case "inf":
                X[0, -1] = -np.inf
            case "narrow":
                X = X[:, :-1]
            case "wide":
                X = np.column_stack([X, X[:, 0]])
            case "labels":
                y = y[:-1]
            case "ids":
                ids = ids[:-1]
            case "owners":
                owners = [self.owner(1)] * 2
            case _:
                X, y, ids, owners = X[:0], [], [], None
        with pytest.raises((ErasableError, ValueError)):
            self.clf.partial_fit(X, y, ids=ids, subjects=owners)

    @precondition(lambda self: self.fitted())
    @rule(data=st.data(), weight=st.sampled_from([-1.0, np.nan, np.inf, 16.04, "1", None]))
    def refuse_wrong_weights(self, data, weight):
        batch = self.batch(data, n=3)
        with pytest.raises(ErasableError, match="sample_weight"):
            self.clf.partial_fit(np.array(batch.X), batch.y, ids=batch.ids, sample_weight=[1.0, weight, 1.0])

    @precondition(lambda self: self.fitted() and self.setting.sample_rate)
    @rule(data=st.data())
    def refuse_rows_without_ids(self, data):
        batch = self.batch(data, n=2)
        with pytest.raises(InputError, match="ids are required"):
            self.clf.partial_fit(np.array(batch.X), batch.y)

    @precondition(lambda self: self.fitted())
    @rule(data=st.data(), fault=st.sampled_from(["twice", "present", "type", "owner type", "class", "label type"]))
    def refuse_wrong_names(self, data, fault):
        batch = self.batch(data, n=3)
        y, ids, owners = list(batch.y), list(batch.ids), batch.subjects
        held = [s for s in self.oracle.subjects if s is not None]
        match fault:
            case "twice":
                ids[2] = ids[0]
            case "present" if self.oracle.ids:
                ids[1] = self.oracle.ids[0]
            case "type" if self.oracle.ids:
                ids = WRONG[self.kind]
            case "owner type" if held:
                owners = WRONG[self.owner_kind]
            case "class" if self.setting.classes is not None:
                y = [{bool: 2, int: 77, float: 77.0, str: "unseen"}[type(y[0])]] * 3
            case "label type" if self.oracle.core:
                y = ["x", "y", "x"] if not isinstance(y[0], str) else [1, 2, 1]
            case _:
                return
        with pytest.raises(ErasableError):
            self.clf.partial_fit(np.array(batch.X), y, ids=ids, subjects=owners)

    @precondition(lambda self: self.fitted() and not self.oracle.grid.normalises)
    @rule(data=st.data())
    def refuse_rows_outside_the_ball(self, data):
        batch = self.batch(data, n=2)
        X = np.array(batch.X)
        X[1] = 3.0 * (self.setting.scaling or 1.0)
        with pytest.raises(InputError, match="norm above"):
            self.clf.partial_fit(X, batch.y, ids=batch.ids, subjects=batch.subjects, allow_no_subject=True)

    @precondition(lambda self: self.fitted())
    @rule()
    def refuse_to_forget_nonsense(self):
        with pytest.raises(ErasableError):
            self.clf.forget()
        with pytest.raises(ErasableError):
            self.clf.forget(ids=[1.5])
        with pytest.raises(ErasableError):
            self.clf.forget(ids=[1, "a"])
        if self.oracle.ids:
            with pytest.raises(ErasableError):
                self.clf.forget(ids=WRONG[self.kind])

    # -- the law, at every moment ------------------------------------------------------------------------------------

    @invariant()
    def the_state_is_the_oracles(self):
        if hasattr(self, "clf") and self.fitted():
            assert_identical(self.clf, self.oracle)
            assert self.clf.n_core_ == self.clf.stored_rows_ == len(self.oracle.core)
            assert self.clf.core_ids_.tolist() == self.oracle.ids
            assert self.clf.threshold_ == self.setting.threshold
            self.classes_are_the_oracles()

    def classes_are_the_oracles(self):
        assert self.clf.classes_.tolist() == list(self.oracle.classes)


class Regressor(Classifier):
    """The same with targets, which are numbers in declared ranges."""

    made: Regression

    @initialize(
        problem=regressions(max_rows=8, max_features=3),
        kind=st.sampled_from(sorted(KEYS)),
        owners=st.sampled_from(sorted(KEYS)),
    )
    def start(self, problem, kind, owners):
        self.made, batch = problem
        self.labels = self.made.targets()
        self.begin(self.made.setting, batch, self.made.regressor, self.made.oracle, kind, owners)

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule()
    def predict(self):
        low, high = np.array(self.made.ranges).T
        found = self.clf.predict(np.array(self.pool)).reshape(len(self.pool), -1)
        assert ((low <= found) & (found <= high)).all()

    @precondition(lambda self: self.fitted())
    @rule(data=st.data(), fault=st.sampled_from(["below", "above", "nan", "inf", "text", "width", "short"]))
    def refuse_wrong_targets(self, data, fault):
        batch = self.batch(data, n=3)
        y = np.array(batch.y, dtype=object if fault == "text" else float).reshape(3, -1)
        low, high = self.made.ranges[-1]
        match fault:
            case "below":
                y[1, -1] = np.nextafter(low, -np.inf)
            case "above":
                y[2, -1] = np.nextafter(high, np.inf)
            case "nan":
                y[0, 0] = np.nan
            case "inf":
                y[0, 0] = -np.inf
            case "text":
                y[:, 0] = "much"
            case "width":
                y = np.column_stack([y, y[:, 0]])
            case _:
                y = y[:-1]
        with pytest.raises((ErasableError, InputError)):
            self.clf.partial_fit(np.array(batch.X), y, ids=batch.ids)

    def classes_are_the_oracles(self):
        assert not hasattr(self.clf, "classes_")


TestClassifier = Classifier.TestCase
TestClassifier.settings = settings(max_examples=2 * settings().max_examples)
TestRegressor = Regressor.TestCase
