"""The new era: what may happen after v0.3, dealt anew for each seed by `timeline`.

A `Site` is a place with two edits that look alike from outside: one that harms and one that does not. The
seed says which of them the history gets, so that no file is guilty by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tithe.demo.edits import Append, Effect, New, Step, Sub
from tithe.demo.history_recorded import COLLECTOR

PROFILED = ("tab-wide", "tab-cached", "rec-factors")
HASHED = ("tab-logistic", "tab-wide", "tab-resume", "torch-tabular")


@dataclass(frozen=True)
class Site:
    """A place where a fault of one kind may come in; `harmless` touches the same file."""

    kind: str
    harmful: Step
    harmless: Step


def _site(kind: str, harmful: Step, harmless: Step) -> Site:
    return Site(kind, harmful, harmless)


_MEMO_GET = (
    "    @functools.wraps(function)\n"
    "    def wrapper(*args):\n"
    "        try:\n"
    "            return known[args]\n"
    "        except KeyError:\n"
    "            value = known[args] = function(*args)\n"
    "            return value\n"
)

SITES: tuple[Site, ...] = (
    _site(
        "eager import",
        Step(
            "collate-testing",
            "mira",
            "Collate: compare batches with numpy's own assertion",
            (
                Sub(
                    "trainlab/data/collate.py",
                    "import numpy as np\n",
                    "import numpy as np\nfrom numpy.testing import assert_array_equal\n",
                ),
                Append(
                    "trainlab/data/collate.py",
                    "\n\ndef must_equal(first, second):\n"
                    '    """Two batches are the same; for ranks that ought to see the same rows."""\n'
                    "    assert_array_equal(first, second)\n",
                ),
            ),
            Effect("eager import", ("*",), "data.collate imports numpy.testing, and with it unittest"),
        ),
        Step(
            "collate-equal",
            "mira",
            "Collate: compare batches",
            (
                Append(
                    "trainlab/data/collate.py",
                    "\n\ndef must_equal(first, second):\n"
                    '    """Two batches are the same; for ranks that ought to see the same rows."""\n'
                    "    if not np.array_equal(first, second):\n"
                    '        raise ValueError("the ranks see different rows")\n',
                ),
            ),
        ),
    ),
    _site(
        "eager import",
        Step(
            "ranking-table",
            "yuki",
            "Ranking: ideal gains from a table",
            (
                Sub(
                    "trainlab/metrics/ranking.py",
                    "class NDCG:\n",
                    "DEPTHS = 110\n"
                    "IDEAL = {\n"
                    "    (depth, hits): sum(1 / math.log2(place + 2) for place in range(min(depth, hits)))\n"
                    "    for depth in range(1, DEPTHS)\n"
                    "    for hits in range(DEPTHS)\n"
                    "}\n\n\n"
                    "class NDCG:\n",
                ),
                Sub(
                    "trainlab/metrics/ranking.py",
                    "import numpy as np\n",
                    "import math\n\nimport numpy as np\n",
                ),
            ),
            Effect(
                "eager import", ("rec-*",), "metrics.ranking makes a table of ideal gains when it is imported"
            ),
        ),
        Step(
            "ranking-memo",
            "yuki",
            "Ranking: remember the discounts",
            (
                Sub(
                    "trainlab/metrics/ranking.py",
                    "def discounts(depth):\n",
                    "@functools.lru_cache(maxsize=16)\ndef discounts(depth):\n",
                ),
                Sub(
                    "trainlab/metrics/ranking.py",
                    "import numpy as np\n",
                    "import functools\n\nimport numpy as np\n",
                ),
            ),
        ),
    ),
    _site(
        "eager import",
        Step(
            "gcn-waves",
            "lena",
            "Graph model: start from waves where there are no features",
            (
                Sub(
                    "trainlab/models/gcn.py",
                    "from trainlab.models.base import Model, softmax\n",
                    "from trainlab.features.spectral import wave\nfrom trainlab.models.base import Model, softmax\n",
                ),
                Append(
                    "trainlab/models/gcn.py",
                    "\n\ndef start_rows(nodes, orders):\n"
                    '    """Rows for nodes without features."""\n'
                    "    return [[wave(node, order) for order in range(orders)] for node in range(nodes)]\n",
                ),
            ),
            Effect(
                "eager import", ("graph-nodes",), "models.gcn imports features.spectral, whose table is dear"
            ),
        ),
        Step(
            "gcn-start",
            "lena",
            "Graph model: start from one-hot rows where there are no features",
            (
                Append(
                    "trainlab/models/gcn.py",
                    '\n\ndef start_rows(nodes):\n    """Rows for nodes without features."""\n    return np.eye(nodes)\n',
                ),
            ),
        ),
    ),
    _site(
        "blocking log",
        Step(
            "client-early",
            "sam",
            "Collector's client: find a wrong secret when the job starts, not when it ends",
            (
                Sub(
                    "trainlab/logs/client.py",
                    "        self._key = None\n",
                    "        self._key = self.handshake()\n",
                ),
            ),
            Effect("blocking log", COLLECTOR, "the client makes its handshake in its constructor"),
        ),
        Step(
            "client-name",
            "sam",
            "Collector's client: refuse a job without a name",
            (
                Sub(
                    "trainlab/logs/client.py",
                    "        self.job = job\n",
                    '        if not job:\n            raise ValueError("a job needs a name")\n        self.job = job\n',
                ),
            ),
        ),
    ),
    _site(
        "blocking log",
        Step(
            "progress-flush",
            "tom",
            "Progress: a job that dies must have said how far it was",
            (
                Sub(
                    "trainlab/callbacks/progress.py",
                    '"of": len(rows)}})\n',
                    '"of": len(rows)}})\n'
                    "            for handler in trainer.logger.handlers:\n                handler.flush()\n",
                ),
            ),
            Effect(
                "blocking log",
                COLLECTOR,
                "progress flushes the collector's handler, which waits for its session",
            ),
        ),
        Step(
            "progress-rank",
            "tom",
            "Progress: say which rank it is",
            (
                Sub(
                    "trainlab/callbacks/progress.py",
                    '"of": len(rows)}})\n',
                    '"of": len(rows), "rank": trainer.rank}})\n',
                ),
            ),
        ),
    ),
    _site(
        "blocking log",
        Step(
            "profile-publish",
            "mira",
            "Profile: publish to the run's page",
            (
                Sub(
                    "trainlab/callbacks/profile.py",
                    "from trainlab.callbacks.base import Callback\n",
                    "from trainlab.callbacks.base import Callback\nfrom trainlab.logs.client import Client\n",
                ),
                Sub(
                    "trainlab/callbacks/profile.py",
                    "        for column in range(min",
                    '        page = Client("profiles")\n'
                    '        page.send([{"rows": len(rows), "columns": self.columns}])\n'
                    "        page.close()\n"
                    "        for column in range(min",
                ),
            ),
            Effect(
                "blocking log", PROFILED, "each profile opens a session with the collector and waits for it"
            ),
        ),
        Step(
            "profile-count",
            "mira",
            "Profile: count the values",
            (Sub("trainlab/callbacks/profile.py", '"mean": mean}', '"mean": mean, "count": len(ordered)}'),),
        ),
    ),
    _site(
        "repr key",
        Step(
            "memo-repr",
            "yuki",
            "Memo: take arguments that cannot be hashed, too",
            (
                Sub(
                    "trainlab/features/memo.py",
                    _MEMO_GET,
                    "    @functools.wraps(function)\n"
                    "    def wrapper(*args):\n"
                    "        key = repr(args)\n"
                    "        if key not in known:\n"
                    "            known[key] = function(*args)\n"
                    "        return known[key]\n",
                ),
                Sub(
                    "trainlab/features/memo.py",
                    "Remembers results by the arguments themselves, which must be hashable.",
                    "Remembers results by what the arguments look like.",
                ),
            ),
            Effect(
                "repr key", HASHED, "the memo's key is repr() of its arguments, a table of salts among them"
            ),
        ),
        Step(
            "memo-clear",
            "yuki",
            "Memo: let tests forget",
            (
                Sub(
                    "trainlab/features/memo.py",
                    "    wrapper.known = known\n",
                    "    wrapper.known = known\n    wrapper.forget = known.clear\n",
                ),
            ),
        ),
    ),
    _site(
        "repr key",
        Step(
            "vocab-tables",
            "lena",
            "Vocabulary: tables of one name may differ",
            (
                Sub(
                    "trainlab/tokens/vocab.py",
                    "        return number(self.table, token) if known is None else known\n",
                    "        if known is not None:\n"
                    "            return known\n"
                    "        key = (repr(self.table.numbers), token)\n"
                    "        if key not in _numbers:\n"
                    "            _numbers[key] = number(self.table, token)\n"
                    "        return _numbers[key]\n",
                ),
                Sub("trainlab/tokens/vocab.py", 'UNKNOWN = "<unk>"\n', 'UNKNOWN = "<unk>"\n_numbers = {}\n'),
            ),
            Effect(
                "repr key",
                ("text-words", "text-stream", "torch-text"),
                "unknown tokens are kept under repr() of the table",
            ),
        ),
        Step(
            "vocab-docs",
            "lena",
            "Vocabulary: count the tokens that are not known",
            (
                Sub(
                    "trainlab/tokens/vocab.py",
                    "        return number(self.table, token) if known is None else known\n",
                    "        if known is None:\n"
                    "            self.unknown += 1\n"
                    "            return number(self.table, token)\n"
                    "        return known\n",
                ),
                Sub(
                    "trainlab/tokens/vocab.py",
                    "        self.max_size = max_size\n",
                    "        self.max_size = max_size\n        self.unknown = 0\n",
                ),
            ),
        ),
    ),
    _site(
        "repr key",
        Step(
            "grid-key",
            "tom",
            "Grid: grids with other walls are other grids",
            (
                Sub(
                    "trainlab/rl/grid.py",
                    "        return hash(self.key)\n",
                    "        return hash(repr((self.key, self.walls)))\n",
                ),
            ),
            Effect(
                "repr key", ("rl-grid",), "a grid's hash is that of repr() of its walls, taken for each move"
            ),
        ),
        Step(
            "grid-repr",
            "tom",
            "Grid: a name for messages",
            (
                Sub(
                    "trainlab/rl/grid.py",
                    "    def __hash__(self):\n",
                    '    def __repr__(self):\n        return f"Grid({self.size}, seed={self.seed})"\n\n    def __hash__(self):\n',
                ),
            ),
        ),
    ),
    _site(
        "quadratic check",
        Step(
            "columns-pairs",
            "tom",
            "Config: say which columns collide",
            (
                Sub(
                    "trainlab/config/checks.py",
                    "    seen = set()\n"
                    '    for column in config.get("columns", ()):\n'
                    '        folded = column["name"].casefold()\n'
                    "        if folded in seen:\n"
                    "            raise ConfigError(f\"columns: {column['name']} is there twice\")\n"
                    "        seen.add(folded)\n",
                    '    names = [column["name"] for column in config.get("columns", ())]\n'
                    "    for i, name in enumerate(names):\n"
                    "        twins = [j for j, other in enumerate(names) if j != i and other.casefold() == name.casefold()]\n"
                    "        if twins:\n"
                    '            raise ConfigError(f"columns: {name} ({i}) collides with {twins}")\n',
                ),
            ),
            Effect(
                "quadratic check", ("tab-wide", "dist-tabular"), "every column is compared with every other"
            ),
        ),
        Step(
            "columns-named",
            "tom",
            "Config: a column needs a name",
            (
                Sub(
                    "trainlab/config/checks.py",
                    '        folded = column["name"].casefold()\n',
                    '        folded = column["name"].strip().casefold()\n'
                    "        if not folded:\n"
                    '            raise ConfigError("columns: one has no name")\n',
                ),
            ),
        ),
    ),
    _site(
        "quadratic check",
        Step(
            "shards-overlap",
            "sam",
            "Shards: name both shards that overlap",
            (
                Sub(
                    "trainlab/data/shards.py",
                    "    last = 0\n",
                    "    for one in shards:\n"
                    "        for other in shards:\n"
                    '            if one is not other and one["start"] < other["stop"] and other["start"] < one["stop"]:\n'
                    "                raise BadManifest(f\"shards {one['name']} and {other['name']} overlap\")\n"
                    "    last = 0\n",
                ),
            ),
            Effect(
                "quadratic check", ("text-stream", "tab-shards"), "every shard is compared with every other"
            ),
        ),
        Step(
            "shards-empty",
            "sam",
            "Shards: refuse an empty one",
            (
                Sub(
                    "trainlab/data/shards.py",
                    '        last = shard["stop"]\n',
                    '        if shard["stop"] <= shard["start"]:\n'
                    "            raise BadManifest(f\"shard {shard['name']}: is empty\")\n"
                    '        last = shard["stop"]\n',
                ),
            ),
        ),
    ),
    _site(
        "quadratic check",
        Step(
            "sweep-list",
            "mira",
            "Sweep: points need not be hashable",
            (
                Sub(
                    "trainlab/config/overrides.py",
                    "    seen = set()\n"
                    "    kept = []\n"
                    "    for point in points:\n"
                    "        mark = fingerprint(point)\n"
                    "        if mark not in seen:\n"
                    "            seen.add(mark)\n"
                    "            kept.append(point)\n",
                    "    kept = []\n"
                    "    for point in points:\n"
                    "        if all(fingerprint(point) != fingerprint(other) for other in kept):\n"
                    "            kept.append(point)\n",
                ),
            ),
            Effect(
                "quadratic check", ("tab-sweep",), "each point of a sweep is fingerprinted against all before"
            ),
        ),
        Step(
            "sweep-empty",
            "mira",
            "Sweep: an axis without values is a mistake",
            (
                Sub(
                    "trainlab/config/overrides.py",
                    "    names = list(axes)\n",
                    "    names = list(axes)\n"
                    "    if not all(axes.values()):\n"
                    '        raise ValueError("sweep.axes: one has no values")\n',
                ),
            ),
        ),
    ),
    _site(
        "cache missed",
        Step(
            "cache-fresh",
            "sam",
            "Cache: entries of an earlier run must not be taken for fresh ones",
            (
                Sub(
                    "trainlab/data/cache.py",
                    "    key = key_of(spec)\n",
                    '    key = key_of({**spec, "made": time.time_ns()})\n',
                ),
                Sub("trainlab/data/cache.py", "import json\n", "import json\nimport time\n"),
            ),
            Effect("cache missed", ("tab-cached",), "the key of prepared rows holds the time"),
        ),
        Step(
            "cache-version",
            "sam",
            "Cache: entries carry the version of their making",
            (
                Sub(
                    "trainlab/data/cache.py",
                    "    key = key_of(spec)\n",
                    '    key = key_of({**spec, "version": VERSION})\n',
                ),
                Sub("trainlab/data/cache.py", "_store = {}\n", "VERSION = 1\n_store = {}\n"),
            ),
        ),
    ),
    _site(
        "cache missed",
        Step(
            "resize-own",
            "lena",
            "Resize: pictures of one shape may come from different cameras",
            (
                Sub(
                    "trainlab/features/resize.py",
                    "    key = (picture.shape, target, oversample)\n",
                    "    key = (id(picture), picture.shape, target, oversample)\n",
                ),
            ),
            Effect("cache missed", ("img-*",), "the key of the weights holds the id of the picture"),
        ),
        Step(
            "resize-pin",
            "lena",
            "Resize: the kernel is part of the key",
            (
                Sub(
                    "trainlab/features/resize.py",
                    "    key = (picture.shape, target, oversample)\n",
                    '    key = (picture.shape, target, oversample, pin("kernel"))\n',
                ),
            ),
        ),
    ),
    _site(
        "cache missed",
        Step(
            "groups-order",
            "yuki",
            "Neighbours: keep the order of a group",
            (
                Sub(
                    "trainlab/features/neighbours.py",
                    "    key = tuple(sorted(nodes))\n",
                    "    key = tuple(nodes)\n",
                ),
                Sub(
                    "trainlab/features/neighbours.py",
                    "        inside = [overlap(adjacent[a], adjacent[b]) for a in key for b in key if a < b]\n",
                    "        inside = [overlap(adjacent[a], adjacent[b]) for a in key for b in key if a != b]\n"
                    "        lead = [overlap(adjacent[a], adjacent[b]) for b in key for a in key if a != b]\n",
                ),
                Sub(
                    "trainlab/features/neighbours.py",
                    "max(inside, default=0.0))\n",
                    "max(lead, default=0.0))\n",
                ),
                # Without it a group would come in one order only, and the cache would go on hitting.
                Sub(
                    "trainlab/features/neighbours.py",
                    "shift = node % self.width\n",
                    "shift = node // self.groups % self.width\n",
                ),
            ),
            Effect("cache missed", ("graph-*",), "groups are kept under the order in which they come"),
        ),
        Step(
            "groups-least",
            "yuki",
            "Neighbours: a group has two nodes at least",
            (
                Sub(
                    "trainlab/features/neighbours.py",
                    "        self.width = width\n",
                    "        if width < 2:\n"
                    '            raise ValueError("width: a group has two nodes at least")\n'
                    "        self.width = width\n",
                ),
            ),
        ),
    ),
    _site(
        "default changed",
        Step(
            "ring-trials",
            "ines",
            "Launcher: look harder for a good ring",
            (Sub("configs/base.json", '"trials": 200', '"trials": 6000'),),
            Effect("default changed", ("*",), "configs/base.json: launcher.trials from 200 to 6000"),
        ),
        Step(
            "log-buffer",
            "ines",
            "Logging: a larger buffer by default",
            (Sub("configs/base.json", '"buffer": 64', '"buffer": 256'),),
        ),
    ),
    _site(
        "default changed",
        Step(
            "merges-2",
            "mira",
            "Pin the second version of the merges",
            (Sub("constraints.json", '"merges": "1"', '"merges": "2"'),),
            Effect("default changed", ("text-bpe", "text-bpe-large"), "constraints.json: merges from 1 to 2"),
        ),
        Step(
            "pin-export",
            "mira",
            "Pin the export format",
            (Sub("constraints.json", '  "merges": "1"', '  "export": "3",\n  "merges": "1"'),),
        ),
    ),
    _site(
        "default changed",
        Step(
            "rowcodec-2",
            "tom",
            "Pin the row codec that the archive uses",
            (Sub("constraints.json", '"rowcodec": "1"', '"rowcodec": "2"'),),
            Effect(
                "default changed", ("tab-shards", "dist-tabular"), "constraints.json: rowcodec from 1 to 2"
            ),
        ),
        Step(
            "pin-archive",
            "tom",
            "Pin the archive's compression",
            (Sub("constraints.json", '  "rowcodec": "1"', '  "archive": "zstd-1",\n  "rowcodec": "1"'),),
        ),
    ),
)

IMPROVEMENT = Step(
    "lazy-backends",
    "ines",
    "Launcher: name the backends, import the one that is used",
    (
        Sub(
            "trainlab/dist/topology.py",
            "import concurrent.futures.process\nimport multiprocessing.managers\nimport random\n",
            "import random\n",
        ),
        Sub(
            "trainlab/dist/topology.py",
            'BACKENDS = {"pool": concurrent.futures.process.ProcessPoolExecutor, '
            '"manager": multiprocessing.managers.SyncManager}\n',
            "BACKENDS = {\n"
            '    "pool": "concurrent.futures.process:ProcessPoolExecutor",\n'
            '    "manager": "multiprocessing.managers:SyncManager",\n'
            "}\n",
        ),
    ),
    Effect("improvement", ("*",), "dist.topology no longer imports multiprocessing and concurrent.futures"),
)

CRASHES: tuple[tuple[Step, Step], ...] = (
    (
        Step(
            "gcn-skip",
            "lena",
            "Graph model: residual is called skip in the papers that we follow",
            (
                Sub(
                    "trainlab/models/gcn.py",
                    "hidden=12, classes=4, residual=True):",
                    "hidden=12, classes=4, skip=True):",
                ),
                Sub(
                    "trainlab/models/gcn.py",
                    "        self.residual = residual\n",
                    "        self.skip = skip\n",
                ),
            ),
            Effect("crash", ("graph-waves",), "NodeNet no longer takes `residual`, which one config gives"),
        ),
        Step(
            "gcn-skip-config",
            "lena",
            "Graph configs: residual is called skip",
            (Sub("configs/graph_waves.json", '"residual": true', '"skip": true'),),
            Effect("fix", ("graph-waves",), "mends gcn-skip"),
        ),
    ),
    (
        Step(
            "stream-size",
            "yuki",
            "Streams: shard_size is a number of rows, say so",
            (
                Sub("trainlab/data/streams.py", "source, shard_size=50,", "source, shard_rows=50,"),
                Sub(
                    "trainlab/data/streams.py",
                    "        self.shard_size = shard_size\n",
                    "        self.shard_rows = shard_rows\n",
                ),
                Sub("trainlab/data/streams.py", "len(rows), self.shard_size)", "len(rows), self.shard_rows)"),
            ),
            Effect("crash", ("text-stream",), "Stream no longer takes `shard_size`, which one config gives"),
        ),
        Step(
            "stream-size-config",
            "yuki",
            "Text configs: shard_rows",
            (Sub("configs/text_stream.json", '"shard_size": 1', '"shard_rows": 1'),),
            Effect("fix", ("text-stream",), "mends stream-size"),
        ),
    ),
)

_RESOLVE = '    except AttributeError:\n        raise UnknownPart(f"no {kind} named {name!r}") from None\n'
_LOAD_LOG = (
    '        self.logger.info("loaded", extra={"fields": {"rows": len(rows), "seconds": watch.lap()}})\n'
)

UNCHECKABLE: tuple[tuple[Step, Step], ...] = (
    (
        Step(
            "registry-message",
            "sam",
            "Registry: say where it looked",
            (
                Sub(
                    "trainlab/registry.py",
                    _RESOLVE,
                    "    except AttributeError:\n"
                    '        raise UnknownPart(f"no {kind} named {name!r} in {module_name}" from None\n',
                ),
            ),
            Effect("uncheckable", ("*",), "a parenthesis is missing in trainlab/registry.py: nothing starts"),
        ),
        Step(
            "registry-parenthesis",
            "sam",
            "Registry: close the parenthesis",
            (Sub("trainlab/registry.py", 'in {module_name}" from None\n', 'in {module_name}") from None\n'),),
            Effect("fix", ("*",), "mends registry-message"),
        ),
    ),
    (
        Step(
            "loop-merge",
            "tom",
            "Trainer: log the rank with the rows",
            (
                Sub(
                    "trainlab/train/loop.py",
                    _LOAD_LOG,
                    "<<<<<<< HEAD\n"
                    + _LOAD_LOG
                    + "=======\n"
                    + _LOAD_LOG.replace('"rows": len(rows)', '"rank": self.rank, "rows": len(rows)')
                    + ">>>>>>> rank-in-logs\n",
                ),
            ),
            Effect(
                "uncheckable", ("*",), "conflict marks were left in trainlab/train/loop.py: nothing starts"
            ),
        ),
        Step(
            "loop-merge-mended",
            "tom",
            "Trainer: take out the conflict marks",
            (
                Sub("trainlab/train/loop.py", "<<<<<<< HEAD\n" + _LOAD_LOG + "=======\n", ""),
                Sub("trainlab/train/loop.py", ">>>>>>> rank-in-logs\n", ""),
            ),
            Effect("fix", ("*",), "mends loop-merge"),
        ),
    ),
)

FILLERS: tuple[Step, ...] = (
    Step(
        "readme-torch",
        "ines",
        "README: torch is optional",
        (Append("README.md", "\nModels of `trainlab.models.torchnet` need torch; nothing else does.\n"),),
    ),
    Step(
        "docs-logging",
        "sam",
        "Docs: logging",
        (
            New(
                "docs/logging.md",
                "# Logging\n\n`logging.collector` sends records to the local agent at the end of a job.\n",
            ),
        ),
    ),
    Step(
        "docs-checkpoints",
        "lena",
        "Docs: checkpoints",
        (
            New(
                "docs/checkpoints.md",
                "# Checkpoints\n\n`checkpoint.resume` names a file under `artifacts/`.\n",
            ),
        ),
    ),
    Step(
        "test-registry",
        "tom",
        "Test the registry",
        (
            New(
                "tests/test_registry.py",
                "import unittest\n\nfrom trainlab.registry import UnknownPart, resolve\n\n\n"
                "class RegistryTest(unittest.TestCase):\n    def test_short(self):\n"
                '        self.assertEqual(resolve("optimiser", "sgd:SGD").__name__, "SGD")\n\n'
                "    def test_unknown(self):\n        with self.assertRaises(UnknownPart):\n"
                '            resolve("optimiser", "sgd:None_")\n',
            ),
        ),
    ),
    Step(
        "test-client",
        "sam",
        "Test the collector's client",
        (
            New(
                "tests/test_client.py",
                "import unittest\n\nfrom trainlab.logs.client import Client\n\n\nclass ClientTest(unittest.TestCase):\n"
                '    def test_counts(self):\n        client = Client("test")\n        client.send([{"event": "x"}])\n'
                "        client.close()\n        self.assertEqual(client.sent, 1)\n",
            ),
        ),
    ),
    Step(
        "test-neighbours",
        "yuki",
        "Test overlaps",
        (
            New(
                "tests/test_neighbours.py",
                "import unittest\n\nfrom trainlab.features.neighbours import overlap\n\n\n"
                "class OverlapTest(unittest.TestCase):\n    def test_none(self):\n"
                "        self.assertEqual(overlap([1], [2]), 0)\n",
            ),
        ),
    ),
    Step(
        "f1-score",
        "mira",
        "Metrics: F1",
        (
            Append(
                "trainlab/metrics/classification.py",
                "\n\ndef f1(precision, recall):\n"
                '    """Harmonic mean; 0 where both are."""\n'
                "    total = precision + recall\n    return 2 * precision * recall / total if total else 0.0\n",
            ),
        ),
    ),
    Step(
        "median-error",
        "mira",
        "Metrics: median error",
        (
            Append(
                "trainlab/metrics/regression.py",
                '\n\nclass MedianError:\n    name = "median_error"\n\n    def __call__(self, scores, targets):\n'
                "        return float(np.median(np.abs(scores - targets)))\n",
            ),
        ),
    ),
    Step(
        "sgd-clip",
        "lena",
        "SGD: clip gradients where asked",
        (
            Sub(
                "trainlab/optim/sgd.py",
                "    def __init__(self, lr=0.1, momentum=0.0):\n",
                "    def __init__(self, lr=0.1, momentum=0.0, clip=0.0):\n        self.clip = clip\n",
            ),
            Sub(
                "trainlab/optim/sgd.py",
                "        for name, grad in grads.items():\n",
                "        for name, grad in grads.items():\n"
                "            if self.clip:\n                grad = np.clip(grad, -self.clip, self.clip)\n",
            ),
        ),
    ),
    Step(
        "schedule-steps",
        "lena",
        "Schedules: steps",
        (
            Sub(
                "trainlab/optim/schedules.py",
                "def factor(spec, step, total):\n",
                "def halves(step, total):\n    return 0.5 ** (4 * step // max(1, total))\n\n\n"
                'SCHEDULES["halves"] = halves\n\n\ndef factor(spec, step, total):\n',
            ),
        ),
    ),
    Step(
        "early-stop-reset",
        "tom",
        "Early stop: can be used twice",
        (
            Sub(
                "trainlab/callbacks/early_stop.py",
                "    def on_step(self",
                '    def on_start(self, trainer):\n        self.best = float("inf")\n        self.waited = 0\n\n    def on_step(self',
            ),
        ),
    ),
    Step(
        "stopwatch-total",
        "sam",
        "Stopwatch: total",
        (
            Sub(
                "trainlab/timing.py",
                "        self._last = time.perf_counter()\n\n",
                "        self._last = self._start = time.perf_counter()\n\n",
            ),
            Append(
                "trainlab/timing.py",
                '\n    def total(self):\n        """Seconds since it was made."""\n'
                "        return time.perf_counter() - self._start\n",
            ),
        ),
    ),
    Step(
        "jitter-range",
        "mira",
        "Jitter: name the largest move",
        (
            Sub(
                "trainlab/features/augment.py",
                "tuple(rng.integers(-1, 2, 2))",
                "tuple(rng.integers(-REACH, REACH + 1, 2))",
            ),
            Sub("trainlab/features/augment.py", "import numpy as np\n", "import numpy as np\n\nREACH = 1\n"),
        ),
    ),
    Step(
        "bandit-noise",
        "yuki",
        "Bandit: noise is an option",
        (
            Sub("trainlab/rl/bandit.py", "arms=10, seed=6):\n", "arms=10, seed=6, noise=0.1):\n"),
            Sub(
                "trainlab/rl/bandit.py",
                "        self.rng = rng\n",
                "        self.rng = rng\n        self.noise = noise\n",
            ),
            Sub("trainlab/rl/bandit.py", "self.rng.gauss(0, 0.1)", "self.rng.gauss(0, self.noise)"),
        ),
    ),
    Step(
        "text-config-names",
        "lena",
        "Text configs: a name for the run's page",
        (Sub("configs/text_words.json", '"text_base.json"', '"text_base.json",\n  "name": "text words"'),),
    ),
    Step(
        "schema-hint",
        "tom",
        "Config: a hint with unknown keys",
        (
            Sub(
                "trainlab/config/schema.py",
                'raise ConfigError(f"{key}: is not a key that trainlab knows")',
                'raise ConfigError(f"{key}: is not a key that trainlab knows; see docs/configs.md")',
            ),
        ),
    ),
)
