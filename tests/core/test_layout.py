"""The layout itself: one spelling for one thing, and bytes that are hostile cost no more than they weigh."""

from __future__ import annotations

import contextlib
import copy
import json
import struct
import tracemalloc

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load as load_safetensors

from erasable.core import layout, names
from erasable.core.layout import (
    canonical_json,
    digest_of,
    parse,
    parts,
    read_meta,
    read_sealed,
    same_bytes,
    same_content,
)
from erasable.core.names import read_keys
from erasable.errors import ErasableError, StateFormatError
from tests.formats.models import CASES, read_back
from tests.formats.tampering import WRITTEN, altered, closed, opened, rebuilt, sealed, tensors, with_header


@pytest.fixture(scope="module")
def files():
    """A file of every kind."""
    return {name: b"".join(case.fitted()._model.snapshot().pieces) for name, case in CASES.items()}


NAMES = list(CASES)


# -- one spelling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_metadata_is_spelt_as_rfc_8785_says(files, name):
    _, meta, _ = opened(files[name])
    raw = json.loads(files[name][8 : 8 + int.from_bytes(files[name][:8], "little")])["__metadata__"]["erasable"]
    assert raw.encode() == rfc8785.dumps(meta)
    assert meta["checksum"] == read_meta(files[name])["checksum"]
    if meta.get("feature_map") is not None:
        assert meta["feature_map"].encode() == rfc8785.dumps(json.loads(meta["feature_map"]))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abz_0é\n", max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_canonical_json_is_rfc_8785(value):
    assert canonical_json(value).encode() == rfc8785.dumps(value)


@given(st.integers(-(2**70), 2**70))
def test_integers_that_others_would_round_are_texts(n):
    text = canonical_json([n])
    assert text.encode() == rfc8785.dumps(json.loads(text))
    assert int(json.loads(text)[0]) == n
    assert isinstance(json.loads(text)[0], int) == (abs(n) < 2**53)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_floats_are_told_apart_to_the_bit_and_spelt_alike_everywhere(a, b):
    text = canonical_json({"x": [a, (b,)]})
    assert json.loads(text) == {"x": [a.hex(), [b.hex()]]}
    assert text.encode() == rfc8785.dumps(json.loads(text))


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_read_by_the_safetensors_library(files, name, tmp_path):
    data = files[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    stored = tensors(data)
    types = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "F32": "<f4", "U8": "|u1"}
    with safe_open(path, framework="numpy") as found:
        assert set(found.metadata()) == {"erasable"}
        assert set(found.keys()) == set(stored)
        for key, (dtype, shape, raw) in stored.items():
            array = found.get_tensor(key)
            assert array.dtype == np.dtype(types[dtype])
            assert list(array.shape) == shape
            assert array.tobytes() == raw
    assert set(load_safetensors(data)) == set(stored)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_aligned_and_without_gaps(files, name):
    header, _, body = opened(files[name])
    end = 0
    for entry in header.values():
        low, high = entry["data_offsets"]
        assert low == end
        assert (len(files[name]) - len(body) + low) % {"I64": 8, "F32": 4, "I32": 4, "I16": 2, "U8": 1}[
            entry["dtype"]
        ] == 0
        end = high
    assert end == len(body)


@pytest.mark.parametrize("name", NAMES)
def test_reading_what_is_sealed_gives_views(files, name):
    meta, arrays = read_sealed(files[name])
    assert meta == opened(files[name])[1]
    for key, (_, shape, raw) in tensors(files[name]).items():
        assert list(arrays[key].shape) == shape
        assert arrays[key].tobytes() == raw
        assert not arrays[key].flags.writeable


# -- damage ------------------------------------------------------------------------------------------------------


def spoilt(data, start=0):
    """Files that differ in one place from this one, and some that are cut off or longer."""
    for position in range(start, len(data), 5):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        yield bytes(bad)
        if position % 3 == 0:
            yield data[:position]
    yield data + b"\0"
    yield data + data


@pytest.mark.parametrize("name", NAMES)
def test_flips_and_cuts_are_refused_by_every_reader(files, name):
    """Every bit of a header is tried in ``models/test_linear_state``; here every fifth byte of all formats."""
    case, data = CASES[name], files[name]
    like = case.make() if case.needed else None
    for bad in spoilt(data, start=NAMES.index(name) % 5):
        for read in (read_sealed, lambda b: read_back(b, like)):
            with pytest.raises(StateFormatError):
                read(bad)


@pytest.mark.parametrize("name", NAMES)
def test_one_more_tensor_is_refused(files, name):
    """Even an empty one: there would be two files with the same state."""
    case, (_, meta, _) = CASES[name], opened(files[name])
    for extra in ("zz", "ids.present", "subjects.present"):
        more = rebuilt(meta, {**tensors(files[name]), extra: ("U8", [0], b"")})
        if more != files[name]:
            read_sealed(more)
            with pytest.raises(StateFormatError):
                read_back(more, case.make() if case.needed else None)


def one(**changes):
    """A small file of no particular format."""
    meta = {"format": "erasable-linear", "version": 1, **changes}
    return b"".join(
        parts(meta, {"a": ("I64", np.arange(6).reshape(2, 3)), "b": ("U8", np.arange(5)), "c": ("I16", np.arange(4))})
    )


def put(*path, value):
    """A change of the header that puts a value in a place."""

    def change(header, meta):
        *way, last = path
        for step in way:
            header = header[step]
        header[last] = value

    return change


BAD_HEADERS = {
    "overlapping": put("c", "data_offsets", value=[40, 48]),
    "the same bytes twice": put("c", "data_offsets", value=[0, 8]),
    "out of range": put("b", "data_offsets", value=[56, 62]),
    "far out of range": put("b", "data_offsets", value=[56, 2**63]),
    "backwards": put("b", "data_offsets", value=[61, 56]),
    "negative": put("a", "data_offsets", value=[-8, 48]),
    "negative, from the end": put("b", "data_offsets", value=[-5, 61]),
    "three offsets": put("b", "data_offsets", value=[56, 60, 61]),
    "offsets that are floats": put("a", "data_offsets", value=[0.0, 48.0]),
    "offsets that are text": put("a", "data_offsets", value=["0", "48"]),
    "offsets that are truth values": put("a", "data_offsets", value=[False, 48]),
    "no offsets": put("a", "data_offsets", value=None),
    "a shape that is too large": put("a", "shape", value=[2, 4]),
    "a shape whose product overflows": put("a", "shape", value=[2**32, 2**32, 6]),
    "a shape whose product overflows to the right one": put("a", "shape", value=[2**63, 2, 3]),
    "a shape to be guessed": put("a", "shape", value=[-1, 3]),
    "a shape that is a number": put("a", "shape", value=6),
    "a shape of nothing": put("a", "shape", value=[0]),
    "a shape with floats": put("a", "shape", value=[2.0, 3]),
    "many dimensions": put("a", "shape", value=[1] * 70 + [6]),
    "another type": put("a", "dtype", value="F32"),
    "a type of objects": put("a", "dtype", value="O"),
    "an unknown type": put("a", "dtype", value="F64"),
    "a type that is a list": put("a", "dtype", value=["I64"]),
    "an entry with more in it": put("a", "more", value=1),
    "an entry that is a list": put("a", value=[1, 2]),
    "an entry that is nothing": put("a", value=None),
    "one tensor less": lambda header, meta: header.pop("b"),
    "another order": lambda header, meta: header.update(a=header.pop("a")),
    "a name that is no text in Unicode": lambda header, meta: header.update({"\ud800": header.pop("b")}),
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_a_header_that_makes_no_sense_is_refused(what):
    data = one()
    read_sealed(data)
    header, meta, body = opened(data)
    BAD_HEADERS[what](header, meta)
    text = json.dumps({"__metadata__": {"erasable": canonical_json(meta)}, **header}, separators=(",", ":"))
    for spelt in (text.encode(), json.dumps(json.loads(text), **WRITTEN).encode(errors="surrogatepass")):
        with pytest.raises(StateFormatError):
            read_sealed(with_header(spelt, body))


def test_tensors_that_share_bytes_are_refused_before_anything_is_done_with_them():
    """Some hundred thousand that all span the file would be hashed for hours."""
    data = one()
    for entry in ([0, 61], [40, 45], [48, 53], [57, 61]):
        with pytest.raises(StateFormatError, match=r"overlap|after"):
            parse(altered(data, put("b", "data_offsets", value=entry)))
    with pytest.raises(StateFormatError, match="after"):
        parse(data + b"\0")


def header_text(data):
    return data[8 : 8 + int.from_bytes(data[:8], "little")].rstrip(b" ")


OTHER_SPELLINGS = {
    "a space": lambda t: t.replace(b',"a"', b', "a"', 1),
    "a key twice": lambda t: t.replace(b'"shape":[5]', b'"shape":[9],"shape":[5]', 1),
    "a tensor twice": lambda t: t.replace(b',"b":', b',"b":{"dtype":"U8","shape":[5],"data_offsets":[56,61]},"b":', 1),
    "metadata twice": lambda t: t.replace(b'{"__metadata__":', b'{"__metadata__":{"erasable":"{}"},"__metadata__":', 1),
    "more metadata": lambda t: t.replace(b'},"a":', b',"format":"pt"},"a":', 1),
    "a version twice": lambda t: t.replace(rb"\"version\":1", rb"\"version\":9,\"version\":1", 1),
    "a letter escaped": lambda t: t.replace(b'"dtype":"U8"', rb'"dtype":"\u00558"', 1),
    "a letter of the metadata escaped": lambda t: t.replace(rb"\"format\"", rb"\"f\\u006frmat\"", 1),
    "a number with an exponent": lambda t: t.replace(b"[5]", b"[5e0]", 1),
    "a minus": lambda t: t.replace(b'"data_offsets":[0,', b'"data_offsets":[-0,', 1),
    "not a number": lambda t: t.replace(rb"\"version\":1", rb"\"version\":NaN", 1),
    "keys in another order": lambda t: t.replace(
        rb"\"format\":\"erasable-linear\",\"version\":1", rb"\"version\":1,\"format\":\"erasable-linear\"", 1
    ),
    "a tab for padding": lambda t: t + b"\t",
    "another value after it": lambda t: t + b" {}",
    "a byte order mark": lambda t: b"\xef\xbb\xbf" + t,
    "no utf-8": lambda t: t.replace(b'"b"', b'"\xff"', 1),
    "a list": lambda t: b"[" + t + b"]",
    "a word": lambda t: b'"header"',
    "nothing": lambda t: b"",
    "no metadata": lambda t: b"{}",
    "metadata of others": lambda t: b'{"__metadata__":{"format":"pt"}}',
    "metadata that is no text": lambda t: b'{"__metadata__":{"erasable":{}}}',
    "metadata that is a list": lambda t: b'{"__metadata__":{"erasable":"[]"}}',
    "metadata that is a number": lambda t: b'{"__metadata__":{"erasable":"7"}}',
    "metadata without a checksum": lambda t: (
        rb'{"__metadata__":{"erasable":"{\"format\":\"erasable-linear\",\"version\":1}"}}'
    ),
}


@pytest.mark.parametrize("what", OTHER_SPELLINGS)
def test_another_spelling_of_the_same_is_refused(what):
    data = one()
    text, body = header_text(data), opened(data)[2]
    assert with_header(text, body) == data
    spelt = OTHER_SPELLINGS[what](text)
    assert spelt != text
    bad = with_header(spelt, body)
    for read in (read_sealed, lambda b: read_back(b)):
        with pytest.raises(StateFormatError):
            read(bad)


def test_wider_or_misplaced_padding_is_refused():
    data = one()
    text, body = header_text(data), opened(data)[2]
    padded = text + b" " * (-len(text) % 8 + 8)
    with pytest.raises(StateFormatError):
        read_sealed(sealed(struct.pack("<Q", len(padded)) + padded + body))
    bare = text + b" " * (-len(text) % 8 - 1) if len(text) % 8 else text + b" "
    with pytest.raises(StateFormatError):
        read_sealed(sealed(struct.pack("<Q", len(bare)) + bare + body))


# -- bombs -------------------------------------------------------------------------------------------------------


def peak(call):
    """Bytes allocated at most while this runs, over what was there before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def in_meta(text):
    return b'{"__metadata__":{"erasable":' + json.dumps(text).encode() + b"}}"


LONG = layout.LONGEST_HEADER - 200
BOMBS = {
    "deep lists": lambda: b"[" * 100_000,
    "deep lists, closed": lambda: b"[" * 100_000 + b"]" * 100_000,
    "deep objects": lambda: b'{"a":' * 50_000,
    "deep metadata": lambda: in_meta("[" * 100_000 + "]" * 100_000),
    "many lists": lambda: b"[" + b"[]," * (LONG // 3) + b"[]]",
    "many objects": lambda: b"[" + b"{}," * (LONG // 3) + b"{}]",
    "many floats": lambda: b"[" + b".5," * 10 + b"1.5," * (LONG // 4) + b"1]",
    "many texts": lambda: b"[" + b'"ab",' * (LONG // 5) + b"1]",
    "many keys": lambda: b"{" + b",".join(b'"%x":0' % i for i in range(LONG // 11)) + b"}",
    "many lists in the metadata": lambda: in_meta("[" + "[]," * (LONG // 3 - 40) + "[]]"),
    "many lists, written otherwise": lambda: (
        b'{"__metadata__":{"erasable":"' + rb"\u005b" + rb"\u005b\u005d\u002c" * (LONG // 18 - 5) + b'0]"}}'
    ),
    "many objects, written otherwise": lambda: (
        b'{"__metadata__":{"erasable":"' + rb"\u005b" + rb"\u007b}\u002c" * (LONG // 13 - 5) + b'0]"}}'
    ),
    "a long number": lambda: in_meta('{"format":' + "9" * (LONG - 100) + "}"),
    "many tensors": lambda: (
        b"{" + b",".join(b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(LONG // 60)) + b"}"
    ),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_header_made_to_explode_does_not(what):
    data = with_header(BOMBS[what]())
    assert len(data) <= layout.LONGEST_HEADER + 8

    def attempt():
        for read in (read_sealed, read_meta):
            with pytest.raises(StateFormatError):
                read(data)

    assert peak(attempt) < 50e6


@pytest.mark.parametrize("claimed", [2**63, 2**64 - 1, 2**40, layout.LONGEST_HEADER + 1, 1_000_000])
def test_a_header_that_claims_to_be_longer_than_it_is_costs_nothing(claimed):
    data = struct.pack("<Q", claimed) + one()[8:]

    def attempt():
        for read in (read_sealed, read_meta, parse):
            with pytest.raises(StateFormatError):
                read(data)

    assert peak(attempt) < 1e5


def test_a_header_that_is_too_long_is_not_parsed():
    data = with_header(b"{" + b" " * (layout.LONGEST_HEADER + 8) + b"}")
    with pytest.raises(StateFormatError, match="8,388,608"):
        parse(data)
    with pytest.raises(StateFormatError):
        read_meta(data)


def test_a_header_too_long_to_be_read_again_is_not_written():
    for meta in ({"names": "x" * layout.LONGEST_HEADER}, {"names": [0] * (layout.MOST_VALUES + 1)}):
        with pytest.raises(StateFormatError, match="allowed"):
            parts({"format": "f", "version": 1, **meta}, {})


def test_names_and_scales_of_a_hundred_thousand_features_are_written():
    meta = {
        "format": "f",
        "version": 1,
        "names": [f"column number {i}" for i in range(100_000)],
        "scaling": [(0.1 + i).hex() for i in range(100_000)],
    }
    data = b"".join(parts(meta, {}))
    assert {**meta, "checksum": read_meta(data)["checksum"]} == read_sealed(data)[0]


@pytest.mark.parametrize("ends", [[9, 0, 9, 0], [3, 2, 9, 9], [-1, 0, 0, 9], [0, 0, 0, 8], [0, 0, 0, 10], [9, 9, 9]])
def test_texts_that_are_cut_out_of_each_other_are_refused(ends):
    blob = np.frombuffer(b"abcdefghi", dtype=np.uint8)
    with pytest.raises((StateFormatError, KeyError)):
        read_keys({"ids": blob, "ids.ends": np.array(ends)}, "ids", "str", 4)


def test_ids_that_repeat_one_long_text_do_not_multiply_it():
    """A text of a megabyte, cut out again and again, would be some twenty gigabytes of ids."""
    data = b"".join(CASES["linear"].fitted()._model.snapshot().pieces)
    _, meta, _ = opened(data)
    found = tensors(data)
    n, size = 40_000, 1_000_000
    ends = np.tile([size, 0], n // 2).astype("<i8").tobytes()
    found |= {
        "ids": ("U8", [size], b"x" * size),
        "ids.ends": ("I64", [n], ends),
        "labels": ("I32", [n], bytes(4 * n)),
        "rows": ("I16", [n, 4], bytes(8 * n)),
    }
    bad = rebuilt(meta, found)

    def attempt():
        with pytest.raises(StateFormatError):
            read_back(bad)

    assert peak(attempt) < 50e6


# -- versions and formats ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_newer_version_is_named_with_what_to_do(files, name):
    case, (_, meta, _) = CASES[name], opened(files[name])
    version = meta["version"] + 1
    for like in (None, case.make()):
        newer = altered(files[name], lambda header, meta: meta.update(version=version, more={"of": ["this"]}))
        with pytest.raises(StateFormatError, match=rf"version {version} .*install a newer erasable"):
            read_back(newer, like)
        for odd in (0, -1, None, "1", 1.5, [1], "v" * 1000):
            older = altered(files[name], lambda header, meta, v=odd: meta.update(version=v))
            with pytest.raises(StateFormatError, match="no such version") as caught:
                read_back(older, like)
            assert len(str(caught.value)) < 300


@pytest.mark.parametrize("form", ["erasable-future-state", "", "erasable-shard", "f" * 100_000])
def test_a_format_that_is_not_known_is_named_with_what_to_do(files, form):
    other = altered(files["linear"], lambda header, meta: meta.update(format=form))
    with pytest.raises(StateFormatError, match="install a newer erasable") as caught:
        read_back(other)
    assert len(str(caught.value)) < 300


# -- any change at all -------------------------------------------------------------------------------------------

_JUNK = [None, True, -1, 0, 1, 2, 10**12, 10**30, 0.5, "", "row", "nan", "inf", "-0x1p+0", "0x1p-1074", [], ["0x1p+0"]]
_JUNK += ["{}", "[]", "null", "[{}]", '{"map":{}}', '{"n_features":3}', '{"map":{"a":[[{}]]},"n_features":3}', {"": {}}]
_JUNK += [[[]], {}, "9" * 400, "a\0b", [1, 2], {"a": []}, ["ape", "bee", "cow"], "int", "str", "bytes", "float", "bool"]


@st.composite
def mutations(draw, data):
    """The file with some of its values, tensors or bytes changed, sealed again."""
    header, meta, body = opened(data)
    found = tensors(data)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["meta", "meta", "tensor", "tensor", "entry", "names"]))
        if kind in ("meta", "entry"):
            place = meta if kind == "meta" else header
            while True:
                key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
                inner = place[key]
                if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
                    break
                place = inner
            if isinstance(place, dict) and draw(st.integers(0, 9)) == 0:
                del place[key]
            else:
                place[key] = copy.deepcopy(draw(st.sampled_from(_JUNK)))  # the next change may go inside it
            if kind == "entry":
                return closed(header, meta, body)
        elif kind == "tensor":
            name = draw(st.sampled_from(sorted(found)))
            dtype, shape, raw = found[name]
            raw = bytearray(raw)
            for _ in range(draw(st.integers(0, 3)) if raw else 0):
                raw[draw(st.integers(0, len(raw) - 1))] = draw(st.sampled_from([0, 1, 2, 127, 128, 254, 255]))
            width = {"I64": 8, "F32": 4, "I32": 4, "I16": 2, "U8": 1}[dtype]
            if draw(st.integers(0, 3)) == 0 and len(shape) == 1 and shape[0] > 1:
                shape, raw = [shape[0] - 1], raw[:-width]
            found = {**found, name: (dtype, shape, bytes(raw))}
        else:
            name = draw(st.sampled_from(sorted(found)))
            moved = found[name]
            found = {k: v for k, v in found.items() if k != name}
            if draw(st.booleans()):
                found[draw(st.sampled_from(["rows", "ids", "subjects", "other", "ids.present"]))] = moved
    return rebuilt(meta, found)


@pytest.mark.filterwarnings("ignore")  # of learners, about rows that nobody gave them
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(st.data())
def test_any_change_is_refused_or_gives_the_very_bytes_and_verify_decides(files, name, data):
    case = CASES[name]
    try:
        bad = data.draw(mutations(files[name]))
    except UnicodeEncodeError:
        return
    try:
        model = read_back(bad, case.make() if case.needed else None).model_
    except ErasableError:
        return
    try:
        assert b"".join(model.snapshot().pieces) == bad
        model.verify()
    except ErasableError:
        return
    if bad != files[name]:
        assert digest_of([bad]) == model.snapshot().digest != digest_of([files[name]])


def places(value, path=()):
    """Every place in a tree of JSON, the root left out."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_value(data, path, value):
    header, meta, body = opened(data)
    tree = {"meta": meta, "header": header}
    place = tree
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return closed(tree["header"], tree["meta"], body)


GONE = object()


@pytest.mark.filterwarnings("ignore")  # of learners, about rows that nobody gave them
@pytest.mark.parametrize("name", ["linear, int ids", "poly", "kernel function", "general", "mapped", "core set, ridge"])
def test_any_value_in_the_place_of_any_other_is_read_or_refused_by_every_reader(files, name, tmp_path):
    """Every value of the header and every entry of the metadata, one after the other, replaced by junk and sealed."""
    from erasable.audit._scan_files import read_header
    from erasable.operations.inspect import inspect

    like, path = CASES[name].make(), tmp_path / "m.erasable"
    header, meta, _ = opened(files[name])
    readers = [
        lambda data: read_back(data),
        lambda data: read_back(data, like),
        lambda data: inspect(path, rows=True),
    ]
    for place in places({"meta": meta, "header": header}):
        if len(place) == 1 or place[-1] == "checksum":
            continue
        for value in [GONE, *(_JUNK if place[0] == "meta" else _JUNK[::5])]:
            data = with_value(files[name], place, value)
            path.write_bytes(data)
            for read in readers:
                with contextlib.suppress(ErasableError):
                    read(data)
            with open(path, "rb") as file:
                read_header(file.fileno(), len(data))


NESTED = {
    "lists": "[" + "[]," * 90_000 + "0]",
    "lists, written otherwise": "[" + r"\u005b]\u002c" * 400_000 + "0]",
    "objects, written otherwise": "[" + r"\u007b}\u002c" * 400_000 + "0]",
    "a map, written otherwise": r'{"map":{"a":[' + r"\u007b}\u002c" * 400_000 + '0]},"n_features":3}',
}


@pytest.mark.parametrize("what", NESTED)
def test_a_feature_map_made_to_explode_does_not(files, what, tmp_path):
    """It is JSON in a text in JSON in a text in JSON: brackets may be hidden twice."""
    from erasable.audit._scan_files import read_header

    data = altered(files["mapped"], lambda header, meta: meta.update(feature_map=NESTED[what]))
    assert len(data) <= layout.LONGEST_HEADER
    path = tmp_path / "m.erasable"
    path.write_bytes(data)

    def attempt():
        with pytest.raises(StateFormatError):
            read_back(data)
        with open(path, "rb") as file:
            read_header(file.fileno(), len(data))

    assert peak(attempt) < 70e6


@pytest.mark.parametrize("what", BOMBS)
def test_the_scan_reads_no_header_that_explodes(what, tmp_path):
    from erasable.audit._scan_files import read_header
    from erasable.operations.export import _is_stamped

    path = tmp_path / "m.erasable"
    path.write_bytes(with_header(BOMBS[what]()))

    def attempt():
        with open(path, "rb") as file:
            assert read_header(file.fileno(), path.stat().st_size) is None
        assert not _is_stamped(path, path.read_bytes())

    assert peak(attempt) < 50e6


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(0, 60), st.binary(max_size=1))
def test_same_bytes_is_equality(pieces, at, wrong):
    whole = b"".join(pieces)
    assert same_bytes(whole, pieces) or not whole
    other = whole[:at] + wrong + whole[at + 1 :]
    if whole and other:
        assert same_bytes(other, pieces) == (other == whole)
    view = memoryview(whole)
    if len(whole) > 1:
        assert same_bytes(whole, [view[:1], view[1:]])
        assert not same_bytes(whole, [view[1:], view[:1]]) or whole[1:] + whole[:1] == whole
        assert not same_bytes(whole, [view, view[-1:]])


@pytest.mark.parametrize("past", [2**63, -(2**63) - 1, 10**30])
def test_an_integer_label_past_64_bits_is_none(past):
    with pytest.raises(ValueError, match="64 bits"):
        names.read_label("int", str(past))
    assert [names.read_label("int", str(v)) for v in (-(2**63), 2**63 - 1)] == [-(2**63), 2**63 - 1]


@pytest.mark.parametrize("name", CASES)
def test_the_same_content_makes_the_same_bytes(name):
    """A change of any entry of a tensor, of its name, type or shape, or of the metadata is seen."""
    state = CASES[name].fitted()._model.snapshot()
    meta, tensors = state.header(), state.tensors
    copied = {key: (kind, np.array(array, dtype=layout.DTYPES[kind])) for key, (kind, array) in tensors.items()}
    assert same_content((meta, tensors), (copy.deepcopy(meta), copied))
    assert not same_content((meta, tensors), ({**meta, "version": 99}, copied))
    assert not same_content((meta, tensors), (meta, dict(reversed(copied.items()))))
    for key, (kind, array) in copied.items():
        if array.size:
            changed = array.copy()
            changed.reshape(-1).view(np.uint8)[-1] ^= 1
            assert not same_content((meta, tensors), (meta, {**copied, key: (kind, changed)}))
            flat = array.reshape(1, *array.shape)
            assert not same_content((meta, tensors), (meta, {**copied, key: (kind, flat)}))
