"""A run's folder: records, checkpoints, the averaged model, and results read back from it."""
