"""Readers and downloads of the known data sets."""
