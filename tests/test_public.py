"""The public surface: every name is there, found on demand, and seen by type checkers."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

import erasable
from erasable.version import RELEASE


def after(code: str) -> list[str]:
    """Heavy packages that are loaded after some code has run in a fresh process."""
    code += "\nimport sys\nprint(*[m for m in ('numpy', 'scipy', 'sklearn', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=300)
    return done.stdout.split()


@pytest.mark.parametrize("name", erasable.__all__)
def test_every_name_is_found_and_listed(name):
    vars(erasable).pop(name) if name in erasable._HOMES and name in vars(erasable) else None
    assert getattr(erasable, name) is getattr(erasable, name)
    assert getattr(erasable, name).__name__ == name
    assert name in dir(erasable)
    assert name in vars(erasable)  # the second time it is an attribute like any other


def test_names_are_listed_before_they_are_asked_for():
    assert after("import erasable; assert set(erasable.__all__) <= set(dir(erasable))") == []


def test_the_list_is_sorted_and_names_nothing_twice():
    assert erasable.__all__ == sorted(set(erasable.__all__))


def test_a_star_import_gives_the_list():
    names: dict[str, object] = {}
    exec("from erasable import *", names)
    assert {n for n in names if n != "__builtins__"} == set(erasable.__all__)


def test_type_checkers_see_the_same_names_from_the_same_places():
    tree = ast.parse(Path(erasable.__file__).read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert set(seen) == set(erasable.__all__)
    assert seen == erasable._HOMES
    for name, home in seen.items():
        assert getattr(import_module(home), name) is getattr(erasable, name)


def test_every_error_is_in_one_place():
    from erasable import errors

    known = {n for n, e in vars(errors).items() if isinstance(e, type) and issubclass(e, errors.ErasableError)}
    source = Path(erasable.__file__).parent
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in source.rglob("*.py")}
    children = {
        (path.name, node.name)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and {ast.unparse(base).split(".")[-1] for base in node.bases} & known
    }
    assert children == {("errors.py", name) for name in known - {"ErasableError"}}
    assert not known & set(erasable.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'erasable' has no attribute 'unlearn'"):
        _ = erasable.unlearn
    with pytest.raises(ImportError):
        exec("from erasable import unlearn")


def test_errors_and_the_package_need_no_numpy():
    assert after("import erasable; from erasable.errors import InputError; dir(erasable)") == []
    assert "numpy" in after("from erasable import ErasableClassifier")


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert version("erasable") == RELEASE


def test_a_source_tree_reports_that_it_is_one(tmp_path):
    is_tree = Path(erasable.__file__).parents[1] == Path(__file__).parents[1] / "src"
    assert erasable.__version__ == RELEASE + "+dev" * is_tree
    shutil.copy(Path(erasable.__file__).parent / "version.py", tmp_path)  # no pyproject.toml two folders above
    code = "import version; print(version.VERSION)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == RELEASE + "\n"


@pytest.mark.parametrize(
    "first", ["", "import erasable.operations.verify, erasable.operations.learn", "import erasable.operations.plan"]
)
def test_operations_are_functions_whichever_module_was_imported_first(first):
    code = f"{first}\nfrom erasable import learn, plan, verify\nimport erasable, erasable.operations.verify as module"
    code += "\nassert callable(learn) and callable(plan) and callable(verify)"
    code += "\nassert erasable.verify is verify is module.verify"
    assert "numpy" in after(code)


def test_the_package_of_operations_needs_no_numpy():
    assert after("import erasable.operations") == []


def test_files_are_changed_without_scikit_learn():
    assert "sklearn" not in after("from erasable import ModelFile, verify; import erasable.operations.forget")


def test_modules_and_functions_that_docstrings_name_exist():
    source = Path(erasable.__file__).parent
    rooms = "|".join(path.name for path in source.iterdir() if path.is_dir())
    named = re.compile(rf"``(?:erasable\.)?((?:{rooms})(?:\.(?!py`)\w+)+)``")
    found = {name for path in source.rglob("*.py") for name in named.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 10
    for name in found:
        assert resolve_name(f"erasable.{name}") is not None
