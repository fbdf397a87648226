"""Research: the paper's bounds and experiments, the peers it compares with, and the sets it uses.

Nothing here is needed to learn, forget, verify or serve.
"""
