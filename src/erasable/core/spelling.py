"""How the names of people and rows are spelt: declared normalisation, doubtful names, and rough shapes. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from erasable.errors import ConfigurationError, InputError

#: The steps of a normalisation, in the order in which they are applied.
STEPS = ("trim", "nfc", "casefold")
#: How an identity may be written: as it is, or as a hash in hexadecimal digits.
FORMATS = ("raw", "sha256", "sha1", "md5")
ROLES = ("id", "subject")
Steps = tuple[str, ...]
#: The declared normalisation of ids and of subjects; a role that is absent is compared character by character.
Spelling = Mapping[str, Steps]

_SEPARATORS = ",;|\N{IDEOGRAPHIC COMMA}\N{FULLWIDTH COMMA}\N{FULLWIDTH SEMICOLON}"
_KINDS = ("small letters", "capitals", "digits", "separators", "other characters")
_SHORTEST, _LONGEST = 4, 4096  # characters: the ends of the first and the last range of a shape
_MOST = 2**53  # identities in one request: as far as JSON counts


def read_spelling(given: Any, where: str) -> dict[str, Steps]:
    """The declared normalisation by role, with its steps in their order; roles without a step are left out.

    Raises
    ------
    ConfigurationError
    """
    if not isinstance(given, Mapping) or not set(given) <= set(ROLES):
        raise ConfigurationError(f"{where}: normalisation is declared for {' and '.join(ROLES)} alone.")
    for steps in given.values():
        if isinstance(steps, str) or not isinstance(steps, Iterable) or not {*steps} <= {*STEPS}:
            raise ConfigurationError(f"{where}: a normalisation must be a list of these steps: {', '.join(STEPS)}.")
    ordered = {role: tuple(step for step in STEPS if step in given[role]) for role in ROLES if role in given}
    return {role: steps for role, steps in ordered.items() if steps}


def told_spelling(spelling: Spelling) -> str:
    """The declared normalisation in words."""
    told = [f"{role}s are normalised by {', '.join(steps)}" for role, steps in spelling.items()]
    return "; ".join(told) or "names are compared character by character"


def normalise(text: str, steps: Iterable[str]) -> str:
    """The spelling under which a name is stored and looked for.

    ``trim`` drops white space at both ends, ``nfc`` composes letters and accents (Unicode NFC), ``casefold`` makes
    capitals and small letters one. They are applied in this order; ``nfc`` and ``casefold`` together are Unicode's
    canonical caseless matching, composed.

    *Law*: idempotent.

    Examples
    --------
    >>> from erasable.core.spelling import normalise
    >>> normalise(" Lead@Ex.org ", ("trim", "casefold"))
    'lead@ex.org'
    """
    text = text.strip() if "trim" in steps else text
    composed = "nfc" in steps and not text.isascii()
    if "casefold" in steps:
        text = (unicodedata.normalize("NFD", text) if composed else text).casefold()
    return unicodedata.normalize("NFC", text) if composed else text


def spelt(text: str, steps: Steps) -> str:
    """A name that is learnt or forgotten, normalised.

    Raises
    ------
    InputError
        When it has characters that later versions of Unicode may normalise in another way.
    """
    if not text.isascii() and {*steps} - {"trim"} and any(unicodedata.category(c) == "Cn" for c in text):
        raise InputError(
            f"a name has characters that Unicode {unicodedata.unidata_version} does not define, so it cannot be "
            "normalised: correct the name, or use a newer Python."
        )
    return normalise(text, steps)


def doubt(text: str, steps: Iterable[str] = ()) -> str | None:
    """Why hardly any row has a name like this one, which somebody typed; None where it is an ordinary name."""
    if "trim" not in steps and text != text.strip():
        return "a space at one end"
    text = text.strip()
    if not text:
        return "no characters"
    control = not text.isprintable() and any(unicodedata.category(c) == "Cc" for c in text)
    return "a line break or another control character" if control else None


@dataclass(frozen=True)
class Shape:
    """A rough description of the identities in a request: it shows that a list was typed as one name, and names nobody.

    Attributes
    ----------
    identities : int
        How many there are.
    formats : tuple of str
        How they are written.
    characters : pair of int, or None
        Between which lengths the raw ones are: 1 to 4, 5 to 8, 9 to 16 and so on, so that two names typed as one are
        never in the range of the shorter, unless that is a single character. None where all are hashes.
    kinds : tuple of str
        The kinds of characters in the raw ones. Letters outside a to z count as other characters.
    """

    identities: int
    formats: Steps
    characters: tuple[int, int] | None
    kinds: Steps

    @classmethod
    def of(cls, identities: Iterable[tuple[str, str]]) -> Self:
        """The shape of identities, each a format and a value."""
        given = [*identities]
        raw = [value for format, value in given if format == "raw"]
        ranges = [_range(len(value)) for value in raw]
        kinds = {_kind(c) for value in raw for c in value}
        return cls(
            len(given),
            tuple(format for format in FORMATS if format in {format for format, _ in given}),
            (min(low for low, _ in ranges), max(high for _, high in ranges)) if raw else None,
            tuple(kind for kind in _KINDS if kind in kinds),
        )

    @classmethod
    def read(cls, given: Any) -> Self:
        """The shape that :meth:`as_json` described; nothing else is accepted, so no identity hides in one.

        Raises
        ------
        ValueError
        """
        try:
            ends = given["characters"]
            shape = cls(
                given["identities"], (*given["formats"],), None if ends is None else (*ends,), (*given["kinds"],)
            )
            low, high = (_SHORTEST, _SHORTEST) if ends is None else (_range(ends[0])[0], _range(ends[1])[1])
        except (TypeError, KeyError, IndexError):
            raise ValueError("no shape") from None
        fits = (
            type(shape.identities) is int
            and 1 <= shape.identities <= _MOST
            and shape.formats == tuple(f for f in FORMATS if f in shape.formats)
            and shape.kinds == tuple(k for k in _KINDS if k in shape.kinds)
            and (ends is None or ((low, high) == shape.characters and low < high))
            and (ends is None) == (not shape.kinds) == ("raw" not in shape.formats)
        )
        if not fits or shape.as_json() != given:
            raise ValueError("no shape")
        return shape

    def as_json(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    def __str__(self) -> str:
        count = "1 identity" if self.identities == 1 else f"{self.identities:,} identities"
        text = f"{count} ({' and '.join(self.formats)})"
        if self.characters is None:
            return text
        return f"{text}, {self.characters[0]} to {self.characters[1]} characters: {', '.join(self.kinds)}"


def _range(n: int) -> tuple[int, int]:
    high = _SHORTEST
    while high < min(n, _LONGEST):
        high *= 2
    return (1, high) if high == _SHORTEST else (high // 2 + 1, high)


def _kind(character: str) -> str:
    if character in _SEPARATORS or character.isspace():
        return _KINDS[3]
    if not character.isascii() or not character.isalnum():
        return _KINDS[4]
    return _KINDS[2] if character.isdigit() else _KINDS[0] if character.islower() else _KINDS[1]


def listed_in(text: str) -> int:
    """How many names a text would hold if it were a list, parted by commas, semicolons, bars or white space."""
    parts = "".join("," if _kind(c) == _KINDS[3] else c for c in text).split(",")
    return sum(map(bool, parts))
