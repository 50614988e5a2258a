"""The model of `tithe.toml` as it is written: tables, keys, types and bounds, and nothing else.

One model serves three: it checks the file, it names what was expected where the file is wrong, and it
becomes the JSON schema that editors complete and check with. So a key cannot be documented and not exist.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from tithe.data.formats import Format
from tithe.data.units import DURATION_EXAMPLES, DURATION_PATTERN, RESOURCE_PATTERN

SCENARIO_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_./:=+,@\[\]-]*(?!\n)$"
METRIC_PATTERN = r"^[A-Za-z_][A-Za-z0-9_./-]*(?!\n)$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(?!\n)$"
MODULE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(?!\n)$"
DEFAULT_SETUP_KEY = ("pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "*.lock")
SIZE_PATTERN = r"^(0|[0-9]+(\.[0-9]+)?\s*(MB|MiB|GB|GiB))(?!\n)$"
UNIT_PATTERN = r"^[^\s\x00-\x1f\x7f]*(?!\n)$"
LINE_PATTERN = r"^[^\x00-\x1f\x7f]*(?!\n)$"

EXPECTED: dict[str, str] = {
    DURATION_PATTERN: f"a duration such as {DURATION_EXAMPLES}",
    RESOURCE_PATTERN: 'the name of a resource, such as "cpu" or "gpu"',
    SCENARIO_PATTERN: "a name of letters, digits and any of _ . / : = + , @ [ ] - that does not begin with -",
    METRIC_PATTERN: "the name of a metric: letters, digits and any of _ . / -, with a letter or _ first",
    VARIABLE_PATTERN: "the name of an environment variable, such as OMP_NUM_THREADS",
    MODULE_PATTERN: 'the name of a module, such as "torch" or "mypackage.train"',
    SIZE_PATTERN: 'an amount of memory such as "500MB" or "2GiB"',
    UNIT_PATTERN: 'a unit without white space, such as "s" or "tokens/s"',
    LINE_PATTERN: "one line of text",
}
"""What each pattern of the model asks for, in words."""

Duration = Annotated[str, Meta(pattern=DURATION_PATTERN)]
Words = Annotated[str, Meta(min_length=1)] | Annotated[list[str], Meta(min_length=1)]
Glob = Annotated[str, Meta(min_length=1)]
ModuleName = Annotated[str, Meta(pattern=MODULE_PATTERN)]
VariableName = Annotated[str, Meta(pattern=VARIABLE_PATTERN)]
MetricId = Annotated[str, Meta(pattern=METRIC_PATTERN, max_length=100)]
Line = Annotated[str, Meta(pattern=LINE_PATTERN)]


class MetricTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A metric that the scenario reports itself."""

    name: Annotated[
        MetricId, Meta(description="As the scenario prints it (name=value); value for a bare number.")
    ]
    unit: (
        Annotated[str, Meta(pattern=UNIT_PATTERN, max_length=20, description="For display; s if not given.")]
        | UnsetType
    ) = UNSET
    direction: Literal["smaller", "larger"] | UnsetType = UNSET


class ResultsTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a benchmark tool writes."""

    format: Annotated[Format, Meta(description="The tool.")]
    file: Annotated[
        str,
        Meta(description="Relative to where it starts; not given: the command has {results} for the path."),
    ] = ""


class ScenarioTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A command that is measured."""

    name: Annotated[
        str, Meta(pattern=SCENARIO_PATTERN, max_length=200, description="Unique; history hangs on it.")
    ]
    command: Annotated[
        Words, Meta(description="What is started, split into words as a shell would, but without a shell.")
    ]
    metrics: Annotated[
        list[MetricId | MetricTable],
        Meta(
            min_length=1,
            description="ttfb, wall, cpu, rss, instructions, or tables for what the command reports itself.",
        ),
    ] = field(default_factory=lambda: ["ttfb"])
    gate: (
        Annotated[
            list[MetricId],
            Meta(min_length=1, description="The metrics that decide; the first of metrics if not given."),
        ]
        | UnsetType
    ) = UNSET
    stop: Annotated[
        Literal["none", "first-batch", "first-step"],
        Meta(description="End the launch as soon as the first batch or the first optimizer step is done."),
    ] = "none"
    tier: Annotated[
        Literal["change", "release"],
        Meta(description="release: never run on a change, only between releases."),
    ] = "change"
    resource: Annotated[str, Meta(pattern=RESOURCE_PATTERN, description="The budget that pays for it.")] = (
        "cpu"
    )
    timeout: Annotated[
        Duration, Meta(description="A launch that takes longer is killed with all its processes.")
    ] = "5m"
    owner: Annotated[Line, Meta(max_length=200, description="Who is told when it regresses.")] = ""
    env: Annotated[dict[VariableName, str], Meta(description="Environment variables of the launch.")] = {}
    cwd: Annotated[str, Meta(min_length=1, description="Where it starts, relative to the checkout.")] = "."
    requires: Annotated[
        list[ModuleName],
        Meta(description="Modules without which it cannot run; it is left out where they are missing."),
    ] = []
    files: Annotated[
        list[Glob],
        Meta(description="Globs of files that it depends on beyond its command and the import graph."),
    ] = []
    warmup: Annotated[
        int,
        Meta(ge=0, le=100, description="Launches of each arm that are thrown away before the first block."),
    ] = 1
    fresh_cwd: Annotated[
        bool, Meta(description="Start in an empty folder of its own instead of the checkout.")
    ] = False
    memory: Annotated[
        str,
        Meta(
            pattern=SIZE_PATTERN,
            description="A launch whose processes take more together is ended; 0 for no limit.",
        ),
    ] = "0"
    cores: Annotated[
        int,
        Meta(ge=0, le=4096, description="Keep launches to that many processors, if there are more; 0: all."),
    ] = 0
    results: (
        Annotated[
            ResultsTable,
            Meta(description="The file that a benchmark tool writes, for its numbers by name."),
        ]
        | UnsetType
    ) = UNSET


class RuleTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files on which scenarios depend in a way that imports do not show."""

    files: Annotated[list[Glob], Meta(min_length=1, description="Globs of paths in the repository.")]
    scenarios: Annotated[list[Glob], Meta(min_length=1, description="Globs of scenario names.")]


class GraphTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The dependency graph."""

    packages: (
        Annotated[
            list[ModuleName],
            Meta(description="Packages of this repository; found on pythonpath if not given."),
        ]
        | UnsetType
    ) = UNSET
    edges: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(
            description="Files of the repository with edges that another tool found, for other languages: "
            "edge list (source,target[,kind]), GraphML or DOT; read as each revision has them."
        ),
    ] = []
    rule: list[RuleTable] = []


class DecisionTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How sure a verdict must be."""

    wanted_effect: Annotated[
        float,
        Meta(
            ge=0.0001, lt=1, description="Relative effect that must be seen; 'same' excludes it. 0.05 is 5 %."
        ),
    ] = 0.05
    floor: Annotated[
        float, Meta(ge=0, lt=1, description="Relative effect below which nothing is reported.")
    ] = 0.02
    max_blocks: Annotated[
        int, Meta(ge=3, le=24, description="Most blocks (four launches each) of each of the two stages.")
    ] = 12
    false_alarms_per_week: Annotated[float, Meta(gt=0, description="How many can be borne.")] = 1.0
    decisions_per_week: Annotated[
        float, Meta(gt=0, description="Scenario and metric pairs decided in a week.")
    ] = 5000.0
    alpha: Annotated[
        float,
        Meta(
            ge=0,
            le=0.5,
            description="Error level of each stage, as tithe tune chose it; 0: from the two rates above.",
        ),
    ] = 0.0
    noise_factor: Annotated[
        float,
        Meta(ge=0, le=10, description="Smallest effect reported, in standard deviations of a block."),
    ] = 0.5


class TitheTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The repository and how a checkout of it is made runnable."""

    main: Annotated[
        str, Meta(min_length=1, pattern=LINE_PATTERN, description="Branch whose first-parent history counts.")
    ] = "main"
    setup: Annotated[
        str,
        Meta(
            description="Makes a checkout runnable, in an environment of its own. Without: pythonpath alone."
        ),
    ] = ""
    setup_key: Annotated[
        list[Glob], Meta(description="Files; the environment is built anew when one of them changes.")
    ] = field(default_factory=lambda: list(DEFAULT_SETUP_KEY))
    setup_timeout: Annotated[Duration, Meta(description="For setup.")] = "15m"
    pythonpath: (
        Annotated[
            list[Annotated[str, Meta(min_length=1)]],
            Meta(description="Folders of the checkout to import from; src if a package is there, else all."),
        ]
        | UnsetType
    ) = UNSET
    python: Annotated[
        Line, Meta(description="Interpreter of the launches; the one that runs tithe if empty.")
    ] = ""
    env: Annotated[
        list[VariableName],
        Meta(description="Environment variables that launches may see beside the usual few."),
    ] = []


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """tithe.toml"""

    tithe: TitheTable
    graph: GraphTable = GraphTable()
    decision: DecisionTable = DecisionTable()
    scenario: list[ScenarioTable] = []


def json_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of `tithe.toml`, for editors such as those that use Taplo."""
    schema = msgspec.json.schema(ConfigFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tithe.toml", **schema}
