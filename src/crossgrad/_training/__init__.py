"""Training: the loop over steps, its settings, evaluations and divergence."""
