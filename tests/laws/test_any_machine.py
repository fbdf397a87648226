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
    "1cf230638b01a865aee1d93394f26f252d86955b57ff8734e2c1a92c9b868563 "
    "4390bfb48007ed59ea4d1c4098ad98f00651bb6dd0d201d7ea7faebc58d76c90 "
    "4fc72fff569c8f3082dbd185fe525486cdfca3e13c47fe96cf318093f1aceaf7 "
    "8a9e94f781529a0c0143182c54e62534c2e086c6c6e4f59e4fc112be729d2d94 "
    "5249c5f31b8e6a4e3f6334bcd325c18e54ab4c25edd51c34819572fb691818cb "
    "709ec731ce4a11f5bda038b380e6c7c957ed22d81b98caa3db161c72d7bb5eb4"
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
