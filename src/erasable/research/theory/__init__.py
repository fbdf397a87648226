"""The paper's bounds as functions: each returns a number, whether it says anything, its source and its assumptions.

``linear`` has those of Algorithm 1, ``deletions`` how many deletions a capacity survives, ``general`` those of
Algorithm 2, and ``information`` what a core set tells about deleted rows. ``printed_...`` are the paper's own formulas.
"""
