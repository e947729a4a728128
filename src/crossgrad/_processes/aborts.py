"""A message before gloo aborts the process, as it does when a message is longer than its receiver expects.

There is no way to refuse such a message: only to say what this process was waiting for, and to end with the status of a
lost process.
"""

import ctypes
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)


@contextmanager
def on_abort(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` where C++ code aborts this process in this block; Python's own handlers are never called then.

    Args:
        tell: it is called in a thread of C++, while the main thread waits, and must end the process.
    """
    system = ctypes.CDLL(None)
    system.signal.restype, system.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    handler = _Handler(lambda _: tell())
    before = system.signal(int(signal.SIGABRT), ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        system.signal(int(signal.SIGABRT), before)
