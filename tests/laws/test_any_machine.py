"""The same rows give the same bytes with other kernels, on other processors, in other years."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
from sklearn.datasets import load_digits
from erasable import ErasableClassifier, ErasableKernelClassifier, verify
X, y = load_digits(return_X_y=True)
for clf in (
    ErasableClassifier(capacity=0.1, kappa=0.3),
    ErasableKernelClassifier("rbf", gamma=1.0, scaling=60.0),
    ErasableKernelClassifier("matern", gamma=2.0, scaling=60.0, capacity=0.2),
):
    clf.fit(X, y)
    before = clf.state_digest()
    clf.forget(ids=clf.core_ids_[::3])
    verify(clf)
    print(before, clf.state_digest())
"""

# What version 1 of the canonical bytes says of this program; a change here is a change of the format or of the rule.
GOLDEN = (
    "e93d2ebdf7d5896746ac89c128a6d0122f4cfe48585b1c1011ed987e9d1a1f9d "
    "47db9e5da133764fede8606f80a96574733ebd0b36bb94200b2236df30661e20 "
    "3cd51ee2bb6254214f22df326cbe625e69963ad5d9efc45c1af319989b341057 "
    "948463a0162be491271ff21dc74ec5e95c5d64acd7e1cac2bdbe69dc7fb8f627 "
    "2655fc1d5048e01286972c26ff48ba021cbe2e53fb88708e57d66af79fce9aed "
    "61341e807e0e2bbe4553d07c150c820c8f21613451f4745b0ce756cb8a47a724"
)


@pytest.mark.parametrize("kernels", [None, "Prescott", "Nehalem"])
def test_the_digest_is_that_of_every_machine(kernels):
    """OpenBLAS can be told to use an older processor's kernels: another order of sums, no fused products.

    So can NumPy: another exponential, right to other last bits.
    """
    if kernels is not None and platform.machine() not in ("x86_64", "AMD64"):
        kernels = None  # the names are those of x86 processors: elsewhere this repeats the first case
    older = {"OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX2 FMA3"} if kernels else {}
    environment = {**os.environ, **older}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == GOLDEN.split()
