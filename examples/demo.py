"""From a raw table to a model that forgets: the whole idea in one short run, on made-up orders of a shop.

    python examples/demo.py [--out FOLDER]

Twenty thousand orders, with text, dates, rare towns and missing cells, become a model through a public schema. A
hundred customers ask to be forgotten, and the file that is left is compared, byte for byte, with that of a fresh model
that learns the surviving core rows alone. This is what `erasable demo` does; the steps are in `erasable.research.demo`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from erasable.cli.demo import show
from erasable.research.demo import demo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("examples/output"), help="folder for the table and the picture"
    )
    report = demo(parser.parse_args().out)
    show(report)
    if not report.same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
