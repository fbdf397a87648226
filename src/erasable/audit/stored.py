"""Everything that an estimator stores, component by component, as fingerprints that are equal if all bits are.

Names of components are names of tensors and attributes; fingerprints are hashes. Neither shows a value, a label or an
id, so messages may show both.
"""

from __future__ import annotations

from erasable.core.fingerprint import attributes_of, fingerprint
from erasable.models.state import State


def stored_components(estimator: object) -> dict[str, str]:
    """Return a fingerprint of each component that an estimator stores, by name.

    An estimator with a method ``audit_state()`` states what it stores: a mapping from names to values of any kind. For
    a model of this package these are each field of the header and each tensor of its canonical bytes, and all other
    attributes. For any other they are its attributes, as a pickle would hold them. docs/definitions.md lists what is
    not compared.
    """
    said = getattr(estimator, "audit_state", None)
    if callable(said):
        return {name: fingerprint(value) for name, value in dict(said()).items()}
    attributes = attributes_of(estimator)
    found: dict[str, str] = {}
    state = state_of(estimator)
    if state is not None:
        found = {f"header {field}": fingerprint(value) for field, value in state.header().items()}
        for name, (kind, array) in {**state.derived_tensors(), **state.named_rows()}.items():
            found[name] = fingerprint((kind, array))
        held = attributes.get("_model")
        parts = held if isinstance(held, tuple) else (held,)
        attributes["_model"] = [part for part in parts if not isinstance(part, bytes)]  # bytes are the tensors again
    return {**found, **{name: fingerprint(value) for name, value in attributes.items()}}


def state_of(estimator: object) -> State | None:
    """Return the canonical state of a fitted model of this package, else None."""
    snapshot = getattr(getattr(estimator, "model_", None), "snapshot", None)
    state = snapshot() if callable(snapshot) else None
    return state if isinstance(state, State) else None
