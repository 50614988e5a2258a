"""`python -m tithe` and the command `tithe`: an interrupt while the command line itself is loading ends it quietly."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

EXIT_INTERRUPTED = 130
"""As in `tithe.data.errors`, which is not loaded yet."""


def run() -> NoReturn:
    """Runs one command and exits with its code."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    from tithe.cli import main

    main()


if __name__ == "__main__":
    run()
