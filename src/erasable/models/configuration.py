"""All that the caller fixed: which rows are kept, what is computed from them, and what is known of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from erasable.core.grid import Grid
from erasable.core.names import Label, check_feature_names, check_fixed_classes
from erasable.errors import ConfigurationError
from erasable.models.heads.base import Head
from erasable.models.order import check_order_key
from erasable.models.selections.base import Selection


@dataclass(frozen=True)
class Configuration:
    """The part of a state that does not depend on rows.

    Attributes
    ----------
    selection : Selection
        Which rows are kept, and how they are stored. Selections differ in their parameters, hence the loose type.
    head : Head
        What is computed from them.
    classes : tuple, optional
        Sorted; None if the classes are those of the core rows.
    feature_names : tuple of str, optional
        The names of the columns of the input.
    feature_map : str, optional
        The description, as canonical JSON, of the map that rows pass through first.
    order_key : int, optional
        The key of the hashes in whose order rows are decided; None if rows are decided in the given order.
    """

    selection: Any
    head: Any
    classes: tuple[Label, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    feature_map: str | None = None
    order_key: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.selection, Selection) and isinstance(self.head, Head)):
            raise ConfigurationError("a configuration needs a selection and a head.")
        check_fixed_classes(self.classes)
        check_order_key(self.order_key)
        if self.feature_names is not None:
            if self.feature_map is not None:
                raise ConfigurationError("a model behind a feature map has no names of columns.")
            check_feature_names(self.feature_names, self.selection.n_features)
        self.selection.check(self)
        self.head.check(self)

    @property
    def grid(self) -> Grid:
        """The grid of the stored rows, for selections that have one."""
        grid: Grid = self.selection.grid
        return grid

    @property
    def units(self) -> int:
        """The regulariser as a whole number of the selection's units."""
        units: int = self.selection.units
        return units
