"""The agents' gradients: one by one, in one batched pass, or compiled."""
