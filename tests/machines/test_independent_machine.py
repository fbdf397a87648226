"""Models of independent selection live through a random history; after every step each is a fit on all survivors.

The truth is a plain dictionary of all rows that were learnt and not forgotten, stored or not.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor, load, verify
from erasable.errors import EmptiedClassWarning, ErasableError

D, POOL = 3, 30
RNG = np.random.default_rng(11)
X = np.round(RNG.normal(size=(POOL, D)), 1) * (RNG.random((POOL, D)) < 0.7)
X[X.any(axis=1) == 0] = 1.0
SHARES = {"no": 0.75, "yes": 0.25}
MOMENTS = {"uniform": None, "columns": [0.25, 0.125, 0.5], "matrix": np.eye(D) / 4}
HEADS = {
    "squared": lambda **options: ErasableClassifier(loss="squared", **options, feature_map=None),
    "logistic": lambda **options: ErasableClassifier(loss="logistic", alpha=0.1, **options, feature_map=None),
    "regression": lambda **options: ErasableRegressor((-5, 5), **options, feature_map=None),
    "kernel": lambda **options: ErasableKernelClassifier(**options),
}
KEYS = {"int": lambda i: 7 * i - 20, "str": lambda i: f"row {i}", "bytes": lambda i: b"%d" % i}
positions = st.integers(0, POOL - 1)


class IndependentMachine(RuleBasedStateMachine):
    """Learn, correct, forget, save, refuse: compared with one fit on all rows that survive."""

    clf: ErasableClassifier | ErasableRegressor | ErasableKernelClassifier

    @initialize(
        head=st.sampled_from(sorted(HEADS)),
        moments=st.sampled_from(sorted(MOMENTS)),
        balance=st.sampled_from([0.0, 0.5, 1.0]),
        rate=st.sampled_from([0.2, 0.5, 1.0]),
        kind=st.sampled_from(sorted(KEYS)),
        seed=st.integers(0, 3),
    )
    def start(self, head, moments, balance, rate, kind, seed):
        options = {"selection": "independent", "rate": rate, "random_state": seed}
        options["moments"] = MOMENTS["columns" if head == "kernel" and moments == "matrix" else moments]
        if balance and rate < 1.0 and head != "regression":
            options |= {"balance": balance, "class_shares": SHARES}
        self.head, self.new, self.key = head, HEADS[head](**options), KEYS[kind]
        self.clf, self.rows = clone(self.new), {}

    def fitted(self):
        return hasattr(self, "clf") and self.clf.__sklearn_is_fitted__()

    def label(self, i):
        return float(X[i, 0]) if self.head == "regression" else "yes" if X[i, 0] > 0.3 else "no"

    def learn(self, model, rows, container, **how):
        """Have a model learn rows, named by number, of the pool; subjects are shared by seven."""
        if rows:
            names, at = [*rows], [*rows.values()]
            labels, subjects = [self.label(i) for i in at], [f"person {n % 7}" for n in names]
            made = np.array(labels), [self.key(n) for n in names], subjects
            model.partial_fit(container(X[at]), *made, **how)
        return model

    # -- changes -----------------------------------------------------------------------------------------------------

    @rule(
        offered=st.dictionaries(st.integers(0, 40), positions, min_size=1, max_size=8),
        container=st.sampled_from([np.array, sp.csr_array]),
    )
    def learn_rows(self, offered, container):
        new = {n: i for n, i in offered.items() if n not in self.rows}
        self.learn(self.clf, new, container)
        self.rows |= new

    @precondition(lambda self: self.fitted())
    @rule(offered=st.dictionaries(st.integers(0, 40), positions, min_size=1, max_size=4))
    def correct_rows(self, offered):
        """Rows that are stored, rows that were learnt and not stored, and rows that are new."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptiedClassWarning)
            self.learn(self.clf, offered, np.array, replace=True)
        self.rows |= offered

    @precondition(lambda self: self.fitted())
    @rule(names=st.sets(st.integers(0, 45), min_size=1, max_size=6))
    def forget_ids(self, names):
        before = self.clf.n_core_
        report = self.clf.forget_quietly(ids=[self.key(n) for n in names])
        assert report.core_rows_removed == before - self.clf.n_core_
        self.rows = {n: i for n, i in self.rows.items() if n not in names}

    @precondition(lambda self: self.fitted())
    @rule(people=st.sets(st.integers(0, 8), min_size=1, max_size=3))
    def forget_people(self, people):
        self.clf.forget_quietly(subjects=[f"person {p}" for p in people])
        self.rows = {n: i for n, i in self.rows.items() if n % 7 not in people}

    @precondition(lambda self: self.fitted())
    @rule(how=st.sampled_from(["file", "pickle", "copy"]))
    def read_again(self, how):
        if how == "file":
            with TemporaryDirectory() as folder:
                self.clf.save(Path(folder) / "model.erasable")
                self.clf = load(Path(folder) / "model.erasable")
        else:
            self.clf = pickle.loads(pickle.dumps(self.clf)) if how == "pickle" else copy.deepcopy(self.clf)

    # -- refusals ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.fitted() and self.clf.n_core_)
    @rule(fault=st.sampled_from(["stored", "no ids", "wide", "nan", "label"]), i=positions)
    def refuse(self, fault, i):
        """An error, and not a bit moves."""
        row, label, ids = X[[i]].copy(), self.label(i), [self.key(99)]
        match fault:
            case "stored":
                ids = [self.clf.core_ids_[0]]
            case "no ids":
                ids = None
            case "wide":
                row = np.column_stack([row, row])
            case "nan":
                row[0, 0] = np.nan
            case _:
                label = "a label" if self.head == "regression" else 7
        before = self.clf.state_digest()
        with pytest.raises((ErasableError, ValueError)):
            self.clf.partial_fit(row, [label], ids=ids, subjects=["person 1"])
        assert self.clf.state_digest() == before

    # -- the law, at every moment --------------------------------------------------------------------------------------

    @invariant()
    def the_state_is_that_of_one_fit_on_all_survivors(self):
        if not self.fitted():
            return
        stored = {n for n in self.rows if self.key(n) in set(self.clf.core_ids_.tolist())}
        assert len(stored) == self.clf.n_core_
        assert verify(self.clf).core_rows == self.clf.n_core_
        if not self.rows:
            assert self.clf.n_core_ == 0
            return
        fresh = self.learn(clone(self.new), dict(sorted(self.rows.items(), reverse=True)), np.array)
        assert self.clf.state_digest() == fresh.state_digest()


TestIndependent = IndependentMachine.TestCase
