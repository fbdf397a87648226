"""The command line."""

from erasable.cli.app import main

__all__ = ["main"]
