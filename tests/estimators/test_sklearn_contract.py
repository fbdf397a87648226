"""scikit-learn's own checks, with no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor


@parametrize_with_checks(
    [
        ErasableClassifier(capacity=0.1, threshold=0.05, loss="logistic"),
        ErasableClassifier(),
        ErasableClassifier(threshold=0.05, fit_intercept=False),
        ErasableClassifier(capacity=0.1, kappa=1.0, horizon=300, grid_bits=12),
        ErasableKernelClassifier(),
        ErasableKernelClassifier("matern", capacity=0.01, threshold=1.0),
        ErasableRegressor(),
        ErasableRegressor((-2000.0, 2000.0), 0.1, threshold=0.01, fit_intercept=False, grid_bits=12),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
