"""Sessions for every Python that is installed: quick tests, the oldest and newest dependencies, the package.

``make test-oldest`` runs ``oldest`` and ``extras``, ``make package`` runs ``package``. Pythons that are missing are
skipped.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["quick", "bare", "oldest", "verifier"]

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
EVERYTHING = ".[dev,mlflow]"
# Each has a file of tests/extras; "plain" is an installation without extras. The tests of torch and embeddings would
# need gigabytes, and docs and dev are sets of other extras.
EXTRAS = sorted(path.stem.removeprefix("test_") for path in (ROOT / "tests" / "extras").glob("test_*.py"))


def run_quick(session: nox.Session) -> None:
    """Run what ``make quick`` runs, in the environment of this session, against the installed wheel."""
    stamp = Path(session.virtualenv.location, ".installed")
    stamp.touch()  # make installs nothing
    session.run("uv", "pip", "list", external=True)
    session.run("make", "quick", f"VENV={session.virtualenv.location}", *session.posargs, external=True)


@nox.session(python=PYTHONS)
def quick(session: nox.Session) -> None:
    """Install the wheel with the newest dependencies; run the quick tests, which include README and commands."""
    session.install("--upgrade", EVERYTHING)
    run_quick(session)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """Install the lowest versions that pyproject.toml allows, and run the quick tests."""
    session.install("--resolution", "lowest-direct", EVERYTHING)
    run_quick(session)


@nox.session(python=PYTHONS[0])
@nox.parametrize("resolution", ["lowest-direct", "highest"])
@nox.parametrize("extra", EXTRAS)
def extras(session: nox.Session, extra: str, resolution: str) -> None:
    """Install one extra alone, by the lowest or the newest versions that it allows, and run the tests of that extra."""
    source = "." if extra == "plain" else f".[{extra}]"
    session.install("--resolution", resolution, source, "hypothesis>=6.112", "pytest>=8.2")
    session.run("pytest", "-q", f"tests/extras/test_{extra}.py", *session.posargs)


@nox.session(python=PYTHONS)
def verifier(session: nox.Session) -> None:
    """Install the auditor's tool alone, in an environment without dependencies, and check a model and a receipt."""
    session.install("./verifier")
    session.run("python", "verifier/test_alone.py")


@nox.session(python=PYTHONS)
def bare(session: nox.Session) -> None:
    """Install the extra tables alone, without pandas and polars; run the code and the commands of the README."""
    session.install(".[tables]", "hypothesis", "pytest")
    session.run(
        "python", "-c", "import importlib.util as u; assert not u.find_spec('pandas') and not u.find_spec('polars')"
    )
    session.run("pytest", "-q", "tests/test_readme.py", "-k", "not proved", *session.posargs)


@nox.session(python=PYTHONS[0])
def types(session: nox.Session) -> None:
    """Check code that uses the public names with mypy and pyright, both strict."""
    session.install(EVERYTHING, "pyright[nodejs]")
    session.run("pytest", "-q", "tests/types", *session.posargs)


@nox.session(python=PYTHONS[0])
def package(session: nox.Session) -> None:
    """Build and check both distributions; write dist/ with a bill of materials and the list of licences."""
    session.install("build", "twine", "check-wheel-contents", "pyroma", "cyclonedx-bom", "pip-licenses")
    dist, again = ROOT / "dist", Path(session.create_tmp(), "again")
    for folder in (dist, again):
        shutil.rmtree(folder, ignore_errors=True)
    for source in (".", "verifier"):
        session.run("python", "-m", "build", "--quiet", "--outdir", str(dist), source)
        session.run("python", "-m", "build", "--quiet", "--outdir", str(again), source)
    made = sorted(dist.iterdir())
    for one in made:
        if one.read_bytes() != (again / one.name).read_bytes():
            session.error(f"{one.name} has other bytes when it is built a second time")
    wheels = [str(one) for one in made if one.suffix == ".whl"]
    session.run("twine", "check", "--strict", *map(str, made))
    session.run("check-wheel-contents", *wheels)
    for one in made:
        if one.suffix == ".gz":  # 2 of 10 points are for an e-mail address, which the project does not have
            session.run("pyroma", "--min", "8", str(one))
    # What a plain installation brings along, and nothing of the tools that look at it.
    clean = Path(session.create_tmp(), "clean")
    python = str(clean / "bin" / "python")
    session.run("uv", "venv", "--quiet", "--clear", "--python", session.python, str(clean), external=True)
    version = Path(wheels[0]).name.split("-")[1]
    found = "--find-links", str(dist), f"erasable=={version}"  # by name: a path would stand in the bill of materials
    session.run("uv", "pip", "install", "--quiet", "--python", python, *found, external=True)
    bom = str(dist / "sbom.cdx.json")
    session.run("cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON", "-o", bom, python)
    columns = "--format=markdown", "--with-urls", "--order=name"
    session.run("pip-licenses", f"--python={python}", *columns, f"--output-file={dist / 'licenses.md'}")
