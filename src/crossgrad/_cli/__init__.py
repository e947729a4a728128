"""The `crossgrad` command."""

import sys

try:
    from crossgrad._cli.main import main
except KeyboardInterrupt:  # already these imports take long enough for a Ctrl-C
    sys.exit(130)

__all__ = ["main"]
