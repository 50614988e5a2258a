"""Ways to make a scenario cheaper, read off its command line.

Ending the launch early keeps everything before the end by construction, which is all that a time to first
batch consists of. For other metrics the number of steps is the one knob that is nearly always there and
nearly never changes what runs, only how often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tithe.data.records import Scenario

_STEPS = re.compile(
    r"(?:max|num|n|nb|total|train|number_of)?_?"
    r"(?:steps?|iters?|iterations?|epochs?|batches|updates|timesteps|episodes|rounds|repeats?)"
)
_FLAG = re.compile(r"(?P<flag>-{0,2}[A-Za-z][\w.-]*)=(?P<value>.*)", re.DOTALL)
_WHOLE = re.compile(r"\d[\d_]*")
_GPU = re.compile(r"(?:cuda|gpu|mps)(?::\d+)?")


@dataclass(frozen=True)
class Knob:
    """A number of steps in a command: which word holds it, what stands before it there, and its value."""

    word: int
    prefix: str
    name: str
    value: int


def for_first_batch(scenario: Scenario) -> list[Scenario]:
    """The scenario ended at its first step, and at its first batch; nothing where it ends there already."""
    if scenario.stop == "none":
        return [replace(scenario, stop="first-step"), replace(scenario, stop="first-batch")]
    return [replace(scenario, stop="first-batch")] if scenario.stop == "first-step" else []


def step_knobs(command: tuple[str, ...]) -> tuple[Knob, ...]:
    """Flags that say how many steps there are, such as `--steps 100`, `trainer.epochs=3` or `-n 100`."""
    found: list[Knob] = []
    for index, word in enumerate(command):
        if match := _FLAG.fullmatch(word):
            name, value, prefix = match["flag"], match["value"], match["flag"] + "="
        elif index and re.fullmatch(r"--?[A-Za-z][\w.-]*", command[index - 1]):
            name, value, prefix = command[index - 1], word, ""
        else:
            continue
        if _WHOLE.fullmatch(value) and int(value) > 1 and _counts_steps(name):
            found.append(Knob(index, prefix, name.lstrip("-"), int(value)))
    return tuple(found)


def with_steps(scenario: Scenario, knobs: tuple[Knob, ...], steps: int) -> Scenario:
    """The scenario with every knob at `steps`, where that is less than it was."""
    words = list(scenario.command)
    for knob in knobs:
        words[knob.word] = f"{knob.prefix}{min(steps, knob.value)}"
    return replace(scenario, command=tuple(words))


def on_cpu(scenario: Scenario) -> Scenario:
    """The scenario with `--device cuda` and its like on the CPU; itself where it names no device."""
    words = list(scenario.command)
    for index, word in enumerate(words):
        match = _FLAG.fullmatch(word)
        if match and "device" in match["flag"] and _GPU.fullmatch(match["value"]):
            words[index] = f"{match['flag']}=cpu"
        elif (
            index
            and words[index - 1].startswith("-")
            and "device" in words[index - 1]
            and _GPU.fullmatch(word)
        ):
            words[index] = "cpu"
    if tuple(words) == scenario.command:
        return scenario
    return replace(scenario, command=tuple(words), resource="cpu")


def _counts_steps(flag: str) -> bool:
    if flag == "-n":
        return True
    last = flag.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
    return _STEPS.fullmatch(last) is not None
