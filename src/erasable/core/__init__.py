"""Pure numerics on arrays and frozen records; no files, clock, logger, randomness or scikit-learn.

``arrays`` and ``scaling`` name and check what all share; ``grid``, ``sums``, ``leverage``, ``selector``, ``weights``
and ``linear_selection`` are Algorithm 1; ``kernels`` and ``kernel_selector`` the same with a kernel; ``function_class``
is what any other class of functions has to offer. ``solve`` solves exactly, ``keyed_hash`` draws by id, ``layout`` is
how states become bytes.
"""
