"""Errors that mean that memory is used up; PyTorch has kinds of its own."""

NO_MEMORY = "there is not enough memory for this. Use a smaller model, fewer agents or a sparser graph."
WORDS_OF_PYTORCH = ("allocate memory", "not enough memory", "out of memory", "bad_alloc")  # in its RuntimeErrors


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means this.

    >>> lacks_memory(RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"))
    True
    >>> lacks_memory(RuntimeError("more than one element of the written-to tensor refers to a single memory location"))
    False
    """
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in WORDS_OF_PYTORCH)
    return said or isinstance(error, MemoryError)
