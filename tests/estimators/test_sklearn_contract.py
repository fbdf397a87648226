"""scikit-learn's own checks, with no expected failures."""

from sklearn.linear_model import RidgeClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.features import RandomFourierFeatures
from erasable.research.baselines import RetrainedRidge


@parametrize_with_checks(
    [
        ErasableClassifier(capacity=0.1, threshold=0.05, loss="logistic"),
        ErasableClassifier(),
        ErasableClassifier(feature_map=None, head_scaling="flat"),
        ErasableClassifier(threshold=0.05, fit_intercept=False, loss="squared"),
        ErasableClassifier(capacity=0.1, threshold=0.05, head_scaling="spread"),
        ErasableClassifier(capacity=0.1, kappa=1.0, horizon=300, grid_bits=12),
        ErasableClassifier(feature_map=RandomFourierFeatures(60, gamma=0.05), capacity=0.1, kappa=0.4, horizon=1000),
        ErasableKernelClassifier(),
        ErasableRegressor(),
        ErasableRegressor((-2000.0, 2000.0), 0.1, threshold=0.01, fit_intercept=False, grid_bits=12),
        ErasableGeneralClassifier(),
        ErasableGeneralClassifier(LinearBall(2.0, fit_intercept=True), threshold=0.2),
        CoreSetUnlearner(RandomSubsample(1.0), RidgeClassifier()),
        CoreSetUnlearner(RandomSubsample(0.9), DecisionTreeClassifier()),
        CoreSetUnlearner(LeverageThreshold(1e-6), RetrainedRidge()),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
