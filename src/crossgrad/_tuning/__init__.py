"""Step size and momentum picked on validation data, with the same number of trials for everything compared.

`space` says which values there are and how they go on beyond their edges; `search` which is tried next; `plan` makes
cells of a sweep of it; `standings` are the results on the test data.
"""
