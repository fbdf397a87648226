"""Files of every released version: each must be readable for ever, and rewriting it must give the same bytes.

Should one of these tests fail, it is the program that is wrong, not the file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from erasable import ModelFile, load, verify
from erasable.errors import InputError, StateFormatError
from erasable.models import files as shards
from erasable.models.heads import HEADS
from erasable.models.selections import SELECTIONS
from erasable.models.state import KINDS, Layout
from erasable.operations.inspect import inspect, rows_of
from erasable.schemas import Category, Date, Number, Ordered, Role, Schema, Text, Time, Vector, YesNo
from tests.formats.make import (
    KINDS_SCHEMA,
    LIMITS,
    MODELS,
    TARGETS_SCHEMA,
    main,
    orders,
    raw_rows,
    second_rows,
    wider_rows,
)
from tests.formats.models import rows, texts, wide_rows
from tests.formats.tampering import altered
from verifier.erasable_verify import MEMBERS, ORDER, PUBLIC_AND_DERIVED, WIDTHS, read_container, verdict

HERE = Path(__file__).parent
# Digest of the state: the SHA-256 of the file, unless there are several; then that of the head is in HEAD_FILES.
KEPT = {
    "linear-v1": "245bf40113f023d9116d11123b9947633148fddde4c4de3bfc856377f40150d7",
    "sparse-v1": "45c9e68bb4621b57c7bb1af04b0b2249cde91f17dcbd7714392c7c4972c76abe",
    "shared-v1": "583c8a0e51a4185354b25c222df0946cd160c8385663763d9a3a6aa4cafb4102",
    "logistic-v1": "33279dd08d5464c8776291a2fb44224bd3d2355fd4d845470b56c63ec3882b16",
    "weighted-v1": "4ce69ca74f38eeee2a505a20c185e2e9e92e1b4e4239f17d340568d62b714a5d",
    "regression-v1": "85bb834dc73d442592b3b645714d4642f47ca35a907eaee27614b5c3713b90b5",
    "kernel-v1": "2338d4025e445fcbfedd4154b9dafa5e14e4e1025b40ca6dc89fecc1366dcb60",
    "general-v1": "b24e54e37a55bfd1feea3c289e8997755762ccbec65067389a18efb296fe01e2",
    "core-set-v1": "deb1d4e32305f26437de2edb0c9002ec88d1fc743b98b279f956fd8b9b50cfd7",
    "mapped-v1": "a133bdb93d8138930ff4733c98ed29f06032c5403520f360439895df0203c5b6",
    "schema-v1": "d5f3c015b35812b4c5cfb98dc5da38aa41993092faa1fed71dd8ddb9e93a4f18",
    "sharded-v1": "e9a1724591a1a61493d7ac7b0fdcdf08154a3bb8ec78edb84257112b0f4393b2",
    "wide-grid-v1": "9b9f35e65691569ba84e4e478a8f4753a754bb22f8eed81e96c75e3350e6b946",
    "empty-v1": "48b630a99eefdc8535a14cf11a8ce31e4c076f311449c8f6d7379874f1a4cb76",
    "ridge-v1": "351bd244751ae4fd51de373da6ee205f30d9849d20ea5e4f28bab21463faf571",
    "regression-sparse-v1": "b14a946a2ae77a5b3ae6a40e8860921522d2ce1ab5ee0af5e8b2f1e4c35f2426",
    "regression-sharded-v1": "cc2850cc12f6e992974e74df63550fe4f8e361f78cbeedad6783a3cefa0de1c3",
    "sparse-sharded-v1": "93ea538e576c5cef89cc3fc2c62093ac878d29cd086da639d6a46eeb7803b7df",
    "kernel-function-v1": "6e3963005e4cd0b52ae4b10c2e6f6d00b8c0f7164e1647f5d108107c34d3c826",
    "polynomial-v1": "6c1c80d4b1cda8875733d150ad630a0a88385e66ffce898473074227e5f0b847",
    "staged-v1": "1190a7f0dfc09c2dcbb869cb95c46aaca0920d538d19fe79c7f63ec1d6591413",
    "core-set-sparse-v1": "ba5fd0cdfc46f723d7230de9cf0b4c0b7afb219cf18fca84be339ceb8b3a0583",
    "mapped-texts-v1": "6dccd96f03b44f7e114b78056ff309a981cdcce4b96d820eda2d921fe4df373c",
    "schema-kinds-v1": "19e245f52ce6d9e058ffc6bfcdf25a0e78f78b65fb77d4bc4552be942cff81f8",
    "schema-targets-v1": "927cb59e655e053c43e5175078991d666c3371eea96e03469f4e2488b1012ca5",
    "schema-second-v1": "f73c6c8e77ec719b9e39985cb05aab4f051989bc825dc541fd8aff368c81dca9",
    "independent-v2": "5f2fabcf119441821ec95f42c3844362846ea6267a96f2f30c69d44d305785d1",
    "independent-balanced-v2": "1eb579e14e877030ed0fafb504e6fb22dc54f452a18fa95d3f09c5e9c6a4b856",
    "independent-matrix-v2": "809457776cb5b54453fb84a9d3c5b9be00ae73793e2c25f0452508e5bfb6d997",
    "independent-regression-v2": "d5d89ffab8be53b89cda9296247e4d9400a04b535c89a166ca7bf6761af00496",
    "independent-sparse-v2": "f170ac2e7734dabdc5d3d336af7ed2a60edee5dc9e851b930fa3aba6136715f0",
    "independent-sharded-v2": "78477ae9b4701ff23186b44339da4c74695b45edeb0f8e89e9c1f2b4cdd6f0d0",
    "independent-schema-v2": "50cf088d63d19ed5e743b618f0b4bd0a6a27369afef67e8086ec03b643693e4c",
    "independent-kernel-v2": "3403dc2471340d02deef4eb65068ae5f378945fa2640a912cade7bdc0be39900",
    "spread-leverage-v2": "48dbc10a072ec32864d5856858e7c30444eb7e9c357cd8d238394668f7fcc1e9",
    "spread-independent-v2": "6c079e2bb74162bb092a316c9a8c4f91a80615f9a0ac8c59582d00106407909c",
    "log-leverage-v2": "6048725dcdb75573c167dc791acc7279a041cf2231e77c0e8e4be302b9ab5692",
    "log-independent-v2": "23d06e66750be87c9bbe07d3b22048e42cbcededfbd2983a48041b85243d6e1f",
    "log-trees-v2": "49e9451d905607f6c72ae38b6d2f33ed34960b5d6af090495256d7a86bcf5828",
    "learner-leverage-v2": "a0c16d8a8172ab6da8423eeef979c48b944afef8dff6d0b00caaed0773e14c4a",
    "learner-independent-v2": "b61e937d985712740e5a66ed0d7064d734ae0eead6d8490622c380fecf146520",
    "trees-leverage-v2": "9cf3ea3183681f5637295f1d84e8d767ed5d6b4596986198c105356811aa3701",
    "trees-schema-v2": "7ad835c3e1b19d4516e9bc65f27b0675d0a6d9a7f7a506eb341687ed69550091",
}
HEAD_FILES = {
    "sharded-v1": "6b8d615e39b5d5c5f1d6e7c072534ef5ab4083c68b8f372158c8490253091c17",
    "regression-sharded-v1": "e6e029621d42f29f3c3055bba74691598d95a4595b7ec752c84e25691e8f8edc",
    "sparse-sharded-v1": "68798276b5f0b5a84822c3ea5dfcc37ffa23d789a659f2919d793df6101f0613",
    "independent-sharded-v2": "129a1c1dd2f350be4ad6a91c8bc736e0e76ab88670fe109833ab3f71f9e050ae",
}
# like= is needed to load, or to predict
NEEDED = {"general-v1", "staged-v1", "core-set-v1", "core-set-sparse-v1", "kernel-function-v1", "mapped-v1"}
NEEDED |= {"mapped-texts-v1"}
OFFERED = {
    "general-v1": lambda: rows(20) / 16,
    "sparse-v1": wide_rows,
    "sparse-sharded-v1": wide_rows,
    "regression-sparse-v1": wider_rows,
    "mapped-texts-v1": texts,
    "schema-v1": raw_rows,
    "schema-kinds-v1": orders,
    "schema-targets-v1": raw_rows,
    "schema-second-v1": second_rows,
    "independent-sparse-v2": wide_rows,
    "spread-leverage-v2": lambda: np.hstack([rows(20), np.zeros((20, 1))]),
    "spread-independent-v2": wide_rows,
    "independent-schema-v2": raw_rows,
    "trees-schema-v2": raw_rows,
}


@pytest.fixture(params=KEPT)
def kept(request, monkeypatch):
    """The name of a kept file, and its path."""
    if "sharded" in request.param:
        for name, value in LIMITS.items():
            monkeypatch.setattr(shards, name, value)
    return request.param, HERE / f"{request.param}.erasable"


def version_of(name):
    return int(name[-1])


def like(name):
    return clone(MODELS[name]()) if name in NEEDED else None


def test_the_file_is_the_one_that_was_kept(kept):
    name, path = kept
    assert hashlib.sha256(path.read_bytes()).hexdigest() == HEAD_FILES.get(name, KEPT[name])
    assert inspect(path).digest == KEPT[name]
    assert inspect(path).version == version_of(name)


def test_a_file_of_this_version_is_read_and_verified(kept):
    name, path = kept
    model = load(path, like=like(name))
    assert model.state_digest() == KEPT[name] == verify(model).digest


def test_rewriting_it_gives_the_same_bytes(kept, tmp_path):
    name, path = kept
    load(path, like=like(name)).save(tmp_path / path.name)
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    folder = f".{path.name}.parts"
    left, right = ({p.name: p.read_bytes() for p in (at / folder).glob("*")} for at in (HERE, tmp_path))
    assert left == right
    assert bool(left) == ("sharded" in name)


def test_it_says_what_it_said(kept):
    name, path = kept
    model, made = load(path, like=like(name)), MODELS[name]()
    assert model.core_ids_.tolist() == made.core_ids_.tolist()
    if name == "empty-v1":
        assert model.n_core_ == 0
        return
    X = OFFERED.get(name, rows)()
    assert model.predict(X).tolist() == made.predict(X).tolist()


def test_rows_are_forgotten_in_it(kept, tmp_path):
    name, path = kept
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    if (HERE / f".{path.name}.parts").exists():
        shutil.copytree(HERE / f".{path.name}.parts", tmp_path / f".{path.name}.parts")
    made = MODELS[name]()
    leaving = made.core_ids_[1:4].tolist() or [5]
    made.forget(ids=leaving)
    report = ModelFile(copy, like=like(name)).forget(ids=leaving, digests=True)
    assert report.core_rows_removed == (0 if name == "empty-v1" else 3)
    assert report.digest == made.state_digest()


def test_rows_stored_under_an_empty_subject_can_still_be_forgotten_by_it():
    model = load(HERE / "linear-v1.erasable")
    stored = model._model.core.of_subject[""]
    assert model.forget(subjects=[""]).core_rows_removed == len(stored) > 0
    assert verify(model).digest == model.state_digest()
    with pytest.raises(InputError, match="names nobody"):
        model.forget(subjects=[""])


def test_the_program_still_writes_them(tmp_path):
    """Both versions are frozen: what is kept is what is written today, byte for byte, heads and shards."""
    main(str(tmp_path))
    for name in KEPT:
        path = tmp_path / f"{name}.erasable"
        assert path.read_bytes() == (HERE / path.name).read_bytes()
        folder = f".{path.name}.parts"
        assert {p.name for p in (tmp_path / folder).glob("*")} == {p.name for p in (HERE / folder).glob("*")}


def test_another_version_is_refused_by_name_whatever_the_file_holds(kept, tmp_path):
    """Of a newer version even the layout may be another: tensors of types that nobody knows, no checksum that fits."""
    name, path = kept
    version = version_of(name)

    def newer(header, meta):
        meta["version"] = version + 1
        header["rows2"] = {"dtype": "Q3", "shape": [0], "data_offsets": [0, 0]}

    file = tmp_path / "m.erasable"
    data = altered(path.read_bytes(), newer)
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    said = f"it is version {version + 1} of '.*', and this erasable reads version {version}: install a newer erasable"
    for use in (load, inspect, lambda path: ModelFile(path).forget(ids=[1])):
        before = file.read_bytes()
        with pytest.raises(StateFormatError, match=said):
            use(file)
        assert file.read_bytes() == before
    file.write_bytes(altered(path.read_bytes(), lambda header, meta: meta.update(version=0)))
    with pytest.raises(StateFormatError, match=r"version 0 .*: there is no such version"):
        load(file)


# -- what is kept is all that there is ---------------------------------------------------------------------------------


def kept_files(version="*"):
    """Every kept file and shard, by a reader that was written from the page alone."""
    found = [*HERE.glob(f"*-v{version}.erasable"), *HERE.glob(f".*-v{version}.erasable.parts/*")]
    read = [read_container(path.read_bytes()) for path in sorted(found)]
    return [SimpleNamespace(meta=meta, tensors=t, types={name: t[name].dtype for name in t}) for meta, t in read]


def values(files, member):
    found = [file.meta[member] for file in files if member in file.meta]
    return {tuple(value) if isinstance(value, list) else value for value in found if not isinstance(value, dict)}


def test_there_is_a_file_of_every_format_and_of_every_tensor():
    files = kept_files()
    assert {file.meta["format"] for file in files} == {*KINDS, shards.SHARD}
    for form, order in ORDER.items():
        seen = {name for file in files if file.meta["format"] == form for name in file.tensors}
        assert seen <= {*order}
    seen = {name for file in files for name in file.tensors}
    assert seen == {*PUBLIC_AND_DERIVED, *(name for order in ORDER.values() for name in order)}
    assert {kind for file in files for kind in file.types.values()} == set(WIDTHS)


def test_there_is_a_file_of_every_setting():
    files = kept_files(1)
    assert values(files, "id_kind") == values(files, "subject_kind") == {"int", "str", "bytes", None}
    assert values(files, "class_kind") == {"bool", "int", "float", "str", None}
    assert values(files, "classes_fixed") == values(files, "intercept") == {False, True}
    assert values(files, "loss") == {"squared", "logistic"}
    assert values(files, "class_weight") == {None, "balanced"}  # and one that is an object
    assert any(isinstance(file.meta.get("class_weight"), dict) for file in files)
    assert values(files, "kernel") == {"matern", "poly", "custom"}
    assert values(files, "layout") == {"dense", "csr"}
    assert {"0x0.0p+0"} < values(files, "sample_rate")
    assert {None, "0"} < values(files, "order_key")
    assert {type(scaling) for scaling in values(files, "scaling")} == {str, tuple}
    assert {file.types["rows"] for file in files if "rows" in file.types} == {"I16", "I32", "I64"}
    maps = {json.loads(text)["map"]["map"] for text in values(files, "feature_map") - {None}}
    assert maps == {"random-fourier-features", "hashed-text", "schema"}
    assert {file.meta["sampler"]["map"] for file in files if "sampler" in file.meta} == {"single-pass", "staged"}


def test_there_is_a_file_of_every_selection_and_head_and_of_every_setting_of_version_2():
    files = [file for file in kept_files(2) if file.meta["format"] == Layout.format]
    pairs = {(file.meta["selection"], file.meta["head"]) for file in files}
    code = {"kernel", "general"}  # their pairs of version 1, and learners of the caller's, have formats of their own
    assert {selection for selection, _ in pairs} == {*SELECTIONS} - code
    assert {head for _, head in pairs} == {*HEADS} - {"general", "learner"}
    kinds = {type(file.meta.get("moments")) for file in files}
    assert kinds == {type(None), list, str}
    assert values(files, "balance") == {"0x0.0p+0", "0x1.0000000000000p-1"}
    assert {type(shares) for shares in values(files, "class_shares")} == {type(None), tuple}
    assert {file.types["rows"] for file in files if "rows" in file.types} == {"I16", "I32", "I64"}
    assert any("rows.values" in file.types for file in files)
    assert {file.meta["learner"] for file in files if "learner" in file.meta} == {
        "sklearn_logistic",
        "sklearn_ridge",
        "extra_trees",
        "random_forest",
    }
    assert any("shards" in file.meta for file in files)
    maps = [json.loads(text)["map"] for text in values(files, "feature_map") - {None}]
    assert {of["map"] for of in maps} == {"log", "schema"}
    logs = [of for of in maps if of["map"] == "log"]
    assert {of["missing"] for of in logs} == {None, "indicator", "zero"}
    assert {of["constant"] for of in logs} == {(0.0).hex(), (3.0).hex()}
    assert {of["centres"] is None for of in logs} == {of["scales"] is None for of in logs} == {True, False}


HOSTILE = {
    "brackets": "version = 2\nmissing = " + "[" * 30_000,
    "digits": f"version = 2\nmissing = {'1' * 5000}\n",
    "length": "version = 2\n#" + "#" * 2**24,
    "nothing": "",
    "a newer version": 'version = 3\n[columns.x]\nkind = "yes/no"\n',
    "no columns": "version = 2\n",
    "an unknown kind": 'version = 2\n\n[columns.x]\nkind = "colour"\n',
    "an unknown role": 'version = 2\n\n[columns.x]\nkind = "yes/no"\n\n[columns.y]\nrole = "king"\n',
    "roles alone": 'version = 2\n\n[columns.y]\nrole = "id"\n',
    "no table": "version = 2\n\n[columns]\nx = 3\n",
    "an unknown member": 'version = 2\nspeed = 3\n\n[columns.x]\nkind = "yes/no"\n',
    "no text": 3,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_schema_is_refused_by_both_verifiers(case, tmp_path):
    def hide(header, meta):
        described = json.loads(meta["feature_map"])
        described["map"]["text"] = HOSTILE[case]
        meta["feature_map"] = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    raw = altered((HERE / "schema-second-v1.erasable").read_bytes(), hide)
    path = tmp_path / "m.erasable"
    path.write_bytes(raw)
    with pytest.raises(StateFormatError, match="not a state"):
        load(path)
    with pytest.raises(StateFormatError):
        rows_of(path, ids=["r0"])
    code, found = verdict(path, lambda line: None, lambda done, total: None, False)
    assert code == 4
    assert case == "length" or "feature_map" in str(found)  # a header of that length is refused before


def test_the_page_names_every_member_and_every_tensor():
    page = (HERE.parents[1] / "docs" / "format.md").read_text(encoding="utf-8")
    assert {name for file in kept_files(1) for name in file.meta} == {
        name for names in MEMBERS.values() for name in names
    }
    members = {name for file in kept_files() for name in file.meta}
    tensors = {*PUBLIC_AND_DERIVED, *(name for order in ORDER.values() for name in order)}
    assert [name for name in sorted(members | tensors) if f"`{name}`" not in page] == []


def test_there_is_a_schema_with_every_kind_and_role():
    columns = Schema.parse(KINDS_SCHEMA).columns
    roles = {c.role for c in (*columns, *Schema.parse(TARGETS_SCHEMA).columns) if isinstance(c, Role)}
    assert roles == {"label", "target", "id", "subject", "weight", "ignore"}
    assert {type(c) for c in columns} == {Role, Number, Category, Ordered, YesNo, Date, Time, Text, Vector}
