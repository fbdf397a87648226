"""``python -m erasable``."""

from erasable.cli.app import main

main()
