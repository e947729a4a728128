"""Grids of experiments: a file describes many cells, several processes run them, and no cell is run twice.

`grid` reads the file; `worker` runs cells; `memory_gate` limits how many run at once; `store` puts results into SQLite;
`cluster` submits cells to a batch system.
"""
