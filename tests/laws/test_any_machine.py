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
    "f6fef7bbc845a286b250a73684915ff10deea26e45ce5af519ffe494a09fef98 "
    "2ddc1f81b14c8b15aef53f119be62df8a7b2f9cde53a9c74cb748811bd8412a4 "
    "f66d83280349feb952a2a9aded7cadb5ae520485974e186fffe734fe8eb40483 "
    "a9246c473d107a889ef1e75b64b083936dbca8b32372086f56b66682cef15794 "
    "23be9ef848c89e3cc70c5752e694f53803d379e5d642f1d1c496d03192287a6e "
    "3d298edfa25da1fd71ed3dc425e33df3a067a0227e6c16101fa35f71286d1e87"
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
