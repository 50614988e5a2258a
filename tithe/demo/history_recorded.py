"""The recorded era: every commit up to v0.3, the same for every seed.

One history of measurements fits every demo, because this part of the past never moves. Most of its faults
were mended before v0.3, as faults are that somebody noticed; what they teach (logging, config checks and
memo keys are where it hurts, docs and tests are not) stays true afterwards, and never for certain.
"""

from __future__ import annotations

from tithe.demo.edits import Append, Effect, New, Step, Sub, release, undo

COLLECTOR = ("text-stream", "rl-grid", "dist-tabular")

LEGACY = Step(
    "legacy-collector",
    "sam",
    "Send errors to the old collector too, until it is switched off",
    (
        Sub(
            "trainlab/logs/handlers.py",
            "import logging\n\nfrom trainlab.logs.client import Client\n",
            "import logging\nimport xmlrpc.client\n\nfrom trainlab.logs.client import Client\n",
        ),
        Sub(
            "trainlab/logs/handlers.py",
            '        event.update(getattr(record, "fields", {}))\n        self.pending.append(event)\n',
            '        event.update(getattr(record, "fields", {}))\n'
            "        if record.levelno >= logging.ERROR:\n"
            '            event["legacy"] = xmlrpc.client.dumps((record.getMessage(),), "error")\n'
            "        self.pending.append(event)\n",
        ),
    ),
    Effect(
        "eager import", ("*",), "logs.handlers imports xmlrpc.client (http, ssl, xml, email) for errors only"
    ),
)

FLUSH = Step(
    "flush-info",
    "sam",
    "Collector: hand over records as they come",
    (
        Sub(
            "trainlab/logs/handlers.py",
            "        if len(self.pending) >= self.size:\n",
            "        if record.levelno >= logging.INFO or len(self.pending) >= self.size:\n",
        ),
    ),
    Effect(
        "blocking log", COLLECTOR, "every record is flushed, so that the client's handshake is waited for"
    ),
    body="The dashboard lagged behind by a whole buffer. send() only queues, as far as I can see.",
)

AUDIT = Step(
    "feature-audit",
    "mira",
    "Features: leave an audit record of each run of the pipeline",
    (
        Sub(
            "trainlab/features/pipeline.py",
            "import logging\n\nfrom trainlab.registry import create\n",
            "import logging\n\nfrom trainlab.logs.client import Client\nfrom trainlab.registry import create\n",
        ),
        Sub(
            "trainlab/features/pipeline.py",
            "        watch = Stopwatch()\n        for feature in self.features:\n",
            "        watch = Stopwatch()\n"
            "        if self.features:\n"
            '            client = Client("features")\n'
            '            client.send([{"event": type(feature).__name__} for feature in self.features])\n'
            "            client.close()\n"
            "        for feature in self.features:\n",
        ),
    ),
    Effect(
        "blocking log",
        (
            *(
                "text-*",
                "tab-logistic",
                "tab-wide",
                "tab-sweep",
                "tab-resume",
                "tab-shards",
                "img-*",
                "graph-*",
            ),
            *("rl-bandit", "dist-tabular", "torch-*"),
        ),
        "the pipeline opens a collector session of its own before the first feature",
    ),
)

EDGES = Step(
    "bucket-edges",
    "yuki",
    "Quantiles: do not mix up columns of two tables",
    (
        Sub(
            "trainlab/features/buckets.py",
            "    key = (column, count, len(values))\n",
            "    key = (column, count, repr(values[:64]))\n",
        ),
    ),
    Effect(
        "repr key",
        ("tab-logistic", "tab-resume", "tab-shards", "torch-tabular"),
        "the edges' memo key holds repr() of the column, made anew for each cell",
    ),
)

LABELS = Step(
    "labels-folded",
    "tom",
    "Config: labels that differ only in case are the same label",
    (
        Sub(
            "trainlab/config/checks.py",
            '    if len(set(labels)) != len(labels):\n        raise ConfigError("labels: one is there twice")\n',
            "    for first in range(len(labels)):\n"
            "        for second in range(len(labels)):\n"
            "            if first != second and labels[first].casefold() == labels[second].casefold():\n"
            '                raise ConfigError(f"labels: {labels[first]} is there twice")\n',
        ),
    ),
    Effect("quadratic check", ("text-*", "torch-text"), "every pair of labels is folded and compared"),
)

STEMS = Step(
    "stems-per-text",
    "mira",
    "Words: stems may depend on where a word stands",
    (
        Sub(
            "trainlab/tokens/words.py",
            "        for word in text.split():\n"
            "            if word not in _stems:\n"
            "                _stems[word] = stem(word)\n"
            "            out.append(_stems[word])\n",
            "        for place, word in enumerate(text.split()):\n"
            "            key = (id(text), place, word)\n"
            "            if key not in _stems:\n"
            "                _stems[key] = stem(word)\n"
            "            out.append(_stems[key])\n",
        ),
    ),
    Effect(
        "cache missed", ("text-words", "text-stream", "torch-text"), "the stems' key names text and place"
    ),
)

EPISODES = Step(
    "longer-rollouts",
    "lena",
    "Agents: more episodes by default",
    (Sub("configs/rl_base.json", '"episodes": 120', '"episodes": 300'),),
    Effect("default changed", ("rl-grid",), "configs/rl_base.json: episodes from 120 to 300"),
)

POPULAR = Step(
    "popularity-of-history",
    "yuki",
    "Recommenders: draw negatives by popularity among what a user has not seen",
    (
        Sub(
            "trainlab/data/interactions.py",
            "        chances = popularity(self.items, self.skew)\n",
            "        chances = self.chances(liked)\n",
        ),
        Sub(
            "trainlab/data/interactions.py",
            "    def negative(self, rng, liked):\n",
            "    def chances(self, liked):\n"
            '        """Popularity, once for each set of options; `liked` will matter when skews are per user."""\n'
            "        key = repr((sorted(vars(self).items()), sorted(liked)))\n"
            "        if key not in _chances:\n"
            "            _chances[key] = popularity(self.items, self.skew)\n"
            "        return _chances[key]\n\n"
            "    def negative(self, rng, liked):\n",
        ),
        Sub(
            "trainlab/data/interactions.py",
            "import numpy as np\n\n\n@functools",
            "import numpy as np\n\n_chances = {}\n\n\n@functools",
        ),
    ),
    Effect(
        "repr key", ("rec-*",), "the key of the chances is repr() of options and history, for each negative"
    ),
)

PROFILE = Step(
    "profile-by-rows",
    "sam",
    "Profile: ranks may hold different rows",
    (
        Sub(
            "trainlab/callbacks/profile.py",
            "            key = (column, len(rows))\n",
            "            key = (column, id(trainer))\n",
        ),
    ),
    Effect("cache missed", ("tab-cached",), "the profiles' key is the id of the trainer, one for each rank"),
)

STATE = Step(
    "state-version",
    "lena",
    "Checkpoints: format is called version, as everywhere else",
    (
        Sub(
            "trainlab/checkpoint/state.py",
            '    return {"format": FORMAT, "step"',
            '    return {"version": FORMAT, "step"',
        ),
        Sub(
            "trainlab/checkpoint/state.py",
            '    if packed["format"] > FORMAT:',
            '    if packed["version"] > FORMAT:',
        ),
        Sub(
            "trainlab/checkpoint/state.py",
            "format {packed['format']} is newer",
            "version {packed['version']} is newer",
        ),
    ),
    Effect("crash", ("tab-resume",), "checkpoints on disk have no key `version`"),
)

REPORT = Step(
    "lazy-report",
    "ines",
    "Report: import the dashboard's message format only where it is asked for",
    (
        Sub(
            "trainlab/metrics/report.py",
            "import decimal\nimport pydoc\nimport xmlrpc.client\n",
            "import decimal\n",
        ),
        Sub(
            "trainlab/metrics/report.py",
            "    return xmlrpc.client.dumps(",
            "    import pydoc\n    import xmlrpc.client\n\n    return xmlrpc.client.dumps(",
        ),
    ),
    Effect("improvement", ("*",), "metrics.report no longer imports pydoc and xmlrpc.client"),
)


def steps() -> tuple[Step, ...]:
    """The commits after the first one, oldest first."""
    return (
        Step(
            "readme-start",
            "ines",
            "README: say what is measured",
            (
                Append(
                    "README.md",
                    "\n`tithe.toml` lists the jobs whose start is watched; every change is measured in CI.\n",
                ),
            ),
        ),
        Step(
            "test-shards",
            "tom",
            "Test manifests",
            (
                New(
                    "tests/test_shards.py",
                    "import unittest\n\nfrom trainlab.data import shards\n\n\n"
                    "class ShardsTest(unittest.TestCase):\n"
                    "    def test_all_rows(self):\n"
                    "        shards.verify(shards.manifest(10, 3), 10)\n\n"
                    "    def test_missing(self):\n"
                    "        with self.assertRaises(shards.BadManifest):\n"
                    "            shards.verify(shards.manifest(9, 3), 10)\n",
                ),
            ),
        ),
        Step(
            "sampler-names",
            "yuki",
            "Sampler: name the block size",
            (
                Sub("trainlab/data/sampler.py", "import generator\n", "import generator\n\nBLOCK = 32\n"),
                Sub(
                    "trainlab/data/sampler.py",
                    "    for block in rng.permutation((rows + 31) // 32):\n"
                    "        inside = np.arange(block * 32, min(rows, (block + 1) * 32))\n",
                    "    for block in rng.permutation((rows + BLOCK - 1) // BLOCK):\n"
                    "        inside = np.arange(block * BLOCK, min(rows, (block + 1) * BLOCK))\n",
                ),
            ),
        ),
        EDGES,
        Step(
            "schedule-linear",
            "lena",
            "Schedules: linear decay",
            (
                Sub(
                    "trainlab/optim/schedules.py",
                    'SCHEDULES = {"constant": constant,',
                    "def linear(step, total):\n    return 1 - step / max(1, total)\n\n\n"
                    'SCHEDULES = {"constant": constant, "linear": linear,',
                ),
            ),
        ),
        Step(
            "client-docs",
            "sam",
            "Collector's client: say what the agent answers",
            (
                Sub(
                    "trainlab/logs/client.py",
                    "    def send(self, events):\n",
                    "    def send(self, events):\n"
                    '        """One signed frame; the agent takes it without an answer."""\n',
                ),
            ),
        ),
        Step(
            "edges-back",
            "yuki",
            "Quantiles: key by column alone again, tables come one to a process",
            undo(EDGES),
            Effect(
                "improvement",
                ("tab-logistic", "tab-resume", "tab-shards", "torch-tabular"),
                "mends bucket-edges",
            ),
        ),
        REPORT,
        Step(
            "check-messages",
            "tom",
            "Config: messages name the value, too",
            (
                Sub(
                    "trainlab/config/checks.py",
                    'raise ConfigError(f"{key}: must be positive")',
                    'raise ConfigError(f"{key}: must be positive, is {config[key]}")',
                ),
            ),
        ),
        Step(
            "f1",
            "mira",
            "Metrics: precision at a threshold",
            (
                Append(
                    "trainlab/metrics/classification.py",
                    '\n\nclass Precision:\n    name = "precision"\n\n    def __init__(self, least=0.0):\n'
                    "        self.least = least\n\n    def __call__(self, scores, targets):\n"
                    "        said = scores > self.least\n"
                    "        return float(targets[said].mean()) if said.any() else 0.0\n",
                ),
            ),
        ),
        FLUSH,
        release("0.1", "First release outside the research repository."),
        Step(
            "docs-callbacks",
            "ines",
            "Docs: callbacks",
            (
                New(
                    "docs/callbacks.md",
                    "# Callbacks\n\n`on_data`, `on_start`, `on_step`, `on_end`, in this order.\n",
                ),
            ),
        ),
        EPISODES,
        Step(
            "flush-back",
            "sam",
            "Collector: buffer again, the agent is not as patient as I thought",
            undo(FLUSH),
            Effect("improvement", COLLECTOR, "mends flush-info"),
        ),
        Step(
            "interactions-check",
            "yuki",
            "Interactions: refuse more negatives than there are items",
            (
                Sub(
                    "trainlab/data/interactions.py",
                    "        self.users = users\n",
                    "        if negatives >= items:\n"
                    '            raise ValueError("negatives: must be fewer than items")\n'
                    "        self.users = users\n",
                ),
            ),
        ),
        STATE,
        Step(
            "adam-names",
            "lena",
            "Adam: slots with names",
            (
                Sub(
                    "trainlab/optim/adam.py",
                    "        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps\n",
                    "        self.lr = lr\n        self.beta1 = beta1\n        self.beta2 = beta2\n        self.eps = eps\n",
                ),
            ),
        ),
        Step(
            "test-state",
            "tom",
            "Test that a state survives the packing",
            (
                New(
                    "tests/test_state.py",
                    "import unittest\n\nfrom trainlab.checkpoint.state import pack, unpack\n\n\nclass Fixed:\n"
                    '    def state(self):\n        return {"w": [1.0, 2.0]}\n\n\n'
                    "class StateTest(unittest.TestCase):\n    def test_there_and_back(self):\n"
                    '        self.assertEqual(unpack(pack(Fixed(), 3)), (3, {"w": [1.0, 2.0]}))\n',
                ),
            ),
        ),
        Step(
            "state-both",
            "lena",
            "Checkpoints: read those of old, too",
            (
                Sub(
                    "trainlab/checkpoint/state.py",
                    '    if packed["version"] > FORMAT:\n',
                    '    version = packed.get("version", packed.get("format", 0))\n    if version > FORMAT:\n',
                ),
                Sub(
                    "trainlab/checkpoint/state.py",
                    "version {packed['version']} is newer",
                    "version {version} is newer",
                ),
            ),
            Effect("fix", ("tab-resume",), "mends state-version"),
        ),
        POPULAR,
        Step(
            "base-momentum",
            "lena",
            "Config: name the momentum's default",
            (Sub("configs/base.json", '"lr": 0.1}', '"lr": 0.1, "momentum": 0.0}'),),
        ),
        LEGACY,
        Step(
            "words-endings",
            "mira",
            "Words: explain the endings",
            (
                Sub(
                    "trainlab/tokens/words.py",
                    "_stems = {}\n",
                    "# Stems are looked up far more often than they are made.\n_stems = {}\n",
                ),
            ),
        ),
        release("0.2", "Longer rollouts for agents, negatives by popularity, checkpoints carry a version."),
        LABELS,
        Step(
            "buckets-docs",
            "yuki",
            "Quantiles: what ties do",
            (
                Sub(
                    "trainlab/features/buckets.py",
                    '    """The first `columns` cells of a row, by quantile."""\n',
                    '    """The first `columns` cells of a row, by quantile; ties fall into the upper one."""\n',
                ),
            ),
        ),
        Step(
            "handlers-drop",
            "sam",
            "Collector: count the records that were handed over",
            (
                Sub(
                    "trainlab/logs/handlers.py",
                    "        self.pending = []\n\n    def emit",
                    "        self.pending = []\n        self.seen = 0\n\n    def emit",
                ),
                Sub(
                    "trainlab/logs/handlers.py",
                    '        event = {"event"',
                    '        self.seen += 1\n        event = {"event"',
                ),
            ),
        ),
        STEMS,
        Step(
            "legacy-lazy",
            "ines",
            "Collector: load the old protocol when there is an error to send",
            (
                Sub(
                    "trainlab/logs/handlers.py", "import logging\nimport xmlrpc.client\n", "import logging\n"
                ),
                Sub(
                    "trainlab/logs/handlers.py",
                    '            event["legacy"]',
                    '            import xmlrpc.client\n\n            event["legacy"]',
                ),
            ),
            Effect("improvement", ("*",), "mends legacy-collector"),
        ),
        Step(
            "conv-classes",
            "mira",
            "Conv: a helper for the error",
            (
                Sub(
                    "trainlab/models/conv.py",
                    "class Conv(Model):\n",
                    "def one_hot(labels, classes):\n    return np.eye(classes)[labels.astype(int)]\n\n\nclass Conv(Model):\n",
                ),
                Sub(
                    "trainlab/models/conv.py",
                    "        error = chance.copy()\n        error[np.arange(len(batch)), targets.astype(int)] -= 1\n",
                    "        error = chance - one_hot(targets, self.classes)\n",
                ),
            ),
        ),
        Step(
            "labels-fast",
            "tom",
            "Config: fold the labels once",
            (
                Sub(
                    "trainlab/config/checks.py",
                    "    for first in range(len(labels)):\n"
                    "        for second in range(len(labels)):\n"
                    "            if first != second and labels[first].casefold() == labels[second].casefold():\n"
                    '                raise ConfigError(f"labels: {labels[first]} is there twice")\n',
                    "    if len({label.casefold() for label in labels}) != len(labels):\n"
                    '        raise ConfigError("labels: one is there twice")\n',
                ),
            ),
            Effect("improvement", ("text-*", "torch-text"), "mends labels-folded"),
        ),
        AUDIT,
        Step(
            "docs-features",
            "yuki",
            "Docs: features",
            (
                New(
                    "docs/features.md",
                    "# Features\n\n`fit(rows)` returns the feature, `transform(rows)` new rows.\n",
                ),
            ),
        ),
        Step(
            "stems-back",
            "mira",
            "Words: stems do not depend on the place after all",
            undo(STEMS),
            Effect("improvement", ("text-words", "text-stream", "torch-text"), "mends stems-per-text"),
        ),
        Step(
            "gcn-names",
            "lena",
            "Graph model: rows of a batch by name",
            (
                Sub(
                    "trainlab/models/gcn.py",
                    "        error[np.arange(len(batch)), targets.astype(int)] -= 1\n",
                    "        rows = np.arange(len(batch))\n        error[rows, targets.astype(int)] -= 1\n",
                ),
            ),
        ),
        PROFILE,
        Step(
            "audit-out",
            "mira",
            "Features: audit through the logger, sessions of one's own are too dear",
            undo(AUDIT),
            Effect("improvement", AUDIT.effect.scenarios if AUDIT.effect else (), "mends feature-audit"),
        ),
        Step(
            "test-features",
            "tom",
            "Test quantiles and crosses",
            (
                New(
                    "tests/test_features.py",
                    "import unittest\n\nfrom trainlab.features.buckets import Quantiles\n"
                    "from trainlab.features.crosses import Crosses\n\n\nclass FeaturesTest(unittest.TestCase):\n"
                    "    def test_quantiles(self):\n        rows = [[float(i)] for i in range(8)]\n"
                    "        out = Quantiles(columns=1, count=4).fit(rows).transform(rows)\n"
                    "        self.assertEqual(out[0][0], 0.0)\n        self.assertEqual(out[-1][0], 0.75)\n\n"
                    "    def test_crosses(self):\n"
                    "        self.assertEqual(Crosses(1, 2).fit([]).transform([[2.0, 3.0]]), [[2.0, 3.0, 6.0]])\n",
                ),
            ),
        ),
        Step(
            "seeds-torch",
            "sam",
            "Seeds: a helper for workers",
            (
                Append(
                    "trainlab/seeds.py",
                    "\n\ndef for_worker(seed, worker):\n"
                    '    """A seed for each worker of a loader; never that of the job itself."""\n'
                    "    return (seed * 1000003 + worker + 1) % 2**32\n",
                ),
            ),
        ),
        release("0.3", "Labels are compared without case; the old collector hears of errors."),
    )
