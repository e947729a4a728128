"""The `crossgrad` command."""

from crossgrad.cli.main import main

__all__ = ["main"]
