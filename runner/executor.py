"""The seam between the statistics and whatever starts processes: one block in, four launches out.

The unit of work is a *block*, not a launch: pairing on one host then holds by construction, whichever engine
carries it out. Order, places and hash seed of a block are pure functions of its specification, so that every
engine makes the same ones and a run that was broken off is repeated exactly.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from tithe.data.records import ArmName, Launch, LaunchId, Place, RunId, Scenario, Sha, Stage


@dataclass(frozen=True)
class BlockSpec:
    """One block of launches of one scenario: base against head.

    With stage `warmup` it is one launch of each arm, else two of each, ABBA or BAAB. `block` counts from 0
    within its stage. `seed` is the run's.
    """

    run: RunId
    scenario: Scenario
    base: Sha
    head: Sha
    stage: Stage
    block: int
    seed: int

    def sha(self, arm: ArmName) -> Sha:
        return self.base if arm == "base" else self.head

    def order(self) -> tuple[ArmName, ...]:
        """The arms in the order of their launches, drawn from the seed for this block."""
        first: ArmName = "base" if self._draw("order") % 2 == 0 else "head"
        second: ArmName = "head" if first == "base" else "base"
        if self.stage == "warmup":
            return (first, second)
        return (first, second, second, first)

    def place(self, arm: ArmName) -> Place:
        """Where an arm stands. Places swap from block to block, so that both share the cost of a layout."""
        swapped = self.block % 2 == 1
        return "a" if (arm == "base") != swapped else "b"

    def hash_seed(self) -> int:
        """PYTHONHASHSEED of all launches of this block: the same for both arms, another in the next block."""
        return 1 + self._draw("hash") % 4294967294

    def launch_id(self, position: int) -> LaunchId:
        """The same for the same run, scenario, stage, block, head and position: repeating it adds nothing."""
        text = "\0".join(
            (self.run, self.scenario.name, self.base, self.head, self.stage, str(self.block), str(position))
        )
        return LaunchId(hashlib.sha256(text.encode()).hexdigest()[:20])

    def _draw(self, what: str) -> int:
        text = "\0".join((what, str(self.seed), self.scenario.name, self.stage, str(self.block)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Executor(Protocol):
    """Carries out blocks on one host at a time."""

    @property
    def host(self) -> str:
        """A name for the machine and interpreter that samples may be pooled within, never across."""
        ...

    def prepare(self, sha: Sha) -> str:
        """Make a revision runnable. Empty when it is, else why not, in one line that is safe to print.

        Never raises for a fault of the revision itself (checkout or set-up failed).
        """
        ...

    def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
        """The launches of the block in their order, failed ones too.

        Raises:
            SetupError: an arm is not runnable (`prepare` says so beforehand).
            LaunchError: a process could not be started or measured for a reason that is not the scenario's.
        """
        ...

    def spent(self) -> float:
        """Machine seconds so far, set-up included."""
        ...

    def close(self) -> None:
        """Give up arms and slot; calling it twice is harmless."""
        ...
