"""
Why plain float64 does not forget
=================================

Adding a row to a sum and taking it away again does not give the sum from before: rounding leaves the last bits
changed. Somebody who holds the sums can recognise the row that was deleted. Sums of rows on a grid are exact, so
nothing is left.
"""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 16))
X /= np.linalg.norm(X, axis=1, keepdims=True)
gone = X[123]

# %%
# Sums of products of the rows: with the row added and subtracted again, and without it from the start.


def sums(rows):
    """Sum of the outer products of rows, one after the other."""
    total = np.zeros((16, 16))
    for row in rows:
        total += np.outer(row, row)
    return total


others = np.delete(X, 123, axis=0)
plain = sums(X) - np.outer(gone, gone) - sums(others)

grid = np.rint(X * 2**15)  # integers: float64 holds their sums without rounding
exact = sums(grid) - np.outer(grid[123], grid[123]) - sums(np.delete(grid, 123, axis=0))

# %%
# What is left of the row after it was deleted.

figure, panels = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
for axes, difference, title in zip(panels, (plain, exact), ("float64", "rows on a grid"), strict=True):
    image = axes.imshow(difference, cmap="RdBu", vmin=-1e-14, vmax=1e-14)
    axes.set_title(f"{title}: {np.count_nonzero(difference)} of 256 entries differ")
    axes.set(xticks=[], yticks=[])
figure.colorbar(image, ax=panels, label="sum after deletion - sum without the row")
assert np.count_nonzero(plain) > 0
assert np.count_nonzero(exact) == 0
plt.show()
