"""Pure numerics on arrays and frozen records: grid, sums, leverage, selector, weights, state."""
