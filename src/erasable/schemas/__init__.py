"""Public schemas: from a raw table to rows of numbers, by declared parameters alone.

A fitted encoder is a trace of the rows that it was fitted on. A schema is written by people, or drafted so that no
single person shows in it, and holds for every row alike.
"""

from erasable.schemas._cells import canonical_text
from erasable.schemas._moments import Date, Time
from erasable.schemas._number import Number
from erasable.schemas._others import Cross, Role
from erasable.schemas._placed import Category, Ordered, YesNo
from erasable.schemas._reports import EncodingReport
from erasable.schemas._targets import read_targets
from erasable.schemas._texts import Text, Vector
from erasable.schemas._told import Told
from erasable.schemas.decoding import decode_row
from erasable.schemas.draft import Draft, draft_blocks, draft_gathered, draft_schema, gathered_blocks
from erasable.schemas.schema import EncodedTable, Schema

__all__ = [
    "Category",
    "Cross",
    "Date",
    "Draft",
    "EncodedTable",
    "EncodingReport",
    "Number",
    "Ordered",
    "Role",
    "Schema",
    "Text",
    "Time",
    "Told",
    "Vector",
    "YesNo",
    "canonical_text",
    "decode_row",
    "draft_blocks",
    "draft_gathered",
    "draft_schema",
    "gathered_blocks",
    "read_targets",
]
