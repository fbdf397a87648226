"""``python -m erasable.cli``."""

from erasable.cli.app import main

main()
