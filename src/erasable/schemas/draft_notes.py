"""What a draft says of its columns: what the names of columns suggest, and the comment on each decision. Pure."""

from __future__ import annotations

import re

from erasable.schemas.columns import Category, Column, Number, YesNo
from erasable.schemas.dates import Date, Time
from erasable.schemas.schema import Role
from erasable.schemas.texts import Text, Vector

_IDENTIFIER = re.compile(r"(?:.*[^A-Za-z])?(?:id|ids|uuid|guid|key|index)|.*[a-z](?:Id|ID|Key|Index)", re.ASCII)
_ANY_CASE = re.compile(r"id|uuid|guid|index|unnamed: 0", re.ASCII | re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CODE = re.compile(
    "agent|article|branch|brand|category|channel|city|class|clinic|cluster|codes?|company|country|county|department|"
    "dept|diagnosis|district|drg|flight|hospital|icd|industry|isco|item|municipality|naics|nationality|occ|occupation|"
    "plan|plz|postal|postal_?code|postcode|precinct|procedure|product|recode|region|route|sector|segment|shop|sic|sku|"
    "state|station|store|subclass|subtype|supplier|tariff|team|town|type|vendor|warehouse|zip|zipcode"
)
_NUMBERED = re.compile("no|nr|nbr|num|number")  # as the last of several words
_MEASURE = re.compile(
    "age|amount|area|average|avg|cost|count|density|distance|income|length|max|mean|median|min|pct|per|percent|"
    "population|price|qty|quantity|rate|ratio|revenue|sales|score|share|since|size|sum|tax|total|value|weight"
)
_CALENDAR = re.compile("month|mnth|weekday|wday|dow|hour|hr|quarter|qtr")


def is_identifier(name: str) -> bool:
    """Whether the name of a column marks it as an identifier."""
    return bool(_IDENTIFIER.fullmatch(name) or _ANY_CASE.fullmatch(name))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def is_code_name(name: str) -> bool:
    """Whether the name of a column says that its whole numbers are codes: occupation, product number, postal code."""
    words = _words(name)
    if any(map(_MEASURE.fullmatch, words)) or any(map(_NUMBERED.fullmatch, words[:-1])):
        return False
    return any(map(_CODE.fullmatch, words)) or (len(words) > 1 and _NUMBERED.fullmatch(words[-1]) is not None)


def is_calendar(name: str) -> bool:
    """Whether the name of a column says that its whole numbers are months, weekdays, hours or quarters."""
    words = _words(name)
    return any(map(_CALENDAR.fullmatch, words)) and not any(map(_MEASURE.fullmatch, words))


def note_on(column: Column | Role, reason: str, k: int) -> str:
    """What the draft decided for a column, and what to do about it: a line or two.

    ``reason`` is "identifier", "code", "calendar" or "missing" where one of these decided, and else empty.
    """
    if isinstance(column, Role):
        return _on_role(column, reason, k)
    if reason == "missing":
        return "Nearly all cells differ, as identifiers do: only whether a cell is missing counts."
    match column:
        case Number():
            return _on_number(column, reason)
        case Category():
            return _on_category(column, reason, k)
        case YesNo():
            return "Yes or no: 1 or 0. For other spellings, give yes = [...] and no = [...]."
        case Date():
            parts = ", ".join(column.parts)
            return f'Dates, of which these parts count: {parts}. For a trend, add "days" with since and days.'
        case Time():
            return "Times of day, of which the hour counts."
        case Text():
            return (
                f"Texts of several words, counted by hashed word. If they tell who somebody is, make it "
                f'role = "ignore"; for long texts, give more than {column.places} places.'
            )
        case Vector():
            return "Lists of numbers of one length. If they are longer than 1 as vectors, give their length as scale."
    raise TypeError(column.KIND)


def _on_number(column: Number, reason: str) -> str:
    n = len(column.edges or ()) + 1
    if reason == "calendar":
        return "Months, weekdays, hours or quarters, by its name: each has a bin of its own."
    if column.bins == "multiscale":
        how = f"{n} bins, and these joined by two, four and so on, so that neighbours share what they have in common"
        return f'A number: {how}. For fewer features, leave bins = "multiscale" out.'
    return f"A number: {n} bins. Edit the edges; or, if it acts along a straight line, give range = [low, high]."


def _on_category(column: Category, reason: str, k: int) -> str:
    if column.values is None:
        how = f"hashed into {column.hashed} places, each for several of them. To keep some apart, list them in values"
    else:
        rare = "" if reason == "code" else f", which at least {k} subjects have each"
        how = f"a category of {len(column.values)}{rare}; all others share a place"
    if reason != "code":
        return f'Texts: {how}. If they tell who somebody is, make it role = "ignore".'
    return (
        f"Whole numbers, but codes by their name or by zeros in front, and neighbouring codes need not be alike. So: "
        f'{how}. If their order matters, make it kind = "number" with edges.'
    )


def _on_role(column: Role, reason: str, k: int) -> str:
    match column.role:
        case "label" if column.classes is None:
            return f"The label. Some classes have fewer than {k} subjects: list all in classes if they are public."
        case "label":
            return "The label, and all of its classes."
        case "target" if column.range is not None:
            return (
                "The target. Its range leaves out the outermost few subjects and clips their targets, and predictions. "
                "If you know the true limits, give them."
            )
        case "target":
            return "The target. It needs a range = [low, high]: predictions are clipped to it."
        case "ignore" if reason == "identifier":
            return (
                "Ignored: its name marks an identifier. If many rows share its values, as those of products, make it "
                'kind = "category" with hashed = 256.'
            )
        case "ignore" if reason == "asked":
            return "Ignored, as you asked."
        case "ignore":
            return f"Ignored: nothing that {k} subjects share can be made of it."
        case "weight":
            return "How much a row counts."
    return {"id": "Names rows.", "subject": "Names whose row it is."}[column.role]
