"""Many experiments from one file, run by as many processes as there are; what was run is not run again.

`grid` makes cells out of a file; `work` runs those that nobody has run; `store` lets people query what came out;
`cluster` hands cells to a batch system.
"""
