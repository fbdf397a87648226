"""scikit-learn's own checks, with no expected failures."""

from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable.research.baselines import RetrainedRidge, SISAClassifier


@parametrize_with_checks(
    [
        RetrainedRidge(),
        SISAClassifier(n_shards=3, n_slices=2),
        SISAClassifier(SGDClassifier(loss="log_loss"), n_shards=1, n_slices=1, replay=True),
        SISAClassifier(DecisionTreeClassifier(), n_shards=2),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
