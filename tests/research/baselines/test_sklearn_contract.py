"""scikit-learn's own checks, with no expected failures."""

from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable.coresets import RandomSubsample
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    InterpolatedClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)

NO_NOISE = 1e300  # an epsilon that leaves noise of some 1e-150


@parametrize_with_checks(
    [
        RetrainedRidge(),
        SISAClassifier(n_shards=3, n_slices=2),
        SISAClassifier(SGDClassifier(loss="log_loss"), n_shards=1, n_slices=1, replay=True),
        SISAClassifier(DecisionTreeClassifier(), n_shards=2),
        CertifiedRemovalClassifier(sigma=1e-3),
        CertifiedRemovalClassifier(alpha=0.01, sigma=0.01, fit_intercept=False),
        NewtonUnlearner("squared"),
        NewtonUnlearner(epsilon=NO_NOISE, max_deletions=3),
        NewtonUnlearner(epsilon=NO_NOISE, alpha=0.01, fit_intercept=False),
        InterpolatedClassifier(RandomSubsample(1.0), private_share=0.0, epsilon=1.0, alpha=0.01, random_state=0),
        InterpolatedClassifier(RandomSubsample(1.0), private_share=1e-3, epsilon=20.0, alpha=0.02, random_state=0),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
