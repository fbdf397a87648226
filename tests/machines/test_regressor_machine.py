"""A regressor and the oracle live through the same random history; after every step they are the same, bit for bit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from erasable import ErasableRegressor, verify
from erasable.errors import ErasableError, InputError
from erasable.models.state import State
from tests.regression_oracle import RegressionOracle
from tests.regressions import Regression, regressions
from tests.strategies import Batch, assert_identical, row_weights


class Regressor(RuleBasedStateMachine):
    """Learn, forget, copy, refuse: compared with starting again in rational arithmetic."""

    made: Regression
    reg: ErasableRegressor
    oracle: RegressionOracle

    @initialize(problem=regressions(max_rows=8, max_features=3))
    def start(self, problem):
        self.made, batch = problem
        self.pool = batch.X
        self.reg, self.oracle = self.made.regressor(), self.made.oracle()
        self.offered: list = []

    def fitted(self):
        return self.reg.__sklearn_is_fitted__()

    def batch(self, data, n):
        held = set(self.oracle.ids)
        free = [f"r{i}" for i in range(len(held) + 12) if f"r{i}" not in held]
        ids = data.draw(st.lists(st.sampled_from(free), min_size=n, max_size=n, unique=True))
        rows = [data.draw(st.sampled_from(self.pool)) for _ in range(n)]
        owners = [data.draw(st.integers(0, 4)) for _ in range(n)] if data.draw(st.booleans()) else None
        y = [data.draw(self.made.targets()) for _ in range(n)]
        return Batch(rows, y, ids, owners, data.draw(st.one_of(st.none(), row_weights(n))))

    @rule(data=st.data(), n=st.integers(1, 6), container=st.sampled_from([np.array, sp.csr_array]))
    def learn(self, data, n, container):
        batch = self.batch(data, n)
        if max(batch.weights or [1.0]) > 1 / 32:
            names = {"ids": batch.ids, "subjects": batch.subjects, "sample_weight": batch.weights}
            self.reg.partial_fit(container(np.array(batch.X)), batch.y, **names, allow_no_subject=True)
        batch.learnt_by(self.oracle)
        self.offered += batch.ids

    @precondition(lambda self: self.fitted() and self.offered)
    @rule(data=st.data())
    def forget_ids(self, data):
        names = data.draw(st.lists(st.sampled_from(self.offered), max_size=6))
        before = len(self.oracle.core)
        report = self.reg.forget(ids=names)
        self.oracle.forget(ids=names)
        assert report.core_rows_removed == before - len(self.oracle.core)
        assert report.digest == self.oracle.digest()

    @precondition(lambda self: self.fitted())
    @rule(owners=st.lists(st.integers(0, 6), max_size=3))
    def forget_subjects(self, owners):
        self.reg.forget(subjects=owners)
        self.oracle.forget(subjects=owners)

    @precondition(lambda self: self.fitted() and self.oracle.core)
    @rule()
    def forget_everything(self):
        self.reg.forget(ids=self.oracle.ids)
        self.oracle = self.made.oracle()

    @precondition(lambda self: self.fitted())
    @rule(duplicate=st.sampled_from([copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]))
    def replace_by_a_copy(self, duplicate):
        old, self.reg = self.reg, duplicate(self.reg)
        if old.n_core_:
            old.forget(ids=old.core_ids_)
        assert old.n_core_ == 0

    @precondition(lambda self: self.fitted())
    @rule()
    def check(self):
        assert verify(self.reg).core_rows == len(self.oracle.core)
        again = State.from_bytes(self.reg._model.snapshot().to_bytes())
        assert again.verify().digest == self.oracle.digest()

    @precondition(lambda self: self.fitted())
    @rule(data=st.data(), fault=st.sampled_from(["below", "above", "nan", "inf", "text", "width", "short"]))
    def refuse_wrong_targets(self, data, fault):
        batch = self.batch(data, 3)
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
            self.reg.partial_fit(np.array(batch.X), y, ids=batch.ids)

    @invariant()
    def the_state_is_the_oracles(self):
        if hasattr(self, "reg") and self.fitted():
            assert_identical(self.reg, self.oracle)
            assert self.reg.core_ids_.tolist() == self.oracle.ids


TestRegressor = Regressor.TestCase
