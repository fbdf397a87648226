"""Schemas as texts and files: one canonical text, read back as it was; and what is refused, in one line."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import TableEncoder
from erasable.errors import ConfigurationError
from erasable.schemas import Category, Cross, Number, Role, Schema, Time
from erasable.schemas.columns import Column
from erasable.schemas.schema import KINDS, toml_table
from tests.schemas.cases import WITH_VECTOR

FULL = Schema.parse(WITH_VECTOR)
HEAD = "version = 2\n"
X = '[columns.x]\nkind = "number"\nscale = 1\n'
C = '[columns.c]\nkind = "category"\nvalues = ["a", "b"]\n'


def test_the_canonical_text_is_that_of_what_it_is_read_as():
    again = Schema.parse(FULL.text)
    assert again == FULL
    assert again.text == FULL.text
    assert hash(again) == hash(FULL)
    assert again.columns == FULL.columns
    assert Schema.parse(CANONICAL).text == CANONICAL


CANONICAL = """version = 2
missing = ["", "-"]

[identity]
subject = ["trim", "casefold"]

[columns.age]
kind = "number"
range = [0, 2.5]
spacing = "log1p"
fill = 1
indicator = false

[columns."post code"]
kind = "category"
values = [
    "1000", "1001", "1002", "1003", "1004", "1005", "1006", "1007", "1008", "1009", "1010",
    "Zürich",
]

[columns.y]
role = "label"
classes = ["no", "yes"]

[columns.member]
kind = "yes/no"

[[crosses]]
columns = ["post code", "member"]
hashed = 5
"""


def test_the_page_shows_every_kind():
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text(encoding="utf-8")
    shown = Schema.parse(page.split("```toml\n")[1].split("```")[0])
    assert {c.KIND for c in shown.features} == set(KINDS)
    for kind in KINDS.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{kind.KIND}`"))
        own = {f.name for f in fields(kind)} - {f.name for f in fields(Column)}
        assert all(
            f"`{name}" in row
            for name in own - ({"parts", "years", "since", "days", "order"} if kind is Time else set())
        )


def test_targets_and_their_ranges_are_written_and_read():
    targets = "[columns.y]\nrole = 'target'\nrange = [0, 1e3]\n[columns.z]\nrole = 'target'\nrange = [-0.5, 2.5]\n"
    schema = Schema.parse(HEAD + X + targets)
    assert schema.target_range == ((0.0, 1000.0), (-0.5, 2.5))
    assert schema.names_of("target") == ("y", "z")
    assert 'role = "target"\nrange = [0, 1000]\n' in schema.text
    assert Schema.parse(schema.text) == schema
    assert Schema.parse(HEAD + X).target_range is None
    assert Schema.parse(HEAD + X + targets + "[columns.w]\nrole = 'target'\n").target_range is None


def test_spelling_defaults_and_comments_do_not_matter_and_the_order_of_columns_does():
    one = Schema.parse(HEAD + X + C)
    other = Schema.parse(
        "# a comment\nversion = 2\n"
        "missing = ['', 'NA', 'na ', 'N/A', '?', '#N/A', '<NA>', 'NaN', 'NaT', 'None', 'null']\n"
        '[columns]\nx = {scale = 1.0, kind = "number", spacing = "linear"}\n'
        'c = {values = ["a ", "b"], kind = "category"}\n'
    )
    assert one == other
    assert one != Schema.parse(HEAD + C + X)
    assert one != Schema.parse(HEAD + "missing = []\n" + X + C)
    assert one != Schema.parse(HEAD + X + C + "[columns.y]\nrole = 'label'\n")


def test_it_is_saved_and_loaded(tmp_path):
    file = tmp_path / "schema.toml"
    FULL.save(file, head="Drafted from a table.\n\nEdit it.")
    assert file.read_text(encoding="utf-8").startswith("# Drafted from a table.\n#\n# Edit it.\n\nversion = 2\n")
    assert Schema.load(file) == FULL
    file.write_bytes(b"\xef\xbb\xbf" + FULL.text.encode())
    assert Schema.load(file) == FULL


@pytest.mark.skipif(os.name != "posix", reason="permissions and pipes of POSIX")
def test_a_file_keeps_its_permissions_and_a_pipe_stays_one(tmp_path):
    for mode in (0o600, 0o664):
        file = tmp_path / ("s" * 247 + f"{mode:o}")  # as long as names of files are
        file.touch()
        file.chmod(mode)
        FULL.save(file)
        assert Schema.load(file) == FULL
        assert stat.S_IMODE(file.stat().st_mode) == mode
    (tmp_path / "plain").touch()
    FULL.save(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert len(list(tmp_path.iterdir())) == 4
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        FULL.save(tmp_path / "pipe")
        assert os.read(reader, 2**16).decode() == FULL.text
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_threads_that_save_at_once_are_not_in_each_other_s_way(tmp_path):
    file = tmp_path / "schema.toml"
    (tmp_path / ".schema.toml.new").write_text("what a killed writer left, and it is longer " * 100)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: FULL.save(file), range(40)))
    assert file.read_text(encoding="utf-8") == FULL.text
    assert list(tmp_path.iterdir()) == [file]


def test_a_schema_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    file = tmp_path / "schema.toml"
    file.write_text("before")
    monkeypatch.setattr("erasable.store._disk.os.fsync", mock.Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space") as told:  # a disk that is full does not say for which file
        FULL.save(file)
    assert told.value.filename == str(file)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"schema.toml": "before"}


def test_it_is_copied_and_pickled():
    assert copy.deepcopy(FULL) is FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL


def test_it_describes_itself_to_a_state():
    assert Schema.parse(FULL.describe()["text"]) == FULL
    assert FULL.takes == "tables"
    assert FULL.names_of("subject") == ("who",)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text().filter(lambda t: not any(0xD800 <= ord(c) <= 0xDFFF for c in t)),
        st.lists(
            st.one_of(
                st.text(st.characters(exclude_categories=["Cs"])),
                st.integers(-(2**53), 2**53),
                st.floats(allow_nan=False, allow_infinity=False),
                st.booleans(),
            )
        ),
    )
)
def test_any_toml_that_is_written_is_read_back(entries):
    written = toml_table("", entries)
    assert tomllib.loads(written) == entries
    assert all(
        isinstance(v, bool) == isinstance(w, bool)
        for k in entries
        for v, w in zip(entries[k], tomllib.loads(written)[k], strict=True)
    )


XI, CI = "columns.x={kind='number',scale=1}\n", "columns.c={kind='category',values=['a', 'b']}\n"
BAD = {
    "no TOML": ("version = ", "no valid TOML"),
    "no version": (X, "has no version, and this erasable reads versions 1 to 2: its first line must be version = 2"),
    "a newer version": ("version = 3\n" + X, "version = 3, and this erasable reads versions 1 to 2: install a"),
    "a version in quotes": ("version = '1'\n" + X, "a version that is no integer, and this erasable reads versions 1"),
    "a version below 1": ("version = 0\n" + X, "first line must be version = 2, without quotes"),
    "a true version": ("version = true\n" + X, "first line must be version = 2"),
    "a version of a column": (HEAD + X + "version = 1\n", "no parameter 'version'"),
    "another name": (HEAD + X + "name = 'y'\n", "no parameter 'name': known are fill"),
    "brackets": (HEAD + "x = " + "[" * 30_000, "no valid TOML: brackets within brackets are too deep"),
    "a long integer": (HEAD + f"x = {'1' * 5000}\n", "no valid TOML: an integer has too many digits"),
    "a large text": (HEAD + "#" * 2**24, "more than 16,777,216 characters"),
    "nothing": (HEAD, "no feature"),
    "roles alone": (HEAD + "columns.y={role='label'}\n", "no feature"),
    "an unknown table": (HEAD + "speed = 3\ncolumns.x={kind='number',scale=1}\n", "no parameter 'speed'"),
    "no table": (HEAD + "[columns]\nx = 3\n", "must be a table"),
    "an unknown kind": (HEAD + "columns.x={kind='colour'}\n", "needs a role, or a kind: number, category"),
    "an unknown role": (HEAD + XI + "columns.y={role='king'}\n", "must be one of 'label'"),
    "an unknown parameter": (
        HEAD + "columns.x={kind='number',scale=1,places=3}\n",
        "no parameter 'places': known are fill, indicator, range",
    ),
    "a double column": (HEAD + X + X, "no valid TOML"),
    "a label among the features": (HEAD + "columns.x={kind='number',scale=1,role='label'}\n", "has a role and a kind"),
    "two labels": (
        HEAD + XI + "columns.y={role='label'}\ncolumns.z={role='label'}\n",
        "2 columns have the role 'label'",
    ),
    "a label and a target": (HEAD + XI + "columns.y={role='label'}\ncolumns.z={role='target'}\n", "both a label and"),
    "a range of a weight": (HEAD + XI + "columns.y={role='weight',range=[0, 1]}\n", "where it is that of a target"),
    "a range the wrong way round": (HEAD + XI + "columns.y={role='target',range=[1, 0]}\n", "lower end first"),
    "half a range": (HEAD + XI + "columns.y={role='target',range=[1]}\n", "two numbers, [low, high]"),
    "classes of an id": (HEAD + XI + "columns.y={role='id',classes=['a','b']}\n", "classes are for a label"),
    "double classes": (HEAD + XI + "columns.y={role='label',classes=['1','1.0']}\n", "two or more, each once"),
    "overlapping edges": (HEAD + "columns.x={kind='number',edges=[1, 3, 2]}\n", "edges must increase"),
    "equal edges": (HEAD + "columns.x={kind='number',edges=[1, 1.0]}\n", "edges must increase"),
    "no edges": (HEAD + "columns.x={kind='number',edges=[]}\n", "list of 1 to"),
    "infinite edges": (HEAD + "columns.x={kind='number',edges=[inf]}\n", "finite number"),
    "an empty range": (HEAD + "columns.x={kind='number',range=[1, 1]}\n", "range must increase"),
    "a range and edges": (HEAD + "columns.x={kind='number',range=[1, 2],edges=[1]}\n", "one of range"),
    "a number without anything": (HEAD + "columns.x={kind='number'}\n", "one of range"),
    "a logarithm of zero": (HEAD + "columns.x={kind='number',range=[0, 2],spacing='log'}\n", "above 0"),
    "bins of a range": (HEAD + "columns.x={kind='number',range=[0, 2],bins='thermometer'}\n", "bins are for edges"),
    "double categories": (HEAD + "columns.c={kind='category',values=['39', 39.0]}\n", "values lists 1 of its 2 twice"),
    "a category that is missing": (HEAD + "columns.c={kind='category',values=['a', 'NA']}\n", "a spelling of missing"),
    "a category without values": (HEAD + "columns.c={kind='category'}\n", "either values"),
    "too many places": (HEAD + "columns.c={kind='category',hashed=100000000}\n", "between 1 and 16777216"),
    "too many features": (
        HEAD + "".join(f"[columns.c{j}]\nkind='category'\nhashed=16777216\n" for j in (1, 2)),
        "at most",
    ),
    "one level": (HEAD + "columns.c={kind='ordered',levels=['a']}\n", "2 or more"),
    "yes and no": (HEAD + "columns.c={kind='yes/no',yes=['a'],no=['A']}\n", "both yes and no"),
    "no parts": (HEAD + "columns.d={kind='date'}\n", "parts must list"),
    "a year without years": (HEAD + "columns.d={kind='date',parts=['year']}\n", "go together"),
    "days since no day": (
        HEAD + "columns.d={kind='date',parts=['days'],since='2020-02-30',days=3}\n",
        "since must be a date",
    ),
    "an order of times": (HEAD + "columns.d={kind='time',order='dmy'}\n", "order is for dates"),
    "years of times": (HEAD + "columns.d={kind='time',years=[2000, 2001]}\n", "go together"),
    "years in reverse": (
        HEAD + "columns.d={kind='date',parts=['year'],years=[2030, 2000]}\n",
        "years must be two different years, the first one first; got [2030, 2000]",
    ),
    "runs in reverse": (
        HEAD + "columns.t={kind='text',words=[2, 1]}\n",
        "words must have the shortest run first: write [1, 2]",
    ),
    "words and characters": (HEAD + "columns.t={kind='text',words=[1,1],characters=[1,2]}\n", "either words"),
    "no length": (HEAD + "columns.v={kind='vector'}\n", "length must be an integer"),
    "a fill of another kind": (HEAD + "columns.x={kind='number',scale=1,fill='a'}\n", "fill must be a finite number"),
    "a cross of one column": (HEAD + CI + "[[crosses]]\ncolumns=['c','c']\n", "two different columns"),
    "a cross of a missing column": (HEAD + CI + "[[crosses]]\ncolumns=['c','d']\n", "there is no column 'd'"),
    "a cross with a label": (
        HEAD + CI + "columns.y={role='label'}\n[[crosses]]\ncolumns=['c','y']\n",
        "has the role 'label'",
    ),
    "a cross of a scaled number": (HEAD + CI + XI + "[[crosses]]\ncolumns=['c','x']\n", "'x' has no places"),
    "a double cross": (
        HEAD + CI + "columns.d={kind='yes/no'}\n[[crosses]]\ncolumns=['c','d']\n[[crosses]]\ncolumns=['c','d']\n",
        "a cross twice",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_schemas_are_refused_in_one_line(case):
    text, said = BAD[case]
    with pytest.raises(ConfigurationError) as caught:
        Schema.parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_is_parsed_once():
    """Opening a model file reads its schema several times."""
    text = HEAD + X + "# parsed once\n"
    with mock.patch.object(tomllib, "loads", wraps=tomllib.loads) as loads:
        assert Schema.parse(text) == Schema.parse(text)
    assert loads.call_count == 1


def test_a_mark_at_the_head_of_a_text_is_passed_over():
    assert Schema.parse("\ufeff" + HEAD + X) == Schema.parse(HEAD + X)


@pytest.mark.parametrize("text", [None, 3, b"version = 2\n"])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^the schema must be a text in TOML; got \w+\.$"):
        Schema.parse(text)


def test_version_1_lists_as_many_values_as_it_did():
    """Version 2 refuses more than 65,536, of which version 1 has no bound but that of its text."""
    values = [f"v{i}" for i in range(2**16 + 1)]
    assert Category(name="c", values=values, version=1).n_codes == 2**16 + 2
    with pytest.raises(ConfigurationError, match=r"values lists 65,537, and 65,536 are allowed: give hashed = n\.$"):
        Category(name="c", values=values)


def test_double_columns_are_refused_in_python_too():
    with pytest.raises(ConfigurationError, match="several columns 'x'"):
        Schema([Number(name="x", scale=1), Role(name="x", role="id")])


@pytest.mark.parametrize("name", ["\ud800", 3])
def test_names_that_are_no_texts_are_refused(name):
    with pytest.raises(ConfigurationError, match="names"):
        Schema([Number(name=name, scale=1)])


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"version = 1\n"])
def test_files_that_are_no_schemas_are_refused(tmp_path, content):
    file = tmp_path / "schema.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        Schema.load(file)
    assert "\n" not in str(caught.value)


def test_a_cross_has_a_feature_for_each_pair():
    schema = Schema([Category(name="a", values=["x"]), Category(name="b", values=["y"])], [Cross(columns=("a", "b"))])
    assert schema.n_features_out == 3 + 3 + 9


def test_a_schema_shows_counts_and_no_values():
    schema = Schema.parse('version = 1\n[columns.town]\nkind = "category"\nvalues = ["Bern", "Oslo"]\n')
    assert repr(schema) == f"Schema(1 columns, {schema.n_features_out} features)"
    assert "Bern" not in repr(TableEncoder(schema))
