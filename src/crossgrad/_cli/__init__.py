"""The `crossgrad` command."""

import signal
import sys

try:
    from crossgrad._cli.main import main as _command
except KeyboardInterrupt:  # even the imports take long enough for a Ctrl-C
    sys.exit(130)


def main() -> None:
    """Run the command as a program of its own; once it ends, signals no longer matter."""
    try:
        _command()
    except KeyboardInterrupt:
        sys.stderr.write("crossgrad: stopped.\n")
        sys.exit(130)
    finally:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: None)


__all__ = ["main"]
