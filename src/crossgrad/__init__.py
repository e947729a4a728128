"""Decentralised deep learning for PyTorch: agents with data of their own learn one model over a graph.

Names are listed in `__init__.pyi` and imported when they are first used, so that `import crossgrad` costs next
to nothing.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
