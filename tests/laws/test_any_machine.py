"""The same rows give the same bytes with other kernels, on other processors, in other years."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import math
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor, verify
X, y = load_digits(return_X_y=True)
ids = np.arange(len(X))
for clf in (
    ErasableClassifier(capacity=0.1, kappa=0.3, loss="squared", feature_map=None),
    ErasableClassifier(capacity=0.1, kappa=0.3, loss="logistic", alpha=0.1, class_weight="balanced", feature_map=None),
    ErasableClassifier(capacity=0.1, threshold=math.inf, sample_rate=0.3, loss="squared", feature_map=None),
    ErasableKernelClassifier("rbf", gamma=1.0, scaling=60.0),
    ErasableKernelClassifier("matern", gamma=2.0, scaling=60.0, capacity=0.2),
):
    weights = {"sample_weight": 0.25 + ids % 7} if isinstance(clf, ErasableClassifier) and clf.class_weight else {}
    clf.fit(X, y, ids=ids, **weights)
    before = clf.state_digest()
    clf.forget(ids=clf.core_ids_[::3])
    verify(clf)
    print(before, clf.state_digest())
reg = ErasableRegressor([(0.0, 16.0), (-1.0, 12.0)], 0.1, kappa=0.3, feature_map=None)
reg.fit(X[:, 8:], np.stack([X[:, 2], y / 3.0], axis=1), ids=ids, sample_weight=0.25 + ids % 7)
before = reg.state_digest()
reg.forget(ids=reg.core_ids_[::3])
verify(reg)
print(before, reg.state_digest())
# Few entries among many features: stored sparse.
wide = sp.csr_array((X[:, 20:24].ravel() + 1.0, ((np.arange(1797 * 4) * 37) % 300), np.arange(0, 1797 * 4 + 1, 4)))
clf = ErasableClassifier(threshold=0.3, loss="squared", feature_map=None).fit(wide, y)
before = clf.state_digest()
clf.forget(ids=clf.core_ids_[::3])
verify(clf)
print(before, clf.state_digest(), type(clf.model_.snapshot().rows).__name__)
clf = ErasableClassifier(capacity=0.1, threshold=0.2).fit(X, y)  # behind the log map, regularised by spread
before = clf.state_digest()
clf.forget(ids=clf.core_ids_[::3])
verify(clf)
print(before, clf.state_digest())
"""

# What version 1 of the canonical bytes says of this program; a change here is a change of the format or of the rule.
GOLDEN = (
    "2075763fd168e0a688abf92ccd5ca1de53563646f14b02913277cf6b6e6db5de "
    "223b31fceda1f1e52f6c1f4377680e271457f489ad029e2a26908b2c44c47208 "
    "65613dd603c5512a249c5e49b70255cb7b0b5611f16f4d560f4fd94812f40b94 "
    "8ddf0dc22e8385a830f56c15d64151dd8ca05608444ecf054b0ecf37293db7be "
    "34281a6b4f9e55500694e4da511f9f8fc6c6d39980f66d2a550ab9e8abfd7a78 "
    "dea54cfd590254c507c19793bbae18f1aded93cd565bfd5c7b5c54df41517a16 "
    "b8f7049c0e7b85793915028b6b47d41b75be7b6c24c753b8ff40c1364d31f7bf "
    "481a46eab807376370878c7510a471c1be0f04138b4a32cc4c473e731842ddb5 "
    "559c85bbbef110c4d9e03c10037e26697651227baa198ef51cc6cfcef6b9eba1 "
    "627dbd3d1b6c942e8e36193c47979ed8754692896b8b70146e7d4d00304e0e63 "
    "befa6cc77845357298396723b142e34637416bb3d526e8caae98072c5c49c49b "
    "a9219f2aac561d4258ac6f52e6b3206b3915f41e25510680fa7518a9b550e4c8 "
    "f2f2b0a845f4eb8983ac28e1fc5c6bc99c3da9fb9753049309959995e6998f3b "
    "64ad6fb26b5be5cbce31454b70aee756f3bb8d3b75076f7080083c581fcc93c8 csr_array "
    "f10be30a628a62d1914ad717664df40c7bcb948c4b9247285dc1f07d4c1fd56d "
    "2768f0e82cd8efd27265f14e5aef36797536ca342529bc3dbdd0d8120fef554d"
)


# As NumPy calls them from 2.4 on, and before; names that it does not know it passes over.
FEATURES = "X86_V4 X86_V3 AVX512F AVX2 FMA3"


@pytest.mark.parametrize("kernels", [None, "Prescott", "Nehalem"])
def test_the_digest_is_that_of_every_machine(kernels):
    """OpenBLAS can be told to use an older processor's kernels: another order of sums, no fused products.

    So can NumPy: another exponential, right to other last bits.
    """
    if kernels is not None and platform.machine() not in ("x86_64", "AMD64"):
        kernels = None  # the names are those of x86 processors: elsewhere this repeats the first case
    older = {"OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": FEATURES} if kernels else {}
    environment = {**os.environ, **older}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == GOLDEN.split()
