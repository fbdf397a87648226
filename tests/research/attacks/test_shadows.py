"""Likelihood ratios: against closed forms, against overfitting, and on models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from erasable.audit import statistics
from erasable.research.attacks.shadows import GROUPS, STATISTICS, Shadows, train_shadows
from erasable.research.attacks.suite import measure
from erasable.research.attacks.targets import TARGETS
from tests.research.attacks.cases import make_pool

FORGOTTEN = GROUPS[:3]


def drawn(shift, n_shadows=512, n_candidates=40, seed=0):
    """Shadows whose first statistic is normal, and is shifted where the candidate is a member."""
    rng = np.random.default_rng(seed)
    member = np.zeros((n_shadows, n_candidates), bool)
    for j in range(n_candidates):
        member[rng.permutation(n_shadows)[: n_shadows // 2], j] = True
    own = rng.uniform(0.1, 10.0, n_candidates)  # each candidate has its own place and spread
    T = rng.standard_normal((n_shadows, n_candidates, len(STATISTICS)))
    T[..., 0] += shift * member
    return Shadows(T * own[:, None] + 5.0 * own[:, None], member, np.zeros(n_candidates, np.intp), False)


@pytest.mark.parametrize("shift", [0.5, 1.5])
def test_the_ratio_of_normal_laws_reaches_the_area_of_the_best_test(shift):
    scores, member, _ = drawn(shift).ratios(("random",), ("score",))
    assert statistics.measure(scores, member, resamples=1).auc.value == pytest.approx(
        ndtr(shift / np.sqrt(2.0)), abs=0.01
    )


def test_a_shadow_is_not_judged_by_a_law_that_was_fitted_to_it():
    scores, member, _ = drawn(0.0, n_shadows=16, n_candidates=400).ratios(("random",), ("score", "novelty"))
    assert (
        statistics.measure(scores, member, resamples=1).auc.value < 0.52
    )  # fitted to themselves, so few shadows would seem to tell much


def test_a_statistic_that_never_varies_tells_nothing():
    still = drawn(0.0)
    still.statistics[..., 0] = 3.0
    assert measure(*still.ratios(("random",), ("score",))).tied


def test_only_the_groups_asked_for_are_judged():
    shadows = drawn(0.0, n_shadows=32)
    shadows.group[:10] = GROUPS.index("retained")
    scores, _, row = shadows.ratios(("retained",), ("score",))
    assert len(scores) == 32 * 10
    assert len(np.unique(row)) == 10


def test_a_store_that_forgets_nothing_is_seen_in_its_weights_and_retraining_is_not():
    X, y = make_pool(400, 20)
    seen, unseen = (
        measure(*train_shadows(TARGETS[name], X, y, 64, 10).ratios(("mislabelled",), ("score",)))
        for name in ("forgets-nothing", "retrained")
    )
    assert seen.auc.low > 0.5 + 0.03
    assert unseen.auc.low < 0.5


def test_members_are_half_of_the_shadows_for_every_candidate():
    X, y = make_pool()
    shadows = train_shadows(TARGETS["sample"], X, y, 8, 6)
    assert (shadows.member.sum(axis=0) == 4).all()
    assert np.bincount(shadows.group).tolist() == [6, 6, 6, 6]
    assert not shadows.stores_all
