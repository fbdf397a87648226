"""Print how much code there is, and how much of it a call passes through, next to the targets.

    make walks                     the table
    make walks ARGS=--list         also every file of each walk, and every function that is too long or takes too much

A walk counts the calls of functions of the package with ``sys.setprofile``, in all threads. Imports are warm, so that
only calls count; the data are small. Lines are those of Python files.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import inspect
import io
import os
import sys
import tempfile
import threading
import uuid
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import erasable
from benchmarks.tools import table
from erasable import ErasableClassifier

PACKAGE = Path(erasable.__file__).parent
TESTS = Path(__file__).resolve().parent.parent / "tests"
LONG, MANY = 60, 10  # lines of a function, parameters of a function
PATIENCE = 60.0  # seconds until an erasure has to be completed


@dataclass
class Walk:
    """The files and functions of the package that were called while the walk was counting."""

    counting: bool = False
    files: set = field(default_factory=set)
    functions: set = field(default_factory=set)
    switches: int = 0
    last: dict = field(default_factory=dict)  # the file of the last call in each thread

    def __call__(self, frame, event, _):
        """Count an event of a profiled thread; see ``sys.setprofile``."""
        code = frame.f_code
        if not self.counting or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # bodies of modules and classes are not optimized, and run only on import
        if code.co_filename.startswith(str(PACKAGE)):
            self.files.add(code.co_filename)
            self.functions.add((code.co_filename, code.co_qualname))
            thread = threading.get_ident()
            self.switches += self.last.get(thread, code.co_filename) != code.co_filename
            self.last[thread] = code.co_filename

    @contextlib.contextmanager
    def installed(self):
        """Profile this thread and all that start meanwhile; nothing is counted before ``counting`` is set."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield self
        finally:
            self.counting = False
            sys.setprofile(None)
            threading.setprofile(None)


def walk(call):
    """The walk of one call."""
    with Walk(counting=True).installed() as found:
        call()
    return found


def command(*words):
    """Run an ``erasable`` command in this process, without its output; one that fails ends everything."""
    from erasable.cli import main

    sys.argv = ["erasable", *map(str, words)]
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"erasable {' '.join(sys.argv[1:])} failed: {errors.getvalue()}") from None


def walks(folder):
    """The four walks by name: fit, learn, forget, and an erasure through the service."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    y = (X[:, 0] > 0).astype(int)
    people = [f"p{i % 150}" for i in range(900)]
    with open(folder / "t.csv", "w") as file:
        file.write("id,who,town,age,label\n")
        for i, who in enumerate(people):
            file.write(f"r{i},{who},{'abcd'[i % 4]}town,{20 + i % 60},{'yes' if i % 3 else 'no'}\n")
    table_, schema, model, key = (folder / name for name in ("t.csv", "s.toml", "m.erasable", "key.pem"))
    command("schema", table_, "--label", "label", "--id", "id", "--subject", "who", "-o", schema)
    command("keys", "new", "-o", folder / "key")
    command("learn", table_, "--schema", schema, "-o", folder / "warm.erasable")
    command("forget", folder / "warm.erasable", "--subject", "p7", "--receipt", folder / "w.json", "--key", key)
    ErasableClassifier(loss="squared").fit(X, y)
    return {
        "fit": walk(lambda: ErasableClassifier(loss="squared").fit(X, y)),
        "learn --schema": walk(lambda: command("learn", table_, "--schema", schema, "-o", model)),
        "forget --receipt": walk(
            lambda: command("forget", model, "--subject", "p7", "--receipt", folder / "r.json", "--key", key)
        ),
        "service erasure": service_walk(folder, model),
    }


def service_walk(folder, model):
    """The walk of an erasure request: accepted over HTTP, committed, signed, and its receipt answered."""
    from benchmarks.service import certificate
    from erasable.audit.keys import new_key
    from erasable.service.http.app import create_app
    from erasable.service.http.configuration import Configuration
    from erasable.service.http.opendsr import Signer
    from erasable.service.service import ErasureService
    from erasable.service.settings import Settings
    from erasable.service.tokens import SCOPES, TokenFile, make_token

    certificate(folder)
    os.chmod(folder / "key.pem", 0o600)
    settings = Settings(identity_types={"email": "subject"}, tick=0.02)
    configuration = Configuration((model,), folder / "service", processor_domain="localhost", service=settings)
    configuration.folder.mkdir()
    token = make_token(configuration.folder / "tokens.json", "walks", SCOPES)
    with Walk().installed() as found:
        service = ErasureService(
            configuration.model_files(),
            configuration.folder / "requests",
            signer=new_key(),
            operator_key=b"k" * 32,
            settings=settings,
        )
        with service:
            tokens = TokenFile(configuration.folder / "tokens.json")
            signer = Signer(folder / "cert.pem", folder / "key.pem")
            app = create_app(service, tokens, configuration, signer)
            asyncio.run(erase(app, token, found))
            found.counting = False
    return found


async def erase(app, token, found):
    """Ask for an erasure twice, and count the second time, when all is warm."""
    import httpx

    transport = httpx.ASGITransport(getattr(app, "middleware_stack", app))
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        for person, counts in (("p8", False), ("p9", True)):
            name, found.counting = str(uuid.uuid4()), counts
            body = {
                "regulation": "gdpr",
                "subject_request_id": name,
                "subject_request_type": "erasure",
                "submitted_time": "2026-01-02T15:00:00Z",
                "subject_identities": [{"identity_type": "email", "identity_value": person, "identity_format": "raw"}],
                "api_version": "2.0",
            }
            accepted = await client.post("/v2/requests", json=body)
            if accepted.status_code != 201:
                raise SystemExit(f"the request was refused: {accepted.text}")
            async with asyncio.timeout(PATIENCE):
                while (await client.get(f"/v1/receipts/{name}")).status_code != 200:
                    await asyncio.sleep(0.05)


@dataclass
class Source:
    """Figures of all Python files below a folder."""

    lines: int = 0
    files: int = 0
    any_parameters: int = 0
    any_annotations: int = 0
    long: list = field(default_factory=list)
    many: list = field(default_factory=list)


def source_of(folder):
    """Figures of the Python files below a folder.

    ``long`` has all functions over 60 lines, docstrings included; ``many`` those of more than ten parameters, apart
    from constructors of public classes and commands. Annotations that are ``Any`` and no more are counted, those of
    parameters also by themselves.
    """
    found = Source()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.lines += text.count("\n")
        found.files += 1
        tree = ast.parse(text)
        public = {
            id(item)
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            for item in node.body
            if getattr(item, "name", "") == "__init__"
        }
        is_shell = path.parent.name == "cli"
        for node in ast.walk(tree):
            if isinstance(node, ast.arg | ast.AnnAssign):
                found.any_annotations += _is_any(node.annotation)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                found.any_annotations += _is_any(node.returns)
                found.any_parameters += sum(_is_any(parameter.annotation) for parameter in parameters)
                name = f"{path.relative_to(folder)}:{node.lineno} {node.name}"
                if (lines := node.end_lineno - node.lineno + 1) > LONG:
                    found.long.append(f"{lines:4d} {name}")
                taken = len(parameters) - (bool(parameters) and parameters[0].arg in ("self", "cls"))
                if taken > MANY and not is_shell and id(node) not in public:
                    found.many.append(f"{taken:4d} {name}")
    return found


def _is_any(annotation):
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files of the walks and the functions found")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    source, tests = source_of(PACKAGE), source_of(TESTS)
    with tempfile.TemporaryDirectory() as folder:
        found = walks(Path(folder))
    targets = {"fit": 18, "learn --schema": 45, "forget --receipt": 38, "service erasure": 45}
    figures = [
        ["lines of src", f"{source.lines:,}", "42,000"],
        ["files of src", source.files, 250],
        ["lines of tests", f"{tests.lines:,}", "48,000"],
        *([f"files walked by {name}", len(one.files), targets[name]] for name, one in found.items()),
        [f"functions over {LONG} lines", len(source.long), 10],
        [f"functions over {MANY} parameters, public constructors and commands aside", len(source.many), 0],
        ["parameters annotated with plain `Any`", source.any_parameters, 300],
        ["all annotations that are plain `Any`", f"{source.any_annotations:,}", ""],
    ]
    print(table(["", "now", "at most"], figures))
    steps = [[name, len(one.files), len(one.functions), f"{one.switches:,}"] for name, one in found.items()]
    print(table(["walk", "files", "functions", "switches between files"], steps))
    if options.list:
        for name, one in found.items():
            print(f"\n{name}:", *sorted(os.path.relpath(file, PACKAGE) for file in one.files), sep="\n  ")
        print(f"\nfunctions over {LONG} lines:", *sorted(source.long, reverse=True), sep="\n  ")
        print(f"\nfunctions over {MANY} parameters:", *sorted(source.many, reverse=True), sep="\n  ")


if __name__ == "__main__":
    main()
