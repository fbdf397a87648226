"""The encoding of one row, slow and obvious: Python's integers and fractions, and nothing of the package."""

from __future__ import annotations

import datetime
import functools
import hashlib
import math
import re
import tomllib
from fractions import Fraction

from flint import arb, ctx

STEPS = 2**20
MISSING = {"", "#n/a", "<na>", "?", "n/a", "na", "nan", "nat", "none", "null"}
SPACES = " \t\n\r\x0b\x0c"
YES, NO = ["1", "t", "true", "y", "yes"], ["0", "f", "false", "n", "no"]


@functools.cache
def read(text):
    """The schema, and how many features each column has."""
    schema = tomllib.loads(text)
    return schema, {n: width(c) for n, c in schema["columns"].items() if "kind" in c}


def encode_row(text, row):
    """The encoded row, a list of fractions, of a dict of cells: str, int, float, bool, dates, times, lists or None."""
    schema, widths = read(text)
    version = schema["version"]
    missing = {spelt(m) for m in schema.get("missing", MISSING)}
    out, codes = [], {}
    for name, column in schema["columns"].items():
        if "role" in column:
            continue
        column = {"version": version, **column}
        block, codes[name] = encode_cell(column, row[name], missing)
        empty = block is None
        filled = empty and "fill" in column
        if filled:
            block, codes[name] = encode_cell({**column, "order": "ymd"}, column["fill"], set())
        out += block if block is not None else [0] * widths[name]
        if column.get("indicator", True):
            out.append(int(empty))
    for cross in schema.get("crosses", []):
        of, most = [schema["columns"][c] for c in cross["columns"]], cross.get("bins")
        joined = [math.ceil(n_codes(c) / most) if most and c["kind"] == "number" else 1 for c in of]
        sizes = [math.ceil(n_codes(c) / j) + 1 for c, j in zip(of, joined, strict=True)]
        both = zip((codes[c] for c in cross["columns"]), sizes, joined, strict=True)
        a, b = (s - 1 if c is None else math.floor(Fraction(c, j)) for c, s, j in both)
        n = cross.get("hashed")
        out += one_hot(a * sizes[1] + b, math.prod(sizes)) if n is None else one_hot(place(f"{a} {b}", n), n)
    return out


def spelt(text):
    return "".join(c.lower() if c.isascii() else c for c in text.strip(SPACES))


def canonical(cell, version=2):
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and version == 1:
        return str(int(cell)) if cell == int(cell) and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, int):
        return str(cell)
    text = (cell if isinstance(cell, str) else repr(cell)).strip(SPACES)
    if version == 2:
        return written_out(text)
    if text == "-0" or re.fullmatch(r"-?(0|[1-9][0-9]*)\.0+", text):
        whole = text.split(".")[0]
        return "0" if whole == "-0" else whole
    return spelt(text) if spelt(text) in ("true", "false") else text


def written_out(text):
    """A number digit by digit, a moment and a time of day with their seconds; any other text as it is."""
    match = re.fullmatch(r"(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]\d{1,3}))?", text, re.ASCII)
    if match is not None:
        digits, point = match[2] + (match[3] or ""), len(match[2]) + int(match[4] or 0)
        digits, point = "0" * max(0, -point) + digits, max(0, point)
        digits += "0" * (point - len(digits))
        whole, part = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
        out = whole + ("." + part if part else "")
        return "0" if out == "0" else match[1] + out
    if re.match(r"\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:", text, re.ASCII) and (m := parsed_moment(text, "ymd")):
        return f"{m:%Y-%m-%d %H:%M:%S}".rjust(19, "0").removesuffix(" 00:00:00")
    if re.match(r"\d\d:\d\d:", text, re.ASCII) and (at := parsed_time(text)):
        return f"{at:%H:%M:%S}"
    return spelt(text) if spelt(text) in ("true", "false") else text


def gone(cell, missing):
    return cell is None or cell != cell or (isinstance(cell, str) and spelt(cell) in missing)


def one_hot(code, n):
    return [int(j == code) for j in range(n)]


def thermometer(code, n):
    each = Fraction(math.isqrt(STEPS**2 // (n - 1)), STEPS)
    return [each if code > j else 0 for j in range(n - 1)]


def at_scales(code, n):
    """The bin, the pair of bins, the four bins, ... while there are four of these or more; of norm one together."""
    sizes = [2**j for j in range(20) if j == 0 or math.ceil(n / 2**j) >= 4]
    each = Fraction(math.isqrt(STEPS**2 // len(sizes)), STEPS)
    return [each * v for size in sizes for v in one_hot(code // size, math.ceil(n / size))]


def place(text, n):
    salt = hashlib.blake2b(b"1", digest_size=16).digest()
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=salt).digest(), "little") % n


def stepped(value):
    """A float's nearest multiple of a step, halves to even."""
    return Fraction(round(Fraction(value) * STEPS), STEPS)


def ball(value):
    """The nearest multiple of a step to what a function computes in ball arithmetic."""
    with ctx.workprec(300):
        return Fraction(int(str((value() * STEPS + arb(0.5)).floor().unique_fmpz())), STEPS)


@functools.cache
def on_circle(at, n):
    return [ball(lambda f=f: getattr(arb(2 * at) / n, f)()) for f in ("cos_pi", "sin_pi")]


def n_codes(column):
    match column["kind"]:
        case "category":
            return column["hashed"] if "hashed" in column else len(column["values"]) + 1
        case "ordered":
            return len(column["levels"])
        case "yes/no":
            return 2
        case "number":
            return len(column["edges"]) + 1


def width(column):
    return len(encode_cell({k: v for k, v in column.items() if k != "fill"}, SAMPLES[column["kind"]](column), set())[0])


SAMPLES = {
    "number": lambda c: 1.0,
    "category": lambda c: "x",
    "ordered": lambda c: c["levels"][0],
    "yes/no": lambda c: "yes" if "yes" not in c else c["yes"][0],
    "date": lambda c: datetime.date(2000, 1, 1),
    "time": lambda c: datetime.time(1),
    "text": lambda c: "x",
    "vector": lambda c: [0.0] * c["length"],
}


def encode_cell(column, cell, missing):
    """The features of a cell without the indicator, None where there are none; and its place in crosses."""
    if gone(cell, missing):
        return None, None
    kind = column["kind"].replace("/", "_")
    return globals()[f"encode_{kind}"](column, cell)


def encode_number(column, cell):
    x = cell
    if isinstance(cell, str):
        t = spelt(cell)
        if t in ("true", "false"):
            x = t == "true"
        elif not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", t, re.ASCII):
            return None, None
        else:
            x = float(t)
    x = float(x)
    if "edges" in column:
        code, n = sum(float(e) <= x for e in column["edges"]), len(column["edges"]) + 1
        return {"thermometer": thermometer, "multiscale": at_scales}.get(column.get("bins"), one_hot)(code, n), code
    low, high = column.get("range", [-column.get("scale", 0), column.get("scale", 0)])
    x = float(min(max(x, low), high))
    if column.get("spacing") == "log":
        return [ball(lambda: 2 * (arb(x) / low).log() / (arb(high) / low).log() - 1)], None
    if column.get("spacing") == "log1p":
        return [ball(lambda: 2 * (1 + arb(x)).log() / (1 + arb(high)).log() - 1)], None
    return [stepped(x / high if "scale" in column else (x - low) / (high - low) * 2 - 1)], None


def encode_category(column, cell):
    text, version = canonical(cell, column.get("version", 2)), column.get("version", 2)
    if "hashed" in column:
        code = place(text, column["hashed"])
    else:
        values = [canonical(v, version) for v in column["values"]]
        code = values.index(text) if text in values else len(values)
    return one_hot(code, n_codes(column)), code


def encode_ordered(column, cell):
    levels = [canonical(v, column.get("version", 2)) for v in column["levels"]]
    text = canonical(cell, column.get("version", 2))
    if text not in levels:
        return None, None
    code = levels.index(text)
    return thermometer(code, len(levels)), code


def encode_yes_no(column, cell):
    text = spelt(canonical(cell, column.get("version", 2)))
    if text not in (*column.get("yes", YES), *column.get("no", NO)):
        return None, None
    code = int(text in column.get("yes", YES))
    return [code], code


def encode_date(column, cell):
    if isinstance(cell, str):
        text, version = cell.strip(SPACES), column.get("version", 2)
        cell = parsed_moment(text, column.get("order", "ymd")) or (parsed_moment(text, "ymd") if version > 1 else None)
        if cell is None:
            return None, None
    if isinstance(cell, datetime.datetime):
        moment = cell.astimezone(datetime.UTC).replace(tzinfo=None) if cell.tzinfo else cell
    else:
        moment = datetime.datetime(cell.year, cell.month, cell.day)
    out = []
    bins = column.get("encoding") == "bins"
    for part in ("year", "month", "day", "weekday", "hour", "days"):
        if part not in column["parts"]:
            continue
        if part == "year":
            low, high = column["years"]
            year = min(max(moment.year, low), high)
            out += one_hot(year - low, high - low + 1) if bins else [stepped((year - low) / (high - low) * 2 - 1)]
        elif part == "days":
            days = (moment.date() - datetime.date.fromisoformat(str(column["since"]))).days
            out.append(stepped(min(max(days / column["days"], -1), 1)))
        else:
            at, n = {
                "month": (moment.month - 1, 12),
                "day": (moment.day - 1, 31),
                "weekday": (moment.weekday(), 7),
                "hour": (moment.hour, 24),
            }[part]
            out += one_hot(at, n) if bins else on_circle(at, n)
    return out, None


def parsed_moment(text, order):
    match = re.fullmatch(
        r"(\d+)([-/.])(\d+)\2(\d+)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?",
        text,
        re.ASCII,
    )
    if match is None:
        return None
    number = dict(zip(order, (match[1], match[3], match[4]), strict=True))
    if len(number["y"]) != 4 or len(number["m"]) > 2 or len(number["d"]) > 2:
        return None
    try:
        moment = datetime.datetime(
            *(int(number[p]) for p in "ymd"), int(match[5] or 0), int(match[6] or 0), int(match[7] or 0)
        )
    except ValueError:
        return None
    zone = match[8]
    if zone in (None, "Z", "UTC"):
        return moment
    hours, minutes = int(zone[1:3]), int(zone[3:].replace(":", "") or 0)
    return moment - (1 if zone[0] == "+" else -1) * datetime.timedelta(hours=hours, minutes=minutes)


def parsed_time(text):
    match = re.fullmatch(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?", text, re.ASCII)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        return None
    return datetime.time(int(match[1]), int(match[2]), int(match[3] or 0))


def encode_time(column, cell):
    if isinstance(cell, str) and (cell := parsed_time(cell.strip(SPACES))) is None:
        return None, None
    return encode_date({**column, "parts": ["hour"]}, datetime.datetime(2000, 1, 1, cell.hour))


def encode_text(column, cell):
    raw = isinstance(cell, str) and column.get("version", 2) == 1
    text = cell.strip(SPACES) if raw else canonical(cell, column.get("version", 2))
    words, word = [], ""
    for c in text + " ":
        o = ord(c)
        capital = 65 <= o <= 90 or (0xC0 <= o <= 0xDE and o != 0xD7) or 0x391 <= o <= 0x3A9 or 0x400 <= o <= 0x42F
        c = chr(o + (80 if 0x400 <= o <= 0x40F else 32)) if capital else c
        between = 0x80 <= o <= 0xBF or o in (0xD7, 0xF7) or 0x2000 <= o <= 0x206F or 0x3000 <= o <= 0x303F
        between = between or 0xFF00 <= o <= 0xFF0F or 0xFF1A <= o <= 0xFF20
        if (c.isascii() and (c.isalnum() or c == "_")) or (o > 127 and not between):
            word += c
        elif word:
            words.append(word)
            word = ""
    if "words" in column:
        low, high = column["words"]
        terms = [" ".join(words[i : i + n]) for n in range(low, high + 1) for i in range(len(words) - n + 1)]
    else:
        low, high = column["characters"]
        line = " " + " ".join(words) + " " if words else ""
        terms = [line[i : i + n] for n in range(low, high + 1) for i in range(len(line) - n + 1)]
    n = column.get("places", 256)
    counts = [0] * n
    for term in terms:
        counts[place(term, n)] += 1
    counts = [min(c, column.get("cap", 3)) for c in counts]
    square = sum(c * c for c in counts)
    return [Fraction(math.isqrt(c * c * STEPS**2 // square), STEPS) if c else 0 for c in counts], None


def encode_vector(column, cell):
    x = [math.nan if v is None else float(v) for v in cell]
    if len(x) != column["length"] or not all(map(math.isfinite, x)):
        return None, None
    scale = float(column.get("scale", 1))
    largest = max(max(map(abs, x)), scale)
    steps = [round(Fraction(v / largest) * STEPS) if v / largest * STEPS == v / largest * STEPS else 0 for v in x]
    square = sum(s * s for s in steps)
    if square > STEPS**2:
        steps = [(-1 if s < 0 else 1) * math.isqrt(s * s * STEPS**2 // square) for s in steps]
    return [Fraction(s, STEPS) for s in steps], None
