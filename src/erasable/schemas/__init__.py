"""Public schemas: from a raw table to rows of numbers, by declared parameters alone.

A fitted encoder is a trace of the rows that it was fitted on. A schema is written by people, or drafted so that no
single person shows in it, and holds for every row alike.
"""

from erasable.schemas.cells import canonical_text
from erasable.schemas.columns import Category, Number, Ordered, YesNo
from erasable.schemas.crosses import Cross
from erasable.schemas.dates import Date, Time
from erasable.schemas.decode import DecodedCell, decode_raw, decode_row
from erasable.schemas.draft import Draft, draft_schema
from erasable.schemas.encode import EncodedTable, EncodingReport
from erasable.schemas.schema import Role, Schema
from erasable.schemas.texts import Text, Vector

__all__ = [
    "Category",
    "Cross",
    "Date",
    "DecodedCell",
    "Draft",
    "EncodedTable",
    "EncodingReport",
    "Number",
    "Ordered",
    "Role",
    "Schema",
    "Text",
    "Time",
    "Vector",
    "YesNo",
    "canonical_text",
    "decode_raw",
    "decode_row",
    "draft_schema",
]
