"""How a configuration describes the feature map that rows pass through, and the map back from that description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from erasable.core.layout import canonical_json, read_json
from erasable.errors import ConfigurationError, StateFormatError
from erasable.features import AbsentMap, FeatureMap

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.schemas import Schema


def describe_map(feature_map: FeatureMap, n_features: int | None) -> str:
    """What the configuration says of a map, and of the rows that it takes: canonical JSON."""
    return canonical_json({"map": feature_map.describe(), "n_features": n_features})


def described_map(text: str) -> dict[str, Any]:
    """What :func:`describe_map` wrote.

    Raises
    ------
    StateFormatError
    """
    try:
        written = read_json(text)
        described, taken = written["map"], written["n_features"]
        counted = taken is None or (type(taken) is int and taken >= 1)
        if len(written) == 2 and isinstance(described, dict) and counted and canonical_json(written) == text:
            return dict(written)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass
    raise StateFormatError("not a state: the description of its feature map is damaged.")


def stored_map(configuration: Configuration) -> FeatureMap | None:
    """The map that a file describes: a schema, which it holds whole, or what stands for code that it cannot hold.

    Raises
    ------
    StateFormatError
    """
    if configuration.feature_map is None:
        return None
    schema = described_schema(configuration.feature_map)
    if schema is None:
        described = described_map(configuration.feature_map)["map"]
        return AbsentMap(canonical_json(described), configuration.selection.n_features)
    if schema.n_features_out != configuration.selection.n_features:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema


def described_schema(text: str) -> Schema | None:
    """The schema that :func:`describe_map` wrote, None where it wrote another map.

    Raises
    ------
    StateFormatError
    """
    described = described_map(text)["map"]
    if described.get("map") != "schema":
        return None
    from erasable.schemas import Schema  # only here: most models have none

    try:
        schema = Schema.parse(described.get("text"))
    except ConfigurationError:
        schema = None
    if schema is None or schema.describe() != described:
        raise StateFormatError("not a state: its schema is damaged.")
    return schema
