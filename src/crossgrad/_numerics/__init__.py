"""Numerical building blocks: seeded random streams, weighted sums of rows, blocks of bounded size, the QP."""
