"""A public schema: for each column of a table its kind and its parameters, and the encoding that follows from them.

The encoding of a row is a function of that row and the schema. Nothing is fitted, so nothing has to be forgotten.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import scipy.sparse as sp

from erasable.core.arrays import Array
from erasable.core.names import Spelling, is_unicode, read_spelling
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features import TABLES, FeatureMap
from erasable.schemas import _toml
from erasable.schemas._assembly import Parts, counted, spread
from erasable.schemas._base import ONE, Block, Column
from erasable.schemas._cells import ONE_EACH, VERSION, missing_texts, spelling
from erasable.schemas._containers import Columns
from erasable.schemas._moments import Date, Time
from erasable.schemas._number import Number
from erasable.schemas._others import Cross, Role, check_roles
from erasable.schemas._placed import MOST_PLACES, Category, Ordered, YesNo
from erasable.schemas._reports import EncodingReport
from erasable.schemas._texts import Text, Vector
from erasable.store import write_text

KINDS: dict[str, type[Column]] = {k.KIND: k for k in (Number, Category, Ordered, YesNo, Date, Time, Text, Vector)}
MISSING_SPELLINGS = ("", "#n/a", "<na>", "?", "n/a", "na", "nan", "nat", "none", "null")
_LARGEST_FILE = 2**24


@dataclass(frozen=True, eq=False, repr=False)
class Schema(FeatureMap):
    """The kinds and public parameters of the columns of a table.

    Parameters
    ----------
    columns : sequence of columns
        Features in this order, and roles.
    crosses : sequence of Cross, optional
    missing : sequence of str, optional
        Spellings of a missing cell, beside those that containers have for it. Spaces around them and the capitals of
        ASCII do not matter.
    identity : mapping of "id" and "subject" to steps, optional
        How ids and subjects are normalised when rows are learnt and forgotten, so that several spellings are one name:
        any of ``trim``, ``nfc`` and ``casefold``. By default they are compared character by character.

    Attributes
    ----------
    bound : float
        No encoded row has a larger norm: for ``scaling=schema.bound``.
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
    n_features_out: int = field(init=False, default=0)
    takes = TABLES

    def __post_init__(self) -> None:
        for name in ("columns", "crosses"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        missing: Any = self.missing
        if isinstance(missing, str) or not all(isinstance(m, str) for m in missing):
            raise ConfigurationError("missing must be a list of texts.")
        object.__setattr__(self, "missing", tuple(sorted({spelling(m) for m in self.missing})))
        object.__setattr__(self, "identity", read_spelling(self.identity, "identity in the schema"))
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
        check_roles(self.by_name)
        if len(set(self.crosses)) < len(self.crosses):
            raise ConfigurationError("the schema has a cross twice: keep one of each.")
        for cross in self.crosses:
            cross.check(self.by_name)
        for column in self.features:
            self._check_never_missing(column)
        width = sum(self.widths)
        if width > MOST_PLACES:
            raise ConfigurationError(f"the schema makes {width:,} features, and at most {MOST_PLACES:,} are allowed.")
        object.__setattr__(self, "n_features_out", width)
        if not is_unicode(self.text):
            raise ConfigurationError("the names and values of a schema must be valid Unicode, without lone surrogates.")

    def __repr__(self) -> str:
        return f"Schema({len(self.features)} columns, {self.n_features_out} features)"

    def _check_never_missing(self, column: Column) -> None:
        listed = [*(getattr(column, "values", None) or ()), *getattr(column, "levels", ())]
        if any(spelling(v) in self.missing_texts for v in listed):
            raise ConfigurationError(
                f"{column.where}: a value that it lists is a spelling of missing: take it from the list, or from "
                "missing = [...] at the head of the schema."
            )

    # -- reading and writing -----------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The schema in a file.

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
        """The schema that a TOML text describes; ``name`` is what messages call it.

        Raises
        ------
        ConfigurationError
            When it is no TOML, of a version that is not known here, or names what cannot be. Also where it has more
            than 16 MiB, an integer of thousands of digits, or hundreds of brackets within each other.
        """
        if not isinstance(text, str):
            raise ConfigurationError(f"{name} must be a text in TOML; got {type(text).__name__}.")
        if len(text) > _LARGEST_FILE:
            raise ConfigurationError(f"{name} has more than {_LARGEST_FILE:,} characters: it is no schema.")
        return cls._parsed(str(text), name)

    @classmethod
    @lru_cache(maxsize=4)  # a model file is often opened more than once, and schemas do not change
    def _parsed(cls, text: str, name: str) -> Self:
        try:
            written = tomllib.loads(text.removeprefix("\ufeff"))
        except tomllib.TOMLDecodeError as error:
            problem = str(error)
        except ValueError:
            problem = "an integer has too many digits"
        except RecursionError:
            problem = "brackets within brackets are too deep"
        else:
            return cls._described(written, name)
        raise ConfigurationError(f"{name} is no valid TOML: {problem}.")

    @classmethod
    def _described(cls, written: dict[str, Any], name: str) -> Self:
        version = _version(written.pop("version", None), name)
        _only(written, ("missing", "identity", "columns", "crosses"), name)
        columns, crosses = written.get("columns", {}), written.get("crosses", [])
        missing = written.get("missing", MISSING_SPELLINGS)
        if not isinstance(columns, dict) or not isinstance(crosses, list) or not isinstance(missing, list | tuple):
            raise ConfigurationError(f"{name} must have tables [columns.NAME], a list missing, and tables [[crosses]].")
        return cls(
            tuple(_column(n, given, version) for n, given in columns.items()),
            tuple(_record(Cross, given, "a cross") for given in crosses),
            tuple(missing),
            written.get("identity", {}),
        )

    @classmethod
    def draft(cls, table: Any, **options: Any) -> Schema:
        """A schema drafted from rows; options and rules are those of :func:`erasable.schemas.draft_schema`.

        That function also tells how many subjects would have to be absent for an entry to change.
        """
        from erasable.schemas.draft import draft_schema

        return draft_schema(table, **options).schema

    @cached_property
    def text(self) -> str:
        """The canonical TOML text, which is what a state holds: two schemas are equal where it is."""
        head = {"version": self.version}
        if self.missing != MISSING_SPELLINGS:
            head["missing"] = self.missing  # type: ignore[assignment]
        parts = [_toml.table("", head).lstrip()]
        if self.identity:
            parts.append(_toml.table("[identity]", self.identity))
        for column in self.columns:
            kind = {"kind": column.KIND} if isinstance(column, Column) else {}
            parts.append(_toml.table(f"[columns.{_toml.key(column.name)}]", {**kind, **column.parameters()}))
        parts += [_toml.table("[[crosses]]", cross.parameters()) for cross in self.crosses]
        return "\n\n".join(parts) + "\n"

    def save(self, path: str | os.PathLike[str], *, head: str = "") -> None:
        """Write the canonical text to a file, after lines of comment that are no part of it: all of it, or nothing.

        Half of a schema may be a schema, too, and a model that is learnt by it another one. A file that is there keeps
        its permissions; what is no file, such as a pipe, is written to as it is.
        """
        comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
        text = f"{comment}\n{self.text}" if comment else self.text
        write_text(path, text)

    def describe(self) -> dict[str, Any]:
        """The canonical text, ready for JSON."""
        return {"map": "schema", "text": self.text}

    # -- what it says ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the rules by which cells are read."""
        return self.columns[0].version

    @cached_property
    def missing_texts(self) -> frozenset[str]:
        """Texts of missing cells, in any way in which they are compared."""
        return missing_texts(self.missing, self.version)

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(c for c in self.columns if isinstance(c, Column))

    @cached_property
    def by_name(self) -> Mapping[str, Column | Role]:
        """The columns by their names."""
        return {c.name: c for c in self.columns}

    def having(self, role: str) -> tuple[str, ...]:
        """The names of the columns that have a role."""
        return tuple(c.name for c in self.columns if isinstance(c, Role) and c.role == role)

    @property
    def target_range(self) -> tuple[tuple[float, float], ...] | None:
        """The range of each target, for ``ErasableRegressor``; None where not all, or no targets, are declared."""
        ranges = [self.by_name[name].range for name in self.having("target")]  # type: ignore[union-attr]
        return tuple(r for r in ranges if r is not None) if ranges and None not in ranges else None

    @cached_property
    def widths(self) -> list[int]:
        """How many features each column has, and then each cross."""
        return [*(c.width for c in self.features), *(c.width(self.by_name) for c in self.crosses)]

    def feature_names_out(self) -> list[str]:
        """The names of the features."""
        crossed = (c.names(self.by_name) for c in self.crosses)
        return [n for part in (*(c.feature_names() for c in self.features), *crossed) for n in part]

    @cached_property
    def bound(self) -> float:
        """The largest norm that a row can have, rounded up to a multiple of 1/1024."""
        square = sum(c.bound_square for c in self.features) + ONE * len(self.crosses)
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
            With every column that becomes features; those with roles may be absent, and others are passed over.

        Returns
        -------
        rows : float32 array of shape (n, n_features_out), or csr_array where the schema is ``sparse``
        report : EncodingReport

        Raises
        ------
        InputError, InputTypeError
            When columns are not there, or hold what their kind cannot be read from.
        """
        rows, report = self.encode_sparse(table)
        return (rows if self.sparse else rows.toarray()), report

    def encode_sparse(self, table: Any) -> tuple[Any, EncodingReport]:
        """The same, as a csr_array in any case."""
        columns = Columns(table, self.version)
        absent = [c.name for c in self.features if c.name not in columns.names]
        if absent:
            shown = ", ".join(map(repr, absent[:10])) + (f" and {len(absent) - 10} more" if len(absent) > 10 else "")
            raise InputError(f"the table lacks {len(absent)} of {len(self.features)} columns of the schema: {shown}.")
        counts: dict[str, dict[str, int]] = {}
        codes: dict[str, Array] = {}
        parts = Parts(columns.n_rows)
        crossed = {name for cross in self.crosses for name in cross.columns}
        for column, width in zip(self.features, self.widths, strict=False):
            cells = columns[column.name]
            cells = cells.distinct() if column.n_codes is not None else cells
            block = column.block(cells, self.missing_texts)
            counts[column.name] = counted(block, cells)
            if column.name in crossed and block.codes is not None:
                codes[column.name] = spread(block.codes, cells)
            parts.add(block, cells, width)
        for cross, width in zip(self.crosses, self.widths[len(self.features) :], strict=True):
            left, right = (codes[name] for name in cross.columns)
            parts.add(Block([(cross.places(left, right, self.by_name), None)], {}), ONE_EACH, width)
        extra = tuple(n for n in columns.names if n not in self.by_name)
        return parts.stacked(), EncodingReport(columns.n_rows, counts, extra)

    def __call__(self, X: Any) -> Any:
        """Encoded rows, of a table or of what :meth:`prepared` made of one."""
        if not isinstance(X, EncodedTable):
            return self.encode(X)[0]
        if X.schema is not self and X.schema != self:
            raise InputTypeError("these rows were encoded by another schema: encode the table again.")
        return X.rows

    def prepared(self, X: Any) -> EncodedTable:
        """A table that is encoded once, and from which rows can be taken."""
        return X if isinstance(X, EncodedTable) else EncodedTable(self, *self.encode_sparse(X))


class EncodedTable:
    """The rows of a table, encoded: one-dimensional, as a row of a table is one thing.

    ``report`` says what became of the cells; rows that are taken from it have none.
    """

    ndim = 1

    def __init__(self, schema: Schema, rows: Any, report: EncodingReport | None = None) -> None:
        self.schema, self.rows, self.report = schema, rows, report
        self.shape = (rows.shape[0],)

    @classmethod
    def joined(cls, parts: Sequence[EncodedTable]) -> EncodedTable:
        """The rows of all parts, of one schema."""
        reports = [part.report for part in parts if part.report is not None]
        whole = sum(reports, EncodingReport(0)) if len(reports) == len(parts) else None
        return cls(parts[0].schema, sp.vstack([part.rows for part in parts], format="csr"), whole)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, which: Any) -> EncodedTable:
        """Some of the rows."""
        return EncodedTable(self.schema, self.rows[which])


def _version(given: Any, name: str) -> int:
    """The version that a file has at its head."""
    if type(given) is int and 1 <= given <= VERSION:
        return given
    if type(given) is int and given > VERSION:
        found, advice = f"version = {str(given)[:20]}", "install a newer erasable"
    else:
        found = (
            "no version" if given is None else f"a version that is {'below 1' if type(given) is int else 'no integer'}"
        )
        advice = f"its first line must be version = {VERSION}, without quotes"
    raise ConfigurationError(f"{name} has {found}, and this erasable reads versions 1 to {VERSION}: {advice}.")


def _column(name: str, given: Any, version: int) -> Column | Role:
    """A column of a file."""
    where, own = f"column {name!r}", {"name": name, "version": version}
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} must be a table, [columns.{_toml.key(name)}].")
    if "role" in given and "kind" in given:
        raise ConfigurationError(f"{where} has a role and a kind: a column with a role is no feature; leave one out.")
    if "role" in given:
        role: Role = _record(Role, given, where, **own)
        return role
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigurationError(f"{where} needs a role, or a kind: {', '.join(KINDS)}.")
    rest = {k: v for k, v in given.items() if k != "kind"}
    column: Column = _record(KINDS[kind], rest, f"{where}, {kind}", **own)
    return column


def _record(kind: Any, given: Any, where: str, **own: Any) -> Any:
    known = [f.name for f in fields(kind) if f.name not in own]
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} must be a table.")
    _only(given, known, where)
    lacking = [f.name for f in fields(kind) if f.default is MISSING and f.name not in (*given, *own)]
    if lacking:
        raise ConfigurationError(f"{where} needs {', '.join(lacking)}.")
    return kind(**given, **own)


def _only(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    odd: Iterator[str] = (k for k in given if k not in known)
    first = next(odd, None)
    if first is not None:
        raise ConfigurationError(f"{where} has no parameter {first!r}: known are {', '.join(known)}.")
