-- The store of tithe: what changed, what was measured, and what was concluded from it.
--
-- This file is the schema of a new store, at the version that `tithe.data.migrations` names; an older store
-- is brought to the same shape by the steps there. docs/schema.md is generated from the comments in here:
-- the lines above a table describe it, the comment behind a column describes the column.
--
-- Integer keys are local to one file and depend on the order in which records arrived. The content of a
-- store is what the views say, and that does not depend on the order: every record has a digest of its
-- content, so that the same record twice is one row. A digest is 63 bits of SHA-256; among ten million
-- records the chance that any two unlike ones meet is 5 in a million.

-- The versions that this file has had. The largest one is what it is now; a tithe that knows only smaller
-- ones refuses the file.
CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,    -- version of the schema
    applied_at REAL NOT NULL,       -- when it was created at, or migrated to, this version
    tithe TEXT NOT NULL             -- version of tithe that did it
) STRICT;

-- Every string that repeats: commits, scenario names, metric names, marks, paths, run ids, hosts. Ten
-- million rows then hold small integers instead of names and hashes.
CREATE TABLE word (
    id INTEGER PRIMARY KEY,         -- local key
    text TEXT NOT NULL UNIQUE       -- the string
) STRICT;

-- One commit of first-parent history, or a diff that was under test. Of two unlike records of one commit
-- the one with the larger (history_index, time, digest) stays: what git says of history replaces what was
-- known of the commit while it was a diff under test.
CREATE TABLE change (
    sha_id INTEGER PRIMARY KEY REFERENCES word(id),     -- the commit
    digest INTEGER NOT NULL,                            -- of the whole record, files included
    parent_id INTEGER NOT NULL REFERENCES word(id),     -- its first parent
    history_index INTEGER NOT NULL,                     -- place on first-parent history from 0; -1: not on it
    author TEXT NOT NULL,                               -- as git names the author
    time REAL NOT NULL,                                 -- committer's clock, made monotone along history
    subject TEXT NOT NULL,                              -- first line of the message
    body TEXT NOT NULL,                                 -- the rest of the message
    is_merge INTEGER NOT NULL CHECK (is_merge IN (0, 1))    -- 1 for a merge commit
) STRICT;

CREATE INDEX change_by_history ON change (history_index);

-- One file of a change, in the order of the diff to the first parent.
CREATE TABLE file_edit (
    sha_id INTEGER NOT NULL REFERENCES change(sha_id),  -- the change
    position INTEGER NOT NULL,                          -- order in the diff, from 0
    path_id INTEGER NOT NULL REFERENCES word(id),       -- path after the change
    old_path_id INTEGER NOT NULL REFERENCES word(id),   -- where it was renamed from; the empty word if not
    added INTEGER NOT NULL,                             -- lines; -1 for a binary file
    deleted INTEGER NOT NULL,                           -- lines; -1 for a binary file
    symbols TEXT NOT NULL DEFAULT '',                   -- functions and classes touched, with spaces between
    PRIMARY KEY (sha_id, position)
) WITHOUT ROWID, STRICT;

-- The tags of the repository, as git had them when they were last read.
CREATE TABLE tag (
    name TEXT PRIMARY KEY,                              -- without refs/tags/
    sha_id INTEGER NOT NULL REFERENCES word(id)         -- the commit that it points at
) STRICT;

-- One call of run, check, sweep, bisect or record. Of two unlike records of one id the one with the larger
-- (started_at, digest) stays.
CREATE TABLE run (
    id INTEGER PRIMARY KEY REFERENCES word(id),         -- the run's id
    digest INTEGER NOT NULL,                            -- of the whole record
    kind TEXT NOT NULL,                                 -- run, check, sweep, bisect, record
    base_id INTEGER NOT NULL REFERENCES word(id),       -- the revision that was compared with
    head_id INTEGER NOT NULL REFERENCES word(id),       -- the revision under test
    started_at REAL NOT NULL,                           -- seconds since the epoch, UTC
    host_id INTEGER NOT NULL REFERENCES word(id),       -- samples may be pooled within it, never across
    picked TEXT NOT NULL,                               -- how it came to be run: chosen, audited, asked, ...
    selection TEXT NOT NULL                             -- id of the selection carried out; empty if none
) STRICT;

-- One process start, warm-ups and failed ones included; raw samples are never thrown away. The launch's run
-- may arrive in a later bundle than the launch, so nothing here demands that the run is known.
CREATE TABLE launch (
    id INTEGER PRIMARY KEY,                             -- local key
    digest INTEGER NOT NULL UNIQUE,                     -- of the whole record, values and phases included
    name TEXT NOT NULL,                                 -- the launch's id, as the runner gave it
    run_id INTEGER NOT NULL REFERENCES word(id),        -- the run that it belongs to
    scenario_id INTEGER NOT NULL REFERENCES word(id),   -- what was launched
    arm TEXT NOT NULL CHECK (arm IN ('base', 'head')),  -- which side of the comparison
    sha_id INTEGER NOT NULL REFERENCES word(id),        -- the commit that ran
    stage TEXT NOT NULL,                                -- warmup, first, confirm, probe, record
    block INTEGER NOT NULL,                             -- block within the run, scenario and stage
    position INTEGER NOT NULL,                          -- order within the block, from 0
    place TEXT NOT NULL CHECK (place IN ('a', 'b')),    -- which of the arm's two builds
    started_at REAL NOT NULL,                           -- seconds since the epoch, UTC
    seconds REAL NOT NULL,                              -- machine time, start-up of the launcher included
    status TEXT NOT NULL,                               -- ok, failed, timeout, unmarked
    exit_code INTEGER,                                  -- as the shell says it; null when it never started
    note TEXT NOT NULL                                  -- why it is not ok; empty otherwise
) STRICT;

CREATE INDEX launch_by_run ON launch (run_id, started_at, digest);
CREATE INDEX launch_by_scenario ON launch (scenario_id, started_at, digest);
CREATE INDEX launch_by_time ON launch (started_at, digest);

-- One metric of one launch: the raw sample.
CREATE TABLE sample (
    launch_id INTEGER NOT NULL REFERENCES launch(id),   -- the launch
    metric_id INTEGER NOT NULL REFERENCES word(id),     -- the metric
    value REAL NOT NULL,                                -- in the metric's unit
    PRIMARY KEY (launch_id, metric_id)
) WITHOUT ROWID, STRICT;

-- One mark that a launch passed on its way.
CREATE TABLE phase (
    launch_id INTEGER NOT NULL REFERENCES launch(id),   -- the launch
    mark_id INTEGER NOT NULL REFERENCES word(id),       -- the mark
    seconds REAL NOT NULL,                              -- since the launch, or since the submit time if given
    PRIMARY KEY (launch_id, mark_id)
) WITHOUT ROWID, STRICT;

-- One number that another tool measured on a commit: a point of a benchmark's history. What the tool repeated
-- within a process is one number here; it is no launch, and never used as one.
CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,                             -- local key
    digest INTEGER NOT NULL UNIQUE,                     -- of the whole record
    scenario_id INTEGER NOT NULL REFERENCES word(id),   -- the benchmark, as a scenario's name
    host_id INTEGER NOT NULL REFERENCES word(id),       -- machine and environment; series never mix two
    version TEXT NOT NULL,                              -- of the benchmark, and its name if unlike; never mixed
    sha_id INTEGER NOT NULL REFERENCES word(id),        -- the commit
    at REAL,                                            -- when it was measured; null where nobody says
    value REAL NOT NULL,                                -- in its unit
    unit TEXT NOT NULL,                                 -- s, bytes, or the tool's own
    direction TEXT NOT NULL,                            -- smaller or larger: which is better
    processes INTEGER NOT NULL                          -- launches behind it; 0 for a summary that does not say
) STRICT;

CREATE INDEX measurement_by_series ON measurement (scenario_id, host_id, version);

-- One untimed launch that was watched for the files of the repository that it loads and opens, and its functions.
CREATE TABLE observation (
    id INTEGER PRIMARY KEY,                             -- local key
    digest INTEGER NOT NULL UNIQUE,                     -- of the whole record, files included
    scenario_id INTEGER NOT NULL REFERENCES word(id),   -- what was launched
    sha_id INTEGER NOT NULL REFERENCES word(id),        -- the commit that ran
    known_at REAL NOT NULL                              -- when it was there to be read; graphs look before it
) STRICT;

-- One file of an observation.
CREATE TABLE observed_file (
    observation_id INTEGER NOT NULL REFERENCES observation(id),     -- the observation
    path_id INTEGER NOT NULL REFERENCES word(id),       -- the file, from the top of the repository
    touched INTEGER NOT NULL CHECK (touched IN (0, 1)), -- 0: the static graph leads to it, and the launch did not
    PRIMARY KEY (observation_id, path_id)
) WITHOUT ROWID, STRICT;

-- What a function took of an observed launch.
CREATE TABLE observed_function (
    observation_id INTEGER NOT NULL REFERENCES observation(id),     -- the observation
    path_id INTEGER NOT NULL REFERENCES word(id),       -- its file
    name_id INTEGER NOT NULL REFERENCES word(id),       -- qualified within the file; <module> for its import
    calls INTEGER NOT NULL,                             -- in all processes
    share REAL NOT NULL,                                -- of the launch, from its calls to its returns
    own REAL NOT NULL,                                  -- of the launch, outside other functions of the repository
    PRIMARY KEY (observation_id, path_id, name_id)
) WITHOUT ROWID, STRICT;

-- Where an outcome can come from, and how much it is believed. Rule of precedence, applied when outcomes are
-- read as of a moment t: of all outcomes of one (base, change, scenario, metric) with known_at < t, the one
-- with the largest (strength, known_at, digest) speaks and the others are silent. Nothing is ever deleted,
-- so the answer for an earlier t stays what it was.
CREATE TABLE source (
    name TEXT PRIMARY KEY,                              -- source of an outcome
    strength INTEGER NOT NULL                           -- the larger hides the smaller
) STRICT;

INSERT INTO source (name, strength) VALUES ('import', 0), ('ab', 1), ('sweep', 1), ('bisect', 2), ('human', 3);

-- The verdict of one change on one metric of one scenario: what the model learns from. See source for which
-- of several is believed.
CREATE TABLE outcome (
    id INTEGER PRIMARY KEY,                             -- local key
    digest INTEGER NOT NULL UNIQUE,                     -- of the whole record
    base_id INTEGER NOT NULL REFERENCES word(id),       -- what it was compared with
    change_id INTEGER NOT NULL REFERENCES word(id),     -- the commit that it is about
    scenario_id INTEGER NOT NULL REFERENCES word(id),   -- the scenario
    metric_id INTEGER NOT NULL REFERENCES word(id),     -- the metric
    verdict TEXT NOT NULL,                              -- regressed, improved, same, inconclusive, broken, ...
    known_at REAL NOT NULL,                             -- when it was there to be read; features look before it
    source TEXT NOT NULL REFERENCES source(name),       -- where it comes from
    picked TEXT NOT NULL,                               -- how it came to be measured: chosen, audited, ...
    ratio REAL,                                         -- head over base; null when there is none
    low REAL,                                           -- lower end of its interval
    high REAL,                                          -- upper end of its interval
    confidence REAL NOT NULL,                           -- chance that the verdict is right
    weight REAL NOT NULL,                               -- what it counts in training
    run_id INTEGER NOT NULL REFERENCES word(id)         -- the run that it comes from; the empty word if none
) STRICT;

CREATE INDEX outcome_by_subject ON outcome (change_id, scenario_id, metric_id, base_id);
CREATE INDEX outcome_by_time ON outcome (known_at, digest);

-- What was chosen to run, and what was left out and why: the document that `select` printed.
CREATE TABLE selection (
    id TEXT PRIMARY KEY,                                -- the selection's id
    digest INTEGER NOT NULL,                            -- of the document; the larger of two unlike ones stays
    created_at REAL,                                    -- earliest time that is known; null when none is
    document TEXT NOT NULL                              -- the selection as JSON
) STRICT;

-- The spool bundles that were taken in.
CREATE TABLE bundle (
    hash TEXT PRIMARY KEY,                              -- content hash, the bundle's name
    records INTEGER NOT NULL                            -- how many records it held
) STRICT;

-- The models that were trained.
CREATE TABLE model (
    version TEXT PRIMARY KEY,                           -- name of the model's folder
    path TEXT NOT NULL,                                 -- where the folder is
    created_at REAL NOT NULL,                           -- when it was trained
    info TEXT NOT NULL                                  -- backtest and training window, as JSON
) STRICT;

-- Which model served from when on; the last row is the one in force, a rollback is one more row.
CREATE TABLE promotion (
    id INTEGER PRIMARY KEY AUTOINCREMENT,               -- order of the promotions
    version TEXT NOT NULL REFERENCES model(version),    -- the model
    promoted_at REAL NOT NULL                           -- when
) STRICT;

-- Changes in words.
CREATE VIEW changes AS
SELECT s.text AS sha, p.text AS parent, c.history_index, c.author, c.time, c.subject, c.body, c.is_merge
FROM change c JOIN word s ON s.id = c.sha_id JOIN word p ON p.id = c.parent_id;

-- Files of changes in words.
CREATE VIEW file_edits AS
SELECT s.text AS sha, e.position, p.text AS path, o.text AS old_path, e.added, e.deleted, e.symbols
FROM file_edit e JOIN word s ON s.id = e.sha_id JOIN word p ON p.id = e.path_id
JOIN word o ON o.id = e.old_path_id;

-- Tags in words.
CREATE VIEW tags AS
SELECT t.name, s.text AS sha FROM tag t JOIN word s ON s.id = t.sha_id;

-- Runs in words.
CREATE VIEW runs AS
SELECT i.text AS id, r.kind, b.text AS base, h.text AS head, r.started_at, m.text AS host, r.picked, r.selection
FROM run r JOIN word i ON i.id = r.id JOIN word b ON b.id = r.base_id JOIN word h ON h.id = r.head_id
JOIN word m ON m.id = r.host_id;

-- Launches in words.
CREATE VIEW launches AS
SELECT l.digest, l.name AS id, r.text AS run, s.text AS scenario, l.arm, c.text AS sha, l.stage, l.block,
    l.position, l.place, l.started_at, l.seconds, l.status, l.exit_code, l.note
FROM launch l JOIN word r ON r.id = l.run_id JOIN word s ON s.id = l.scenario_id JOIN word c ON c.id = l.sha_id;

-- Samples in words.
CREATE VIEW samples AS
SELECT l.digest, l.name AS launch, m.text AS metric, v.value
FROM sample v JOIN launch l ON l.id = v.launch_id JOIN word m ON m.id = v.metric_id;

-- Phases in words.
CREATE VIEW phases AS
SELECT l.digest, l.name AS launch, m.text AS mark, v.seconds
FROM phase v JOIN launch l ON l.id = v.launch_id JOIN word m ON m.id = v.mark_id;

-- Measurements in words.
CREATE VIEW measurements AS
SELECT m.digest, s.text AS scenario, h.text AS host, m.version, c.text AS sha, m.at, m.value, m.unit,
    m.direction, m.processes
FROM measurement m JOIN word s ON s.id = m.scenario_id JOIN word h ON h.id = m.host_id
JOIN word c ON c.id = m.sha_id;

-- Observations in words.
CREATE VIEW observations AS
SELECT o.digest, s.text AS scenario, c.text AS sha, o.known_at
FROM observation o JOIN word s ON s.id = o.scenario_id JOIN word c ON c.id = o.sha_id;

-- Files of observations in words.
CREATE VIEW observed_files AS
SELECT o.digest, p.text AS path, f.touched
FROM observed_file f JOIN observation o ON o.id = f.observation_id JOIN word p ON p.id = f.path_id;

-- Functions of observations in words.
CREATE VIEW observed_functions AS
SELECT o.digest, p.text AS path, n.text AS name, f.calls, f.share, f.own
FROM observed_function f JOIN observation o ON o.id = f.observation_id
JOIN word p ON p.id = f.path_id JOIN word n ON n.id = f.name_id;

-- All outcomes in words, those that another one has superseded included.
CREATE VIEW outcomes AS
SELECT o.digest, b.text AS base, c.text AS change, s.text AS scenario, m.text AS metric, o.verdict, o.known_at,
    o.source, o.picked, o.ratio, o.low, o.high, o.confidence, o.weight, r.text AS run
FROM outcome o JOIN word b ON b.id = o.base_id JOIN word c ON c.id = o.change_id
JOIN word s ON s.id = o.scenario_id JOIN word m ON m.id = o.metric_id JOIN word r ON r.id = o.run_id;
