"""Whether a scenario can run on this machine: are the modules there that it requires?

One child asks the arms' interpreter for all modules of all scenarios at once, without importing them (but for
the packages that a dotted name lies in).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable

from tithe.data.codec import CodecError, plain_json
from tithe.data.config import Config
from tithe.data.records import Scenario, ScenarioName
from tithe.runner.arms import interpreter_of
from tithe.runner.environment import base_environment

_ASK = """
import importlib.util, json, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False
print(json.dumps([name for name in json.load(sys.stdin) if not there(name)]))
"""


def missing_modules(scenarios: Iterable[Scenario], config: Config) -> dict[ScenarioName, str]:
    """Those of the scenarios that cannot run here, each with the reason.

    With a set-up, what will be installed is not known before it ran: everything counts as available.
    """
    asking = [scenario for scenario in scenarios if scenario.requires]
    if config.setup or not asking:
        return {}
    lacking = _not_found({name for scenario in asking for name in scenario.requires}, config)
    found: dict[ScenarioName, str] = {}
    for scenario in asking:
        if absent := [name for name in scenario.requires if name in lacking]:
            found[scenario.name] = f"not installed: {', '.join(absent)}"
    return found


def _not_found(names: Iterable[str], config: Config) -> set[str]:
    """Modules that the arms' interpreter does not find; all of them if it does not run."""
    asked = sorted(names)
    interpreter = interpreter_of(config.python)
    env = base_environment(config.env_allow, interpreter=interpreter)
    env["PYTHONPATH"] = os.pathsep.join(
        str(config.root / entry) for entry in config.pythonpath_in(config.root)
    )
    try:
        done = subprocess.run(
            [interpreter, "-c", _ASK], input=json.dumps(asked), env=env, cwd=config.root, capture_output=True,
            text=True, timeout=120, check=True,
        )  # fmt: skip
        found = plain_json(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, CodecError):
        return set(asked)
    if not isinstance(found, list):
        return set(asked)
    return {str(name) for name in found}
