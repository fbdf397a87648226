"""The public surface: every name is there, found on demand, and seen by type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import erasable


def after(code: str) -> list[str]:
    """Heavy packages that are loaded after some code has run in a fresh process."""
    code += "\nimport sys\nprint(*[m for m in ('numpy', 'scipy', 'sklearn', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.parametrize("name", erasable.__all__)
def test_every_name_is_found_and_listed(name):
    vars(erasable).pop(name) if name in erasable._ELSEWHERE and name in vars(erasable) else None
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
    plain = {
        a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "erasable.errors" for a in n.names
    }
    assert set(seen) | plain == set(erasable.__all__)
    assert {name: home for name, home in seen.items() if home != "erasable.estimators"} == erasable._ELSEWHERE
    for name, home in seen.items():
        assert getattr(import_module(home), name) is getattr(erasable, name)


def test_every_error_is_public():
    from erasable import errors

    ours = {n for n, e in vars(errors).items() if isinstance(e, type) and issubclass(e, errors.ErasableError)}
    assert ours <= set(erasable.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'erasable' has no attribute 'unlearn'"):
        _ = erasable.unlearn
    with pytest.raises(ImportError):
        exec("from erasable import unlearn")


def test_errors_and_the_package_need_no_numpy():
    assert after("import erasable; from erasable import InputError; import erasable.errors; dir(erasable)") == []
    assert "numpy" in after("from erasable import ErasableClassifier")


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert version("erasable") == erasable.__version__


@pytest.mark.parametrize(
    "first", ["", "import erasable.operations.verify, erasable.operations.learn", "import erasable.operations.plan"]
)
def test_operations_are_functions_whichever_module_was_imported_first(first):
    code = f"{first}\nfrom erasable.operations import learn, verify, verify_state, VerifyReport\nimport erasable"
    code += "\nassert callable(learn) and callable(verify) and erasable.verify is verify is erasable.operations.verify"
    code += "\nassert erasable.operations.learn is learn"
    assert "numpy" in after(code)


def test_the_package_of_operations_needs_no_numpy():
    assert after("import erasable.operations as o; assert set(o.__all__) <= set(dir(o))") == []
