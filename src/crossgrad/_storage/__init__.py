"""Files that are there whole or not at all, and tensors in them."""
