"""The paper as data: its accuracy tables, its Table 1, and runs compared with them.

>>> from crossgrad._paper import tables
>>> tables.cell("cifar10-cnn-noniid", "CGA", "ring", 5).accuracy
66.5
"""
