"""Processes that bring unlike experiments to one run."""

import sys

import crossgrad

with crossgrad.process_group() as group:
    try:
        group.agree(f"the experiment of rank {group.rank}")
    except ValueError as error:
        print(f"rank {group.rank}: {error}")
        sys.exit(0)
sys.exit("nobody noticed")
