"""What a run will need, before it starts: gradients, messages and memory."""
