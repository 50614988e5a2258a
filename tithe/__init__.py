"""tithe: catch performance regressions of machine-learning jobs with a tenth of the machine time.

Importing it costs next to nothing: training code may call `tithe.first_batch()` in production, where it does
nothing unless tithe is measuring. Everything else is loaded where it is used.
"""

from __future__ import annotations

from tithe import _version
from tithe.first_batch_mark import first_batch, mark

__version__ = _version.VERSION

__all__ = ["__version__", "first_batch", "mark"]
