"""The one place of the version: the package, the command, receipts and exports read it from here."""

from pathlib import Path

RELEASE = "0.2.0"


def _is_source_tree() -> bool:
    return Path(__file__).resolve().parents[2].joinpath("pyproject.toml").is_file()


#: The release, with ``+dev`` where the code runs from a source tree, which may differ from that release.
VERSION = RELEASE + "+dev" if _is_source_tree() else RELEASE
