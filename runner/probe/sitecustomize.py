"""First on PYTHONPATH of a launch: starts the probe, then gives way to the `sitecustomize` that was there.

Inert without TITHE_MARKS. It takes its own folder off `sys.path` at once, so that user code finds nothing
here, and no import of theirs looks here first.
"""

import os
import sys


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("TITHE_MARKS"):
        try:
            import _tithe_probe

            _tithe_probe.start(os.environ)
        except Exception:
            pass
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    own = sys.modules.pop(__name__, None)
    try:
        import sitecustomize  # noqa: F401 - the next one on the path, if there is one
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        if own is not None:
            sys.modules.setdefault(__name__, own)


_start()
del _start
