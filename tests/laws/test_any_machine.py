"""The same rows give the same bytes with other kernels, on other processors, in other years."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
from sklearn.datasets import load_digits
from erasable import ErasableClassifier, verify
X, y = load_digits(return_X_y=True)
clf = ErasableClassifier(capacity=0.1, kappa=0.3).fit(X, y)
before = clf.state_digest()
clf.forget(ids=clf.core_ids_[::3])
verify(clf)
print(before, clf.state_digest())
"""

# What version 1 of the canonical bytes says of this program; a change here is a change of the format or of the rule.
GOLDEN = (
    "f6fef7bbc845a286b250a73684915ff10deea26e45ce5af519ffe494a09fef98 "
    "2ddc1f81b14c8b15aef53f119be62df8a7b2f9cde53a9c74cb748811bd8412a4"
)


@pytest.mark.parametrize("kernels", [None, "Prescott", "Nehalem"])
def test_the_digest_is_that_of_every_machine(kernels):
    """OpenBLAS can be told to use an older processor's kernels: another order of sums, no fused products."""
    if kernels is not None and platform.machine() not in ("x86_64", "AMD64"):
        kernels = None  # the names are those of x86 processors: elsewhere this repeats the first case
    environment = {**os.environ, **({"OPENBLAS_CORETYPE": kernels} if kernels else {})}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == GOLDEN
