"""Errors that mean that memory is used up; PyTorch has a kind of its own."""

NO_MEMORY = "there is not enough memory for this. Use a smaller model, fewer agents or a sparser graph."


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means this."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))
