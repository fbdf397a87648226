"""Labels, ids and subjects: what they may be, how a file holds them, how ids are hashed, how people's names are spelt.

``docs/format.md`` specifies how a file holds them. The keyed hash of an id decides what is drawn for its row, and when
its turn is. Spelling covers declared normalisation, doubtful names (separators, look-alikes) and rough shapes. Pure.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Tensors
from erasable.errors import ConfigurationError, InputError, StateFormatError

Key = int | str | bytes
Owners = Key | None | tuple[Key, ...]  # of a row: one subject, none, or two and more, sorted and distinct
Label = bool | int | float | str
_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}


def kind_of(value: object) -> str:
    """``"int"``, ``"str"``, ``"bytes"``, ``"bool"`` or ``"float"``."""
    return _KINDS[type(value)]


def is_unicode(text: str) -> bool:
    """Whether the text is one that bytes can hold: without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_label(value: Label) -> str:
    """A label as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return value.hex()
        case _:
            return str(value)


def read_label(kind: str, text: str) -> Label:
    """The label that a text stands for."""
    match kind:
        case "bool":
            return {"true": True, "false": False}[text]
        case "float":
            return float.fromhex(text) + 0.0  # minus zero is then not canonical
        case "int":
            value = int(text)
            if not -(2**63) <= value < 2**63:
                raise ValueError("an integer label past 64 bits")
            return value
        case "str":
            return text
    raise KeyError(kind)


def name_fields(
    classes: Sequence[Label], ids: Sequence[Key], subjects: Sequence[Owners], *, fixed: bool
) -> dict[str, Any]:
    """What the header says of labels, ids and subjects: the classes, and of what kind each is."""
    return {
        "classes": [write_label(c) for c in classes],
        "class_kind": kind_of(classes[0]) if classes else None,
        "classes_fixed": fixed,
        **owner_fields(ids, subjects),
    }


def owner_fields(ids: Sequence[Key], subjects: Sequence[Owners]) -> dict[str, Any]:
    """What the header says of ids and subjects: of what kind they are."""
    return {"id_kind": kind_of(ids[0]) if ids else None, "subject_kind": subject_kind(subjects)}


def subject_kind(subjects: Iterable[Owners]) -> str | None:
    """Of what kind the subjects of some rows are; None where no row has one."""
    return next((kind_of(owners_of(owners)[0]) for owners in subjects if owners is not None), None)


def owners_of(owners: Owners) -> tuple[Key, ...]:
    """The subjects of one row."""
    return owners if isinstance(owners, tuple) else () if owners is None else (owners,)


def each_owner(subjects: Sequence[Owners]) -> list[Any]:
    """The subjects of all rows, one after the other."""
    if tuple in set(map(type, subjects)):
        return list(itertools.chain.from_iterable(map(owners_of, subjects)))
    return [owner for owner in subjects if owner is not None]


def are_several(owners: tuple[Key, ...]) -> bool:
    """Whether these, of one type, are the subjects of a row that has several: sorted, distinct, no empty text."""
    return len(owners) > 1 and all(map(operator.lt, owners, owners[1:])) and owners[0] not in ("", b"")


def read_names(
    meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], classes: tuple[Label, ...], n: int
) -> tuple[tuple[Key, ...], tuple[Owners, ...], tuple[Label, ...]]:
    """Return ids, subjects and labels of n rows; StateFormatError if they do not fit."""
    codes = tensors["labels"]
    if codes.shape != (n,) or (n and not (codes.min() >= 0 and codes.max() < len(classes))):
        raise StateFormatError("its labels do not fit its rows or its classes.")
    return *read_owners(meta, tensors, n), tuple(classes[i] for i in codes.tolist())


def read_owners(
    meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], n: int
) -> tuple[tuple[Key, ...], tuple[Owners, ...]]:
    """Return ids and subjects of n rows; StateFormatError if they do not fit."""
    ids = read_keys(tensors, "ids", meta["id_kind"], n)
    if (n and meta["id_kind"] is None) or {"ids.present", "ids.lengths"} & tensors.keys() or len(set(ids)) != n:
        raise StateFormatError("its ids are not distinct.")
    return ids, read_keys(tensors, "subjects", meta["subject_kind"], n)  # type: ignore[return-value]


def check_fixed_classes(fixed: Sequence[Label] | None) -> None:
    """Raise ConfigurationError if classes that the caller fixed are not in canonical order."""
    if fixed is not None and (not fixed or len({type(c) for c in fixed}) > 1 or list(fixed) != sorted(set(fixed))):
        raise ConfigurationError("fixed classes must be sorted, distinct and of one type.")


def check_feature_names(names: Sequence[Any], n_features: int) -> None:
    """Raise ConfigurationError unless there is one text for each column."""
    if len(names) != n_features:
        raise ConfigurationError(f"{len(names)} names of columns are given for {n_features} features.")
    for name in names:
        if not isinstance(name, str) or not is_unicode(name):
            raise ConfigurationError("the names of columns must be texts in Unicode: rename those that are not.")


def key_tensors(name: str, keys: Sequence[Owners]) -> Tensors:
    """Ids or subjects; a subject may be missing, and so may all of them, and a row may have several."""
    tensors: Tensors = {}
    kinds = set(map(type, keys))
    if tuple in kinds:
        lengths = np.fromiter((len(owners_of(k)) for k in keys), dtype=np.int32, count=len(keys))
        return {name + ".lengths": ("I32", lengths), **key_tensors(name, each_owner(keys))}
    if not kinds - {type(None)}:
        return tensors
    if type(None) in kinds:
        tensors[name + ".present"] = ("U8", [k is not None for k in keys])
    if kinds <= {int, type(None)}:
        tensors[name] = ("I64", np.array([k or 0 for k in keys], dtype=np.int64))
    else:
        texts: list[Any] = [b"" if k is None else k.encode() if isinstance(k, str) else k for k in keys]
        tensors[name + ".ends"] = ("I64", np.cumsum([len(t) for t in texts], dtype=np.int64))
        tensors[name] = ("U8", np.frombuffer(b"".join(texts), dtype=np.uint8))
    return tensors


def read_keys(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str | None, n: int) -> tuple[Owners, ...]:
    """The ids or subjects that :func:`key_tensors` wrote."""
    if kind is None:
        return (None,) * n
    if name + ".lengths" in tensors:
        return _read_several(tensors, name, kind, n)
    if kind == "int":
        keys: list[Any] = tensors[name].tolist()
    else:
        blob, ends = tensors[name].tobytes(), [0, *tensors[name + ".ends"].tolist()]
        if any(a > b for a, b in itertools.pairwise(ends)) or ends[-1] != len(blob):
            raise StateFormatError(f"its {name} do not fit together.")  # and might be cut out of it over and over
        texts = [blob[a:b] for a, b in itertools.pairwise(ends)]
        keys = [t.decode() for t in texts] if kind == "str" else texts
    if name + ".present" not in tensors and len(keys) == n:
        return tuple(keys)
    return tuple(k if p else None for k, p in zip(keys, tensors[name + ".present"].tolist(), strict=True))


def _read_several(tensors: dict[str, npt.NDArray[Any]], name: str, kind: str, n: int) -> tuple[Owners, ...]:
    """Subjects of rows some of which have several; nothing is made of lengths that the keys do not add up to."""
    lengths = tensors[name + ".lengths"]
    m = int(lengths.sum(dtype=np.int64))
    keys = read_keys({k: tensors[k] for k in (name, name + ".ends") if k in tensors}, name, kind, m)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    if lengths.shape != (n,) or lengths.min(initial=0) < 0 or len(keys) != m:
        raise StateFormatError(f"its {name} do not fit together.")
    rows = [keys[a:b] for a, b in itertools.pairwise([0, *ends])]
    if not all(len(row) < 2 or are_several(row) for row in rows):  # type: ignore[arg-type]
        raise StateFormatError(f"its {name} are not in canonical form: those of a row sorted, distinct, none empty.")
    return tuple(row if len(row) > 1 else row[0] if row else None for row in rows)  # type: ignore[misc]


#: The steps of a normalisation, in the order in which they are applied.
STEPS = ("trim", "nfc", "casefold")
#: How an identity may be written: as it is, or as a hash in hexadecimal digits.
FORMATS = ("raw", "sha256", "sha1", "md5")
ROLES = ("id", "subject")
Steps = tuple[str, ...]
#: The declared normalisation of ids and of subjects; a role that is absent is compared character by character.
Spelling = Mapping[str, Steps]

_SEPARATORS = ",;|\N{IDEOGRAPHIC COMMA}\N{FULLWIDTH COMMA}\N{FULLWIDTH SEMICOLON}"
_CHARACTERS = ("small letters", "capitals", "digits", "separators", "other characters")
_SHORTEST, _LONGEST = 4, 4096  # characters: the ends of the first and the last range of a shape
_MOST = 2**53  # identities in one request: as far as JSON counts


def read_spelling(given: object, where: str) -> dict[str, Steps]:
    """Return the steps of normalisation by role, in their order, without empty ones; or ConfigurationError."""
    if not isinstance(given, Mapping) or not set(given) <= set(ROLES):
        raise ConfigurationError(f"{where}: normalisation is declared for {' and '.join(ROLES)} alone.")
    for steps in given.values():
        if isinstance(steps, str) or not isinstance(steps, Iterable) or any(s not in STEPS for s in steps):
            raise ConfigurationError(f"{where}: a normalisation must be a list of these steps: {', '.join(STEPS)}.")
    ordered = {role: tuple(step for step in STEPS if step in given[role]) for role in ROLES if role in given}
    return {role: steps for role, steps in ordered.items() if steps}


def spelling_in_words(spelling: Spelling) -> str:
    """The declared normalisation in words."""
    parts = [f"{role}s are normalised by {', '.join(steps)}" for role, steps in spelling.items()]
    return "; ".join(parts) or "names are compared character by character"


def normalise(text: str, steps: Iterable[str]) -> str:
    """The spelling under which a name is stored and looked for.

    ``trim`` drops white space at both ends, ``nfc`` composes letters and accents (Unicode NFC), ``casefold`` makes
    capitals and small letters one. They are applied in this order; ``nfc`` and ``casefold`` together are Unicode's
    canonical caseless matching, composed.

    *Law*: idempotent.

    Examples
    --------
    >>> from erasable.core.names import normalise
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

    Raises InputError when it has characters that later versions of Unicode may normalise in another way.
    """
    if not text.isascii() and {*steps} - {"trim"} and any(unicodedata.category(c) == "Cn" for c in text):
        raise InputError(
            f"a name has characters that Unicode {unicodedata.unidata_version} does not define, so it cannot be "
            "normalised: correct the name, or use a newer Python."
        )
    return normalise(text, steps)


def doubt(text: str, steps: Iterable[str] = ()) -> str | None:
    """Why a typed name is probably not that of any row; None for an ordinary name."""
    if "trim" not in steps and text != text.strip():
        return "a space at one end"
    text = text.strip()
    if not text:
        return "no characters"
    control = not text.isprintable() and any(unicodedata.category(c) == "Cc" for c in text)
    return "a line break or another control character" if control else None


@dataclass(frozen=True)
class Shape:
    """A rough description of the identities in a request: it shows a list typed as one name, and names nobody."""

    identities: int  # how many there are
    formats: Steps  # how they are written
    # Between which lengths the raw ones are: 1 to 4, 5 to 8, 9 to 16 and so on, so that two names typed as one are
    # never in the range of the shorter, unless that is a single character. None where all are hashes.
    characters: tuple[int, int] | None
    kinds: Steps  # the kinds of characters in the raw ones. Letters outside a to z count as other characters.

    @classmethod
    def of(cls, identities: Iterable[tuple[str, str]]) -> Self:
        """The shape of identities, each a format and a value."""
        given = [*identities]
        raw = [value for format, value in given if format == "raw"]
        ranges = [_range(n) for n in {*map(len, raw)}]
        kinds = {_kind(c) for c in {*"".join(raw)}}
        return cls(
            len(given),
            tuple(format for format in FORMATS if format in {format for format, _ in given}),
            (min(low for low, _ in ranges), max(high for _, high in ranges)) if raw else None,
            tuple(kind for kind in _CHARACTERS if kind in kinds),
        )

    @classmethod
    def read(cls, given: Any) -> Self:
        """Return the shape that :meth:`as_json` described; ValueError for all else, so that no identity hides in it."""
        try:
            ends = given["characters"]
            shape = cls(
                given["identities"], (*given["formats"],), None if ends is None else (*ends,), (*given["kinds"],)
            )
            low, high = (_SHORTEST, _SHORTEST) if ends is None else (_range(ends[0])[0], _range(ends[1])[1])
        except (TypeError, KeyError, IndexError):
            raise ValueError("no shape") from None
        fits = (
            {type(n) for n in (shape.identities, *(ends or ()))} == {int}  # true is no number of JSON
            and 1 <= shape.identities <= _MOST
            and shape.formats == tuple(f for f in FORMATS if f in shape.formats)
            and shape.kinds == tuple(k for k in _CHARACTERS if k in shape.kinds)
            and (ends is None or ((low, high) == shape.characters and low < high))
            and (ends is None) == (not shape.kinds) == ("raw" not in shape.formats)
        )
        if not fits or shape.as_json() != given:
            raise ValueError("no shape")
        return shape

    def as_json(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

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
        return _CHARACTERS[3]
    if not character.isascii() or not character.isalnum():
        return _CHARACTERS[4]
    return _CHARACTERS[2] if character.isdigit() else _CHARACTERS[0] if character.islower() else _CHARACTERS[1]


#: What a reference of a request may be, for Python, JSON Schema and browsers alike: characters of Unicode's basic plane
#: that are seen. Control characters, those that turn the direction of a line, and blanks of no or odd width are not.
REFERENCE_PATTERN = (
    r"^[\u0020-\u007e\u00a1-\u00ac\u00ae-\u034e\u0350-\u05ff\u0606-\u061b\u061d-\u06dc\u06de-\u070e\u0710-\u088f"
    r"\u0892-\u08e1\u08e3-\u115e\u1161-\u167f\u1681-\u17b3\u17b6-\u180a\u1810-\u1fff\u2010-\u2027\u2030-\u205e"
    r"\u2070-\u27ff\u2801-\u2fff\u3001-\u3163\u3165-\ud7ff\uf900-\ufdcf\ufdf0-\ufdff\ufe10-\ufefe\uff00-\uff9f"
    r"\uffa1-\uffef]{0,64}$"
)


def read_reference(text: str) -> str:
    """A reference of a request, without spaces at its ends; ``InputError`` if it may not be one."""
    text = text.strip(" ")
    if not re.fullmatch(REFERENCE_PATTERN.strip("^$"), text):
        raise InputError("a reference has at most 64 printable characters, on one line: change it.")
    return text


def doubt_of_reference(text: str) -> str | None:
    """A warning if a reference looks like an e-mail address, a name or a street; a guess, since texts have no types.

    Next to a number two words count if they follow each other and begin with capitals, but are not both abbreviations.

    Examples
    --------
    >>> from erasable.core.names import doubt_of_reference
    >>> [doubt_of_reference(text) is None for text in ("case 7", "Case 7 Ann Lee", "ann@example.org")]
    [True, False, False]
    """
    words = re.findall(r"[^\W\d_]{2,}", text)
    pairs = re.findall(r"(?=\b([^\W\d_]{2,}),? +([^\W\d_]{2,}))", text)
    has_digit = any(map(str.isdigit, text))
    capitalised = [word for word in words if word[0] != word[0].lower()]
    without_case = [word for word in words if word.lower() == word.upper()]
    if "@" in text:
        what = "an e-mail address"
    elif not has_digit and (len(capitalised) > 1 or without_case):
        what = "a name"
    elif any(one in capitalised and two in capitalised and not (one + two).isupper() for one, two in pairs):
        what = "a name or an address"
    else:
        return None
    return f"the reference looks like {what}. It is kept after the erasure, until a purge: use one that names nobody."


def listed_in(text: str) -> list[str]:
    """The names that a text would hold if it were a list.

    They are parted by commas, semicolons or bars; by white space in a text without any of these.

    Examples
    --------
    >>> from erasable.core.names import listed_in
    >>> listed_in("Ann Lee; Bo Orr"), listed_in("c-1 c-2"), listed_in("c-1")
    (['Ann Lee', 'Bo Orr'], ['c-1', 'c-2'], ['c-1'])
    """
    marked = "".join("," if c in _SEPARATORS else c for c in text)
    return [part.strip() for part in marked.split(",") if part.strip()] if "," in marked else text.split()


Hashes = npt.NDArray[np.uint64]
_STARTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)  # of SipHash
_LENGTH = 8 << 56  # of what is hashed, in bytes
_CHUNK = 2**15  # words that stay in the cache together; with fewer, threads would wait for each other


def keyed_hash(ids: Sequence[Key] | npt.NDArray[np.int64], key: int) -> Hashes:
    """A pseudo-random 64-bit number for each id, uniform, that depends on the id and the key alone.

    So the fate of a row (whether it is drawn, and when) does not depend on the other rows, and forgetting can equal a
    refit. Without the key nobody can choose ids by their hashes; with it anybody can compute them.

    Parameters
    ----------
    ids : sequence of int (of 64 bits, signed), of str or of bytes
        An integer and the text of its digits have different hashes.
    key : int
        Of any size; callers have it as ``random_state``.

    Notes
    -----
    *Definition*: the salt is BLAKE2b-128 of the key's decimal digits. Of a text (in UTF-8) or bytes the hash is
    BLAKE2b-64 keyed with the salt, little endian; of an integer, SipHash-2-4 keyed with the salt of its eight bytes,
    little endian, two's complement.
    *Source*: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
    """
    salt = salt_of(key)
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if isinstance(ids, np.ndarray) or (len(ids) and isinstance(ids[0], int)):
        return _siphash(np.asarray(ids, dtype=np.int64).view(np.uint64), salt)
    start, drawn = hashlib.blake2b(digest_size=8, key=salt), []
    for k in ids:
        one = start.copy()
        one.update(_as_bytes(k))
        drawn.append(one.digest())
    return np.frombuffer(b"".join(drawn), dtype="<u8").astype(np.uint64)


def salt_of(key: int) -> bytes:
    """The sixteen bytes that ids are hashed with, made of the caller's key."""
    return hashlib.blake2b(str(key).encode(), digest_size=16).digest()


def hashed_order(ids: Sequence[Key] | npt.NDArray[np.int64], key: int) -> npt.NDArray[np.intp]:
    """Positions of distinct ids in ascending order of their keyed hashes; those with one hash in that of the ids.

    *Law*: the ids in this order are a function of the set of ids and the key. Text is ordered by its UTF-8 bytes.
    *Cost*: numbers are sorted several times as fast as positions, so the position takes the last bits of each hash, and
    the few that this leaves equal are sorted again.
    """
    hashes = keyed_hash(ids, key)
    bits = len(hashes).bit_length()
    last = np.uint64((1 << bits) - 1)
    packed = hashes & ~last
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & last).view(np.int64)
    packed >>= np.uint64(bits)
    same = np.flatnonzero(packed[1:] == packed[:-1])
    near = np.union1d(same, same + 1)
    some = order[near]
    some = some[np.argsort(hashes[some])]
    ordered = hashes[some]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    for low in tied[np.isin(tied - 1, tied, invert=True)].tolist():  # where a run of equal hashes begins
        high = low + int(np.searchsorted(ordered[low:], ordered[low], side="right"))
        some[low:high] = sorted(some[low:high].tolist(), key=lambda i: _as_bytes(ids[i]))
    order[near] = some
    return order


def _as_bytes(key: Any) -> Any:
    return key.encode() if isinstance(key, str) else key


def _siphash(words: Hashes, salt: bytes) -> Hashes:
    """SipHash-2-4 of each eight-byte word under a key of sixteen bytes: 112 operations on 64-bit integers a word."""
    hashes, starts = np.empty_like(words), sip_starts(salt)
    memory = np.empty((5, min(len(words), _CHUNK)), dtype=np.uint64)
    for low in range(0, len(words), _CHUNK):
        part = words[low : low + _CHUNK]
        *v, spare = memory[:, : len(part)]
        for word, start in zip(v, starts, strict=True):
            word.fill(start)

        def rotate(word: Hashes, by: int, spare: Hashes = spare) -> None:
            np.right_shift(word, 64 - by, out=spare)
            word <<= by
            word |= spare

        sip(v, part, rotate)
        hashes[low : low + _CHUNK] = v[0]
    return hashes


def sip_starts(salt: bytes) -> list[int]:
    """The four state words that SipHash starts with."""
    halves = int.from_bytes(salt[:8], "little"), int.from_bytes(salt[8:], "little")
    return [start ^ halves[i % 2] for i, start in enumerate(_STARTS)]


def sip(v: list[Any], words: Any, rotate: Callable[[Any, int], None]) -> None:
    """Update the four state words of SipHash-2-4 in place, for eight-byte words on any device; the hash is ``v[0]``.

    Integers of 64 bits wrap around; ``rotate`` rotates one to the left, in place.
    """
    for message in (words, _LENGTH):
        v[3] ^= message
        _mix(v, 2, rotate)
        v[0] ^= message
    v[2] ^= 0xFF
    _mix(v, 4, rotate)
    for word in v[1:]:
        v[0] ^= word


def _mix(v: list[Any], rounds: int, rotate: Callable[[Any, int], None]) -> None:
    """SipRounds, in place."""
    for _ in range(rounds):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[a] += v[b]
            rotate(v[b], turn)
            v[b] ^= v[a]
            if half:
                rotate(v[a], 32)
