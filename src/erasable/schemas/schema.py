"""A public schema: for each column of a table its kind and its parameters, and the encoding that follows from them.

The encoding of a row is a function of that row and the schema. Nothing is fitted, so nothing has to be forgotten.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, MatrixLike
from erasable.core.names import Spelling, is_unicode, read_spelling
from erasable.core.target_grid import check_range
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features import TABLES, FeatureMap
from erasable.pages import count, facts
from erasable.schemas.cells import VERSION, Kind, canonical_text, folded, label_in, missing_texts, read_numbers
from erasable.schemas.columns import MOST_PLACES, Category, Column, Number, Ordered, YesNo
from erasable.schemas.crosses import Cross
from erasable.schemas.dates import Date, Time
from erasable.schemas.encode import ONE, EncodedTable, EncodingReport, Features, for_each_row, join_features
from erasable.schemas.reading import Columns
from erasable.schemas.selection import read_moments, read_shares, shortest
from erasable.schemas.texts import Text, Vector
from erasable.schemas.toml_text import toml_comment, toml_key, toml_table
from erasable.store import write_text
from erasable.validation import choice, finite_number, number_between

KINDS: dict[str, type[Column]] = {k.KIND: k for k in (Number, Category, Ordered, YesNo, Date, Time, Text, Vector)}
ROLES = ("label", "target", "id", "subject", "weight", "ignore")
MISSING_SPELLINGS = ("", "#n/a", "<na>", "?", "n/a", "na", "nan", "nat", "none", "null")
_ONCE = ("label", "id", "weight")  # roles that only one column may have
_LARGEST_FILE = 2**24


@dataclass(frozen=True, kw_only=True)
class Role:
    """A column that is no feature.

    Parameters
    ----------
    name : str
    role : "label", "target", "id", "subject", "weight" or "ignore"
        There may be several subjects, as a row may belong to several people, and several targets.
    classes : list, optional
        For a label: all of them, as canonical texts.
    range : pair of numbers, optional
        For a target: its bounds. In tables that are learnt, targets beyond are clipped, and counted.
    version : int, default=2
        The version of the schema, which all of its columns share.
    """

    name: str
    role: str
    classes: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    version: int = field(default=VERSION, metadata={"unwritten": True})

    def __post_init__(self) -> None:
        choice(self.role, f"column {self.name!r}: role", ROLES)
        if self.range is not None:
            object.__setattr__(self, "range", self._checked_range())
        if self.classes is not None:
            object.__setattr__(self, "classes", self._checked_classes())

    def _checked_range(self) -> tuple[float, float]:
        where, given = f"column {self.name!r}", self.range
        if self.role != "target":
            raise ConfigurationError(f"{where}: a role has a range where it is that of a target.")
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise ConfigurationError(f"{where}: range must be two numbers, [low, high].")
        low, high = (finite_number(end, f"{where}: range") + 0.0 for end in given)
        try:
            check_range((low, high))
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
        return low, high

    def _checked_classes(self) -> tuple[str, ...]:
        where, given = f"column {self.name!r}", self.classes
        if self.role != "label":
            raise ConfigurationError(f"{where}: classes are for a label.")
        if not isinstance(given, list | tuple) or not all(isinstance(c, str | int | float) for c in given):
            raise ConfigurationError(f"{where}: classes must be a list of texts, numbers or truths.")
        classes = tuple(canonical_text(c, self.version) for c in given)
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise ConfigurationError(f"{where}: classes must list two or more, each once.")
        return classes

    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from the default."""
        given = {"classes": self.classes, "range": self.range}
        return {"role": self.role, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, eq=False, repr=False)
class Schema(FeatureMap):
    """The kinds and public parameters of the columns of a table.

    Parameters
    ----------
    columns : sequence of columns
        Features in this order, and roles.
    crosses : sequence of Cross, optional
    missing : sequence of str, optional
        Spellings of a missing cell, in addition to the missing values of containers. Spaces around them and ASCII
        capitals do not matter.
    identity : mapping of "id" and "subject" to steps, optional
        How ids and subjects are normalised when rows are learnt and forgotten, so that several spellings are one name:
        any of ``trim``, ``nfc`` and ``casefold``. By default they are compared character by character.
    moments : mapping from names of columns and crosses to exponents, optional
        For independent selection: public second moments of the features as row scaling leaves them, as exponents of
        two; one exponent for all features of a column, or one for each. A column without any has the smallest of all.
    class_shares : mapping from classes to shares, optional
        For independent selection with ``balance``: the public share of each class.
    rate : float, optional
        For independent selection: about the share of all rows to store. None of these three changes the encoding, so
        schemas that differ in them alone are equal.
    keeps_raw : bool, default=False
        Keep the raw numbers of cells with encoded rows, for models with a learner. It is no part of the schema's text.

    Attributes
    ----------
    bound : float
        The largest norm that an encoded row can have: for ``scaling=schema.bound``.
    n_features_out : int
    sparse : bool
        Whether encoded rows are sparse: there are more than four times as many features as a row often has numbers.

    Notes
    -----
    *Law*: bitwise. Encoding row by row is encoding the table, in any container, in blocks of any size, on any machine.
    Encoded numbers are multiples of ``2**-20``, which float32 holds.

    Examples
    --------
    >>> from erasable.schemas import Schema
    >>> schema = Schema.parse('''
    ... version = 2
    ... [columns.age]
    ... kind = "number"
    ... range = [0, 100]
    ... [columns.town]
    ... kind = "category"
    ... values = ["Bern", "Oslo"]
    ... indicator = false
    ... ''')
    >>> rows, report = schema.encode({"age": [50, 75, None], "town": ["Oslo", "Rome", "Bern"]})
    >>> schema.feature_names_out()
    ['age', 'age=(missing)', 'town=Bern', 'town=Oslo', 'town=(others)']
    >>> rows.tolist()
    [[0.0, 0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0, 0.0]]
    >>> print(report)
    3 rows
    age: 1 missing
    town: 1 unknown
    """

    columns: tuple[Column | Role, ...]
    crosses: tuple[Cross, ...] = ()
    missing: tuple[str, ...] = MISSING_SPELLINGS
    identity: Spelling = field(default_factory=dict)
    moments: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    class_shares: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None
    keeps_raw: bool = field(default=False, kw_only=True)
    n_features_out: int = field(init=False, default=0)
    takes = TABLES

    def __post_init__(self) -> None:
        for name in ("columns", "crosses"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        missing: Any = self.missing
        if isinstance(missing, str) or not all(isinstance(m, str) for m in missing):
            raise ConfigurationError("missing must be a list of texts.")
        object.__setattr__(self, "missing", tuple(sorted({folded(m) for m in self.missing})))
        object.__setattr__(self, "identity", read_spelling(self.identity, "identity in the schema"))
        self._check_columns()
        if len(set(self.crosses)) < len(self.crosses):
            raise ConfigurationError("the schema has a cross twice: keep one of each.")
        for cross in self.crosses:
            cross.check(self.by_name)
        width = sum(self.widths)
        if width > MOST_PLACES:
            raise ConfigurationError(f"the schema makes {width:,} features, and at most {MOST_PLACES:,} are allowed.")
        object.__setattr__(self, "n_features_out", width)
        self._check_selection()
        if not is_unicode(self.text):
            raise ConfigurationError("the names and values of a schema must be valid Unicode, without lone surrogates.")

    def _check_columns(self) -> None:
        names: list[Any] = [c.name for c in self.columns]
        if not all(isinstance(n, str) for n in names):
            raise ConfigurationError("the names of columns must be texts.")
        if len(set(names)) < len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ConfigurationError(f"the schema has several columns {', '.join(map(repr, twice))}: keep one of each.")
        if len({c.version for c in self.columns}) > 1:
            raise ConfigurationError("all columns of a schema must have one version: leave version= out.")
        if not self.features:
            raise ConfigurationError("the schema has no feature: at least one column needs a kind.")
        for role in _ONCE:
            found = self.names_of(role)
            if len(found) > 1:
                raise ConfigurationError(f"{len(found)} columns have the role {role!r}: {', '.join(map(repr, found))}.")
        if self.names_of("label") and self.names_of("target"):
            raise ConfigurationError("the schema has both a label and a target: keep one of them.")
        for column in self.features:
            listed = [*(getattr(column, "values", None) or ()), *getattr(column, "levels", ())]
            if any(folded(v) in self.missing_texts for v in listed):
                raise ConfigurationError(
                    f"{column.where}: a value that it lists is a spelling of missing: take it from the list, or from "
                    "missing = [...] at the head of the schema."
                )

    def _check_selection(self) -> None:
        names = [*(c.name for c in self.features), *(c.name for c in self.crosses)]
        object.__setattr__(self, "moments", read_moments(self.moments, list(zip(names, self.widths, strict=True))))
        classes = next((c.classes for c in self.columns if isinstance(c, Role) and c.role == "label"), None)
        object.__setattr__(self, "class_shares", read_shares(self.class_shares, classes, self.version))
        if self.class_shares and self.names_of("target"):
            raise ConfigurationError("class_shares are for a label, and the schema has a target: leave them out.")
        if self.rate is not None:
            where = "rate in [selection]"
            object.__setattr__(self, "rate", number_between(self.rate, where, 0.0, 1.0, closed="high"))

    def __repr__(self) -> str:
        return f"Schema({len(self.features)} columns, {self.n_features_out} features)"

    def _repr_html_(self) -> str:
        widths = dict(zip([*self.features, *self.crosses], self.widths, strict=True))
        shown: list[tuple[str, object]] = [(c.role, c.name) for c in self.columns if isinstance(c, Role)]
        shown += [(c.name, f"{c.KIND}: {count(widths[c], 'feature')}") for c in self.features]
        shown += [(c.name, f"cross: {count(widths[c], 'feature')}") for c in self.crosses]
        return facts(repr(self), shown)

    # -- reading and writing -----------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The schema in a file.

        Parameters
        ----------
        path : path
            A TOML file in UTF-8.

        Raises
        ------
        ConfigurationError
            As :meth:`parse`; also where the file cannot be read.
        """
        file = Path(path)
        if not file.exists():
            raise ConfigurationError(f"{file} does not exist: check the path; `erasable schema` drafts a schema.")
        try:
            if file.stat().st_size > _LARGEST_FILE:
                raise ConfigurationError(f"{file.name} has more than {_LARGEST_FILE:,} bytes: it is no schema.")
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            kind = type(error).__name__
        else:
            return cls.parse(text, name=file.name)
        raise ConfigurationError(f"{file.name} cannot be read as a schema ({kind}): give a TOML file in UTF-8.")

    @classmethod
    def parse(cls, text: str, *, name: str = "the schema") -> Self:
        """The schema that a TOML text describes.

        Parameters
        ----------
        text : str
        name : str, default="the schema"
            What messages call it.

        Raises
        ------
        ConfigurationError
            When it is no TOML, has an unknown version, kind, role or parameter, or a parameter cannot work. Also where
            it has more than 16 MiB, an integer of thousands of digits, or hundreds of nested brackets.
        """
        if not isinstance(text, str):
            raise ConfigurationError(f"{name} must be a text in TOML; got {type(text).__name__}.")
        if len(text) > _LARGEST_FILE:
            raise ConfigurationError(f"{name} has more than {_LARGEST_FILE:,} characters: it is no schema.")
        return cls._parse(str(text), name)

    @classmethod
    @lru_cache(maxsize=4)  # a model file is often opened more than once, and schemas do not change
    def _parse(cls, text: str, name: str) -> Self:
        try:
            given = tomllib.loads(text.removeprefix("\ufeff"))
        except tomllib.TOMLDecodeError as error:
            problem = str(error)
        except ValueError:
            problem = "an integer has too many digits"
        except RecursionError:
            problem = "brackets within brackets are too deep"
        else:
            version = _read_version(given.pop("version", None), name)
            _refuse_unknown(given, ("missing", "identity", "selection", "columns", "crosses"), name)
            columns, crosses = given.get("columns", {}), given.get("crosses", [])
            selection = given.get("selection", {})
            missing = given.get("missing", MISSING_SPELLINGS)
            if not isinstance(columns, dict) or not isinstance(crosses, list) or not isinstance(missing, list | tuple):
                raise ConfigurationError(
                    f"{name} must have tables [columns.NAME], a list missing, and tables [[crosses]]."
                )
            if not isinstance(selection, dict):
                raise ConfigurationError(f"{name}: selection must be a table, [selection.moments] for example.")
            _refuse_unknown(selection, ("rate", "moments", "class_shares"), f"{name}: selection")
            return cls(
                tuple(_read_column(n, column, version) for n, column in columns.items()),
                tuple(_read_record(Cross, cross, "a cross") for cross in crosses),
                tuple(missing),
                given.get("identity", {}),
                **selection,
            )
        raise ConfigurationError(f"{name} is no valid TOML: {problem}.")

    @cached_property
    def text(self) -> str:
        """The canonical TOML text, with what the schema states for independent selection."""
        return "\n\n".join([*self._encoding_tables.values(), *self._selection_tables]) + "\n"

    @cached_property
    def encoding_text(self) -> str:
        """The canonical text of the encoding alone, which a state holds: two schemas are equal if theirs are."""
        return "\n\n".join(self._encoding_tables.values()) + "\n"

    @cached_property
    def _encoding_tables(self) -> dict[tuple[str, int], str]:
        """The tables of the canonical text, by what they are of: a column, a cross, or neither."""
        head: dict[str, Any] = {"version": self.version}
        if self.missing != MISSING_SPELLINGS:
            head["missing"] = self.missing
        parts = {("head", 0): toml_table("", head).lstrip()}
        if self.identity:
            parts["identity", 0] = toml_table("[identity]", self.identity)
        for j, column in enumerate(self.columns):
            kind = {"kind": column.KIND} if isinstance(column, Column) else {}
            parts["column", j] = toml_table(f"[columns.{toml_key(column.name)}]", {**kind, **column.parameters()})
        parts.update({("cross", j): cross.toml for j, cross in enumerate(self.crosses)})
        return parts

    @property
    def _selection_tables(self) -> list[str]:
        parts = []
        if self.rate is not None:
            parts.append(toml_table("[selection]", {"rate": self.rate}))
        if self.moments:
            exponents = {name: shortest(found) for name, found in self.moments.items()}  # type: ignore[arg-type]
            parts.append(toml_table("[selection.moments]", exponents))
        if self.class_shares:
            parts.append(toml_table("[selection.class_shares]", self.class_shares))
        return parts

    def commented_text(self, head: str = "", notes: Mapping[str, str] | None = None, after: str = "") -> str:
        """The canonical text with comments, for a file.

        Parameters
        ----------
        head : str, optional
            For the head of the file.
        notes : mapping from names of columns and crosses to comments, optional
            To stand above their tables.
        after : str, optional
            To stand below the columns and crosses; its lines are comments as they are.
        """
        parts, notes = [toml_comment(head)] if head else [], notes or {}
        named: dict[str, Sequence[Any]] = {"column": self.columns, "cross": self.crosses}
        for (what, j), table in self._encoding_tables.items():
            note = notes.get(named[what][j].name, "") if what in named else ""
            parts.append(f"{toml_comment(note)}{table}\n")
        parts += ["".join(f"# {line}".rstrip() + "\n" for line in after.splitlines())] if after else []
        return "\n".join([*parts, *(f"{table}\n" for table in self._selection_tables)])

    def save(
        self, path: str | os.PathLike[str], *, head: str = "", notes: Mapping[str, str] | None = None, after: str = ""
    ) -> None:
        """Write the canonical text to a file, with the comments of :meth:`commented_text`: all of it, or nothing.

        Half of a schema may be a valid schema of another model. An existing file keeps its permissions; a pipe or
        device is written to directly.

        Parameters
        ----------
        path : path
        head, after : str, optional
            Comments before and after the schema.
        notes : mapping from names of columns to comments, optional
        """
        write_text(path, self.commented_text(head, notes, after))

    def describe(self) -> dict[str, Any]:
        """The canonical text of the encoding, ready for JSON."""
        return {"map": "schema", "text": self.encoding_text}

    # -- columns and features ----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the rules by which cells are read."""
        return self.columns[0].version

    @cached_property
    def missing_texts(self) -> frozenset[str]:
        """The spellings of missing cells with their canonical texts."""
        return missing_texts(self.missing, self.version)

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(c for c in self.columns if isinstance(c, Column))

    @cached_property
    def by_name(self) -> Mapping[str, Column | Role]:
        """The columns by name."""
        return {c.name: c for c in self.columns}

    def names_of(self, role: str) -> tuple[str, ...]:
        """The names of the columns that have a role.

        Parameters
        ----------
        role : "label", "target", "id", "subject", "weight" or "ignore"
        """
        return tuple(c.name for c in self.columns if isinstance(c, Role) and c.role == role)

    @property
    def target_range(self) -> tuple[tuple[float, float], ...] | None:
        """The range of each target, for ``ErasableRegressor``; None if there are no targets, or some have no range."""
        ranges = [c.range for c in self.columns if isinstance(c, Role) and c.role == "target"]
        return tuple(r for r in ranges if r is not None) if ranges and None not in ranges else None

    @property
    def second_moments(self) -> Float64s | None:
        """The public second moment of each feature, for independent selection; None if the schema states none."""
        exponents = [e for found in self.moments.values() for e in found]  # type: ignore[union-attr]
        return np.ldexp(1.0, exponents) if exponents else None

    def shares_of(self, classes: Sequence[Any] | None, kind: type = str) -> dict[Any, float] | None:
        """The stated share of each class; None if none are stated.

        A class is spelt as the fixed class whose canonical text it is, or else as the label of this type that has the
        text. *Law*: no row plays a part, so that forgetting rows leaves no spelling of theirs.
        """
        spelt = {canonical_text(c, self.version): c for c in classes or () if not isinstance(c, bytes)}
        kind = type(classes[0]) if classes else kind
        return {spelt.get(t, label_in(t, kind)): share for t, share in self.class_shares.items()} or None

    @cached_property
    def widths(self) -> list[int]:
        """The number of features of each column, and then of each cross."""
        return [*(c.width for c in self.features), *(c.width(self.by_name) for c in self.crosses)]

    def feature_names_out(self) -> list[str]:
        """The names of the features."""
        crossed = (c.names(self.by_name) for c in self.crosses)
        return [n for part in (*(c.feature_names() for c in self.features), *crossed) for n in part]

    @cached_property
    def bound(self) -> float:
        """The largest norm that a row can have, rounded up to a multiple of 1/1024."""
        square = sum(c.square for c in self.features) + ONE * len(self.crosses)
        return (math.isqrt(square - 1) // 2**10 + 1) / 2**10

    @cached_property
    def sparse(self) -> bool:
        """Whether encoded rows are sparse."""
        return self.n_features_out > 4 * (sum(c.most for c in self.features) + len(self.crosses))

    # -- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, table: Any) -> tuple[Any, EncodingReport]:
        """Rows of features, and what became of the cells.

        Parameters
        ----------
        table : Arrow table, pandas or polars dataframe, or dict of columns
            With every column that becomes features; those with roles may be absent, and others are ignored.

        Returns
        -------
        rows : float32 array of shape (n, n_features_out), or csr_array where the schema is ``sparse``
        report : EncodingReport

        Raises
        ------
        InputError, InputTypeError
            When columns are missing, or hold cells that their kind cannot be read from.
        """
        rows, report = self.encode_sparse(table)
        return (rows if self.sparse else rows.toarray()), report

    def encode_sparse(self, table: Any) -> tuple[Any, EncodingReport]:
        """:meth:`encode`, with the rows as a csr_array in any case.

        Parameters
        ----------
        table : Arrow table, pandas or polars dataframe, or dict of columns
        """
        found = self.encoded(table)
        assert found.report is not None
        return found.rows, found.report

    def encoded(self, table: Any) -> EncodedTable:
        """The rows of a table with the report, and with raw numbers if the schema keeps them."""
        columns = Columns(table, self.version)
        absent = [c.name for c in self.features if c.name not in columns.names]
        if absent:
            shown = ", ".join(map(repr, absent[:10])) + (f" and {len(absent) - 10} more" if len(absent) > 10 else "")
            raise InputError(f"the table lacks {len(absent)} of {len(self.features)} columns of the schema: {shown}.")
        counts: dict[str, dict[str, int]] = {}
        parts: list[tuple[Features, Array | None]] = []
        raw: list[Float64s] = []
        for column in self.features:
            cells = columns[column.name]
            cells = cells.distinct() if column.n_codes is not None else cells
            values, flags = column.read(cells, self.missing_texts)
            if self.keeps_raw:
                raw.append(for_each_row(column.to_raw(values), cells.inverse))
            features = column.features_of(values, flags)
            counts[column.name] = features.counts(cells.inverse)
            parts.append((features, cells.inverse))
        extra = tuple(n for n in columns.names if n not in self.by_name)
        report = EncodingReport(columns.n_rows, counts, extra)
        rows = self._joined(columns.n_rows, parts)
        return EncodedTable(self, rows, report, np.concatenate(raw, axis=1) if raw else None)

    def _joined(self, n_rows: int, columns: Sequence[tuple[Features, Array | None]]) -> Any:
        """The features of all columns, each with its inverse, and of the crosses, as a csr_array."""
        crossed = {name for cross in self.crosses for name in cross.columns}
        codes = {
            column.name: for_each_row(features.codes, inverse)
            for column, (features, inverse) in zip(self.features, columns, strict=True)
            if column.name in crossed
        }
        parts = [(*part, column.width) for column, part in zip(self.features, columns, strict=True)]
        for cross in self.crosses:
            left, right = (codes[name] for name in cross.columns)
            places = cross.places(left, right, self.by_name)
            parts.append((Features([(places, None)]), None, cross.width(self.by_name)))
        return join_features(n_rows, parts)

    # -- raw numbers ---------------------------------------------------------------------------------------------------

    @cached_property
    def keeping_raw(self) -> Schema:
        """The same schema, which keeps the raw numbers of cells with encoded rows."""
        return self if self.keeps_raw else replace(self, keeps_raw=True)

    @cached_property
    def raw_names(self) -> tuple[str, ...]:
        """The names of the raw numbers of a row."""
        return tuple(name for column in self.features for name in column.raw_names())

    @cached_property
    def raw_codes(self) -> tuple[int | None, ...]:
        """For each raw number how many codes it may be, if it is the code of a category; otherwise None."""
        return tuple(column.raw_codes for column in self.features for _ in column.raw_names())

    def encode_raw(self, raw: Float64s) -> Any:
        """Encoded rows of raw numbers, as a csr_array.

        *Law*: of the raw numbers of a table they are the encoded rows of the table.
        """
        parts = [(column.raw_features(part), None) for column, part in self._raw_parts(raw)]
        return self._joined(len(raw), parts)

    def raw_fits(self, raw: Float64s) -> Booleans:
        """Which rows of raw numbers a table can have."""
        fits = np.ones(len(raw), dtype=bool)
        for column, part in self._raw_parts(raw):
            fits &= column.raw_fits(part)
        return fits

    def _raw_parts(self, raw: Float64s) -> Iterator[tuple[Column, Float64s]]:
        first = 0
        for column in self.features:
            last = first + len(column.raw_names())
            yield column, raw[:, first:last]
            first = last

    def read_targets(self, table: Any, names: Sequence[str]) -> tuple[Float64s, dict[str, int]]:
        """Numbers to be predicted, of shape (n_rows, n_targets), and for each column how many lie beyond its range.

        A cell that is missing, infinite or no number becomes NaN.

        Parameters
        ----------
        table : Arrow table, pandas or polars dataframe, or dict of columns
        names : sequence of str
            The columns; their ranges are those of the schema, where it declares any.

        Raises
        ------
        InputTypeError
            When a column holds something else than numbers or text.
        """
        columns = Columns(table, self.version)
        y, beyond = np.empty((columns.n_rows, len(names))), dict[str, int]()
        for j, name in enumerate(names):
            cells = columns[name]
            if not cells.kinds <= {Kind.TEXT, Kind.NUMBER, Kind.DECIMAL}:
                raise InputTypeError(f"column {name!r} holds {cells.kind}, and a target must hold numbers.")
            y[:, j] = for_each_row(read_numbers(cells, self.missing_texts, self.version)[0], cells.inverse)
            ends = getattr(self.by_name.get(name), "range", None)
            beyond[name] = 0 if ends is None else int(np.count_nonzero((y[:, j] < ends[0]) | (y[:, j] > ends[1])))
        return np.where(np.isfinite(y), y, np.nan), beyond

    def __call__(self, X: MatrixLike) -> Any:
        """Encoded rows, of a table or of an :class:`EncodedTable`."""
        if not isinstance(X, EncodedTable):
            return self.encode(X)[0]
        if X.schema is not self and X.schema != self:
            raise InputTypeError("these rows were encoded by another schema: encode the table again.")
        return X.rows

    def prepared(self, X: MatrixLike) -> EncodedTable:
        """The table encoded once, so that rows can be taken from it."""
        return X if isinstance(X, EncodedTable) else self.encoded(X)


# -- schema files ------------------------------------------------------------------------------------------------------


def _read_version(given: Any, name: str) -> int:
    if type(given) is int and 1 <= given <= VERSION:
        return given
    if type(given) is int and given > VERSION:
        found, advice = f"version = {str(given)[:20]}", "install a newer erasable"
    else:
        what = "below 1" if type(given) is int else "no integer"
        found = "no version" if given is None else f"a version that is {what}"
        advice = f"its first line must be version = {VERSION}, without quotes"
    raise ConfigurationError(f"{name} has {found}, and this erasable reads versions 1 to {VERSION}: {advice}.")


def _read_column(name: str, given: Any, version: int) -> Column | Role:
    where, own = f"column {name!r}", {"name": name, "version": version}
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} must be a table, [columns.{toml_key(name)}].")
    if "role" in given and "kind" in given:
        raise ConfigurationError(f"{where} has a role and a kind: a column with a role is no feature; leave one out.")
    column: Column | Role
    if "role" in given:
        column = _read_record(Role, given, where, **own)
        return column
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigurationError(f"{where} needs a role, or a kind: {', '.join(KINDS)}.")
    column = _read_record(KINDS[kind], {k: v for k, v in given.items() if k != "kind"}, f"{where}, {kind}", **own)
    return column


def _read_record(kind: Any, given: Any, where: str, **own: Any) -> Any:
    """A record whose fields are the parameters that a table of the file gives."""
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} must be a table.")
    _refuse_unknown(given, [f.name for f in fields(kind) if f.name not in own], where)
    lacking = [f.name for f in fields(kind) if f.default is MISSING and f.name not in (*given, *own)]
    if lacking:
        raise ConfigurationError(f"{where} needs {', '.join(lacking)}.")
    return kind(**given, **own)


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise ConfigurationError(f"{where} has no parameter {name!r}: known are {', '.join(known)}.")
