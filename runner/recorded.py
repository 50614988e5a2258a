"""An executor that launches nothing: it draws from launches that were measured before.

Months of decisions can be replayed in seconds, with real noise and honest costs: every draw is charged the
seconds that its launch took. Launches on record that share a block number were made side by side, and the two
arms of a block are drawn from the same ones where they can, so that what pairing takes out of real blocks is
taken out here. The launches on record of two revisions without a difference differ by chance, which
resampling repeats for ever. Give such revisions one pool where that matters.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tithe.data.errors import LaunchError, SetupError
from tithe.data.records import ArmName, Launch, Place, ScenarioName, Sha
from tithe.runner.executor import BlockSpec


class RecordedExecutor:
    """Resamples recorded launches per revision and scenario.

    A launch is drawn from those that stood in the same place where there are any, so that the bias of
    a layout stays in. The same seed and specification give the same draws, in whatever order blocks come.

    Args:
        pool: launches on record; warm-ups among them are left out.
        seed: of all draws.
        setup_s: machine seconds charged once for each revision that is prepared (for both places).
        unrunnable: revisions that cannot be made runnable, with the reason.
        host: name of the host that the records come from.
    """

    def __init__(
        self,
        pool: Mapping[tuple[Sha, ScenarioName], Sequence[Launch]],
        *,
        seed: int,
        setup_s: float | Mapping[Sha, float] = 0.0,
        unrunnable: Mapping[Sha, str] | None = None,
        host: str = "recorded",
    ) -> None:
        self._pool: dict[tuple[Sha, ScenarioName], dict[Place, dict[int, list[Launch]]]] = {}
        for key, launches in pool.items():
            places: dict[Place, dict[int, list[Launch]]] = {"a": {}, "b": {}}
            for launch in launches:
                if launch.stage != "warmup":
                    places[launch.place].setdefault(launch.block, []).append(launch)
            self._pool[key] = places
        self._seed = seed
        self._setup_s = setup_s
        self._unrunnable = dict(unrunnable or {})
        self._prepared: set[Sha] = set()
        self._spent = 0.0
        self._host = host

    @property
    def host(self) -> str:
        return self._host

    def prepare(self, sha: Sha) -> str:
        if sha not in self._prepared:
            self._prepared.add(sha)
            self._spent += (
                self._setup_s if isinstance(self._setup_s, float | int) else self._setup_s.get(sha, 0.0)
            )
        return self._unrunnable.get(sha, "")

    def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
        """The launches of the block, drawn.

        Raises:
            SetupError: a revision of the block is unrunnable.
            LaunchError: nothing is on record for a revision and the scenario.
        """
        launches: list[Launch] = []
        for position, arm in enumerate(spec.order()):
            sha, place = spec.sha(arm), spec.place(arm)
            if why := self.prepare(sha):
                raise SetupError(why, where=sha)
            rounds = self._rounds(sha, spec, place)
            if not rounds:
                raise LaunchError(
                    "no launch is on record",
                    where=f"{spec.scenario.name} at {sha}",
                    mend="record this revision, or leave it out of the replay",
                )
            nth = sum(before.arm == arm for before in launches)
            common = sorted(rounds.keys() & self._other(spec, arm))
            # Both arms draw the same round with the same numbers, and then each its own launch of it.
            pairing = random.Random(f"{self._seed}:{spec.launch_id(nth)}")  # noqa: S311
            choices = (
                rounds[pairing.choice(common)] if common else [x for some in rounds.values() for x in some]
            )
            identity = spec.launch_id(position)
            drawn = random.Random(f"{self._seed}:{identity}:launch").choice(choices)  # noqa: S311
            launch = replace(
                drawn,
                id=identity,
                run=spec.run,
                arm=arm,
                sha=sha,
                stage=spec.stage,
                block=spec.block,
                position=position,
                place=place,
                started_at=self._spent,
            )
            self._spent += launch.seconds
            launches.append(launch)
        return tuple(launches)

    def _rounds(self, sha: Sha, spec: BlockSpec, place: Place) -> dict[int, list[Launch]]:
        places = self._pool.get((sha, spec.scenario.name), {})
        return places.get(place) or next((some for some in places.values() if some), {})

    def _other(self, spec: BlockSpec, arm: ArmName) -> set[int]:
        other: ArmName = "head" if arm == "base" else "base"
        return set(self._rounds(spec.sha(other), spec, spec.place(other)))

    def spent(self) -> float:
        return self._spent

    def close(self) -> None:
        """Nothing is held."""
