"""Learn, forget, verify: the whole idea in one short run, on handwritten digits bundled with scikit-learn.

    python examples/demo.py [--out FOLDER]

A hundred people wrote 1,797 digits. A classifier learns to read them, ten people ask to be forgotten, and the state
that is left is compared, byte for byte, with that of a fresh model that learns the surviving core rows alone. This is
what `erasable demo` does; the steps are in `erasable.operations.demo`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from erasable.cli.demo import show
from erasable.operations.demo import demo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    report = demo(parser.parse_args().out)
    show(report)
    if not report.same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
