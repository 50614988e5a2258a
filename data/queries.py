"""The SQL of the store, in one place: each reads or writes one record of `tithe.data.records`."""

from __future__ import annotations

INSERT_CHANGE = """
INSERT INTO change (sha_id, digest, parent_id, history_index, author, time, subject, body, is_merge)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

# What says more of a change is kept: its place in history, then its symbols, then anything that all agree on.
SELECT_CHANGE_RANK = """
SELECT c.history_index, c.time, (SELECT COALESCE(SUM(LENGTH(e.symbols)), 0) FROM file_edit e
    WHERE e.sha_id = c.sha_id), c.digest
FROM change c WHERE c.sha_id = ?
"""

INSERT_FILE_EDIT = """
INSERT INTO file_edit (sha_id, position, path_id, old_path_id, added, deleted, symbols)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

SELECT_CHANGES = """
SELECT c.sha_id, s.text, p.text, c.history_index, c.author, c.time, c.subject, c.body, c.is_merge
FROM change c JOIN word s ON s.id = c.sha_id JOIN word p ON p.id = c.parent_id
WHERE c.history_index >= ? ORDER BY c.history_index, c.time, s.text
"""

SELECT_CHANGES_NAMED = """
SELECT c.sha_id, s.text, p.text, c.history_index, c.author, c.time, c.subject, c.body, c.is_merge
FROM change c JOIN word s ON s.id = c.sha_id JOIN word p ON p.id = c.parent_id
WHERE c.sha_id IN (SELECT id FROM word WHERE text IN (SELECT value FROM json_each(?))) ORDER BY s.text
"""

SELECT_FILE_EDITS_OF = """
SELECT e.sha_id, p.text, o.text, e.added, e.deleted, e.symbols
FROM file_edit e JOIN word p ON p.id = e.path_id JOIN word o ON o.id = e.old_path_id
WHERE e.sha_id IN (SELECT value FROM json_each(?)) ORDER BY e.sha_id, e.position
"""

SELECT_LAST_CHANGE = """
SELECT c.sha_id, s.text, p.text, c.history_index, c.author, c.time, c.subject, c.body, c.is_merge
FROM change c JOIN word s ON s.id = c.sha_id JOIN word p ON p.id = c.parent_id
WHERE c.history_index >= 0 ORDER BY c.history_index DESC, c.time DESC, s.text DESC LIMIT 1
"""

SELECT_FIRST_CHANGE = """
SELECT s.text FROM change c JOIN word s ON s.id = c.sha_id WHERE c.history_index = 0 ORDER BY c.time, s.text LIMIT 1
"""

SELECT_FILE_EDITS = """
SELECT e.sha_id, p.text, o.text, e.added, e.deleted, e.symbols
FROM file_edit e JOIN word p ON p.id = e.path_id JOIN word o ON o.id = e.old_path_id
WHERE ?1 IS NULL OR e.sha_id = ?1 ORDER BY e.sha_id, e.position
"""

INSERT_RUN = """
INSERT OR REPLACE INTO run (id, digest, kind, base_id, head_id, started_at, host_id, picked, selection)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

SELECT_RUNS = """
SELECT id, kind, base, head, started_at, host, picked, selection FROM runs
WHERE ?1 IS NULL OR kind = ?1 ORDER BY started_at, id
"""

INSERT_LAUNCH = """
INSERT INTO launch (digest, name, run_id, scenario_id, arm, sha_id, stage, block, position, place, started_at,
    seconds, status, exit_code, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING
"""

INSERT_SAMPLE = "INSERT INTO sample (launch_id, metric_id, value) VALUES (?, ?, ?)"
INSERT_PHASE = "INSERT INTO phase (launch_id, mark_id, seconds) VALUES (?, ?, ?)"

_LAUNCHES = """
SELECT l.id, l.digest, l.name, r.text, s.text, l.arm, c.text, l.stage, l.block, l.position, l.place,
    l.started_at, l.seconds, l.status, l.exit_code, l.note
FROM launch l JOIN word r ON r.id = l.run_id JOIN word s ON s.id = l.scenario_id
JOIN word c ON c.id = l.sha_id
WHERE {chosen} AND (l.started_at, l.digest) > (:time, :digest)
ORDER BY l.started_at, l.digest LIMIT :limit
"""

# The keys of the launches travel as one JSON list, whatever their number.
SELECT_SAMPLES = """
SELECT v.launch_id, w.text, v.value FROM sample v JOIN word w ON w.id = v.metric_id
WHERE v.launch_id IN (SELECT value FROM json_each(?)) ORDER BY v.launch_id, w.text
"""

SELECT_PHASES = """
SELECT v.launch_id, w.text, v.seconds FROM phase v JOIN word w ON w.id = v.mark_id
WHERE v.launch_id IN (SELECT value FROM json_each(?)) ORDER BY v.launch_id, w.text
"""

SELECT_LAUNCH_SECONDS = """
SELECT w.text, m.microseconds, m.launches
FROM (
    SELECT scenario_id, SUM(CAST(ROUND(seconds * 1e6) AS INTEGER)) AS microseconds, COUNT(*) AS launches
    FROM launch WHERE stage <> 'warmup' GROUP BY scenario_id
) m JOIN word w ON w.id = m.scenario_id ORDER BY w.text
"""

# A block with any launch that is not ok is no block of the noise, also where that launch has no sample.
SELECT_NOISE_SAMPLES = """
WITH spoilt AS (SELECT run_id, scenario_id, stage, block FROM launch WHERE status <> 'ok')
SELECT l.scenario_id, v.metric_id, l.run_id,
    l.block * 4 + CASE l.stage WHEN 'first' THEN 0 WHEN 'confirm' THEN 1 WHEN 'probe' THEN 2 ELSE 3 END,
    l.arm = 'head', l.sha_id, v.value
FROM launch l JOIN sample v ON v.launch_id = l.id
WHERE l.stage IN ('first', 'confirm', 'probe', 'record')
    AND (l.run_id, l.scenario_id, l.stage, l.block) NOT IN spoilt
    AND (?1 IS NULL OR l.run_id IN
        (SELECT id FROM run WHERE host_id = (SELECT id FROM word WHERE text = ?1)))
    AND (?2 IS NULL OR l.run_id IS NOT (SELECT id FROM word WHERE text = ?2))
    AND (?3 IS NULL OR l.scenario_id IN (SELECT scenario_id FROM launch WHERE id > ?3))
"""

INSERT_OUTCOME = """
INSERT INTO outcome (digest, base_id, change_id, scenario_id, metric_id, verdict, known_at, source, picked,
    ratio, low, high, confidence, weight, run_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING
"""

# The rule of precedence that the schema states at table `source`.
SELECT_OUTCOMES = """
SELECT b.text, c.text, s.text, m.text, o.verdict, o.known_at, o.source, o.picked, o.ratio, o.low, o.high,
    o.confidence, o.weight, r.text
FROM outcome o JOIN word b ON b.id = o.base_id JOIN word c ON c.id = o.change_id
JOIN word s ON s.id = o.scenario_id JOIN word m ON m.id = o.metric_id JOIN word r ON r.id = o.run_id
JOIN source q ON q.name = o.source
WHERE o.known_at < :until AND (:superseded OR NOT EXISTS (
    SELECT 1 FROM outcome x JOIN source y ON y.name = x.source
    WHERE x.change_id = o.change_id AND x.scenario_id = o.scenario_id AND x.metric_id = o.metric_id
        AND x.base_id = o.base_id AND x.known_at < :until
        AND (y.strength, x.known_at, x.digest) > (q.strength, o.known_at, o.digest)))
    AND o.known_at >= :since AND (:scenarios IS NULL OR s.text IN (SELECT value FROM json_each(:scenarios)))
ORDER BY o.known_at, o.digest
"""

COUNT_VERDICTS = "SELECT verdict, COUNT(*) FROM outcome GROUP BY verdict"

# By the same rule of precedence; few subjects are spoken of twice, and the index has those together.
COUNT_SUPERSEDED = """
WITH twice AS (
    SELECT change_id, scenario_id, metric_id, base_id FROM outcome
    GROUP BY change_id, scenario_id, metric_id, base_id HAVING COUNT(*) > 1)
SELECT verdict, COUNT(*) FROM (
    SELECT o.verdict AS verdict, ROW_NUMBER() OVER (
        PARTITION BY o.change_id, o.scenario_id, o.metric_id, o.base_id
        ORDER BY q.strength DESC, o.known_at DESC, o.digest DESC) AS rank
    FROM twice t JOIN outcome o USING (change_id, scenario_id, metric_id, base_id)
    JOIN source q ON q.name = o.source)
WHERE rank > 1 GROUP BY verdict
"""

INSERT_SELECTION = "INSERT INTO selection (id, digest, created_at, document) VALUES (?, ?, ?, ?)"

COUNTED: dict[str, str] = {
    "changes": "SELECT COUNT(*) FROM change",
    "tags": "SELECT COUNT(*) FROM tag",
    "runs": "SELECT COUNT(*) FROM run",
    "launches": "SELECT COUNT(*) FROM launch",
    "samples": "SELECT COUNT(*) FROM sample",
    "outcomes": "SELECT COUNT(*) FROM outcome",
    "observations": "SELECT COUNT(*) FROM observation",
    "selections": "SELECT COUNT(*) FROM selection",
    "bundles": "SELECT COUNT(*) FROM bundle",
    "models": "SELECT COUNT(*) FROM model",
}


def select_launches(*, run: bool, scenario: bool, stage: bool) -> str:
    """The query for launches in parts; each wanted filter is a parameter of its name."""
    chosen = ["1"]
    if run:
        chosen.append("l.run_id = (SELECT id FROM word WHERE text = :run)")
    if scenario:
        chosen.append("l.scenario_id = (SELECT id FROM word WHERE text = :scenario)")
    if stage:
        chosen.append("l.stage = :stage")
    return _LAUNCHES.format(chosen=" AND ".join(chosen))


INSERT_MEASUREMENT = """
INSERT INTO measurement (digest, scenario_id, host_id, version, sha_id, at, value, unit, direction, processes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING
"""

SELECT_SERIES = """
SELECT s.text, h.text, m.scenario_id, m.host_id, m.version
FROM (SELECT DISTINCT scenario_id, host_id, version FROM measurement) m
JOIN word s ON s.id = m.scenario_id JOIN word h ON h.id = m.host_id ORDER BY s.text, h.text, m.version
"""

SELECT_MEASUREMENTS = """
SELECT c.text, m.at, m.value, m.unit, m.direction, m.processes
FROM measurement m JOIN word c ON c.id = m.sha_id
WHERE m.scenario_id = ? AND m.host_id = ? AND m.version = ? ORDER BY c.text, m.at, m.value, m.digest
"""

INSERT_OBSERVATION = """
INSERT INTO observation (digest, scenario_id, sha_id, known_at) VALUES (?, ?, ?, ?)
ON CONFLICT (digest) DO NOTHING
"""
INSERT_OBSERVED_FILE = "INSERT INTO observed_file (observation_id, path_id, touched) VALUES (?, ?, ?)"

SELECT_OBSERVATIONS = """
SELECT o.id, s.text, c.text, o.known_at
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY scenario_id ORDER BY known_at DESC, digest DESC) AS place
    FROM observation
) o JOIN word s ON s.id = o.scenario_id JOIN word c ON c.id = o.sha_id
WHERE o.place <= ? ORDER BY o.known_at, o.digest
"""
SELECT_OBSERVED_FILES = """
SELECT p.text, f.touched FROM observed_file f JOIN word p ON p.id = f.path_id
WHERE f.observation_id = ? ORDER BY p.text
"""
INSERT_OBSERVED_FUNCTION = """
INSERT INTO observed_function (observation_id, path_id, name_id, calls, share, own) VALUES (?, ?, ?, ?, ?, ?)
"""
SELECT_OBSERVED_FUNCTIONS = """
SELECT f.observation_id, p.text, n.text, f.calls, f.share, f.own FROM observed_function f
JOIN word p ON p.id = f.path_id JOIN word n ON n.id = f.name_id
WHERE f.observation_id IN (SELECT value FROM json_each(:observations)) {paths} ORDER BY f.observation_id, p.text, n.text
"""
OF_PATHS = """
AND f.path_id IN (SELECT id FROM word WHERE text IN (SELECT value FROM json_each(:paths)))
"""
LAST_OBSERVED = "SELECT COALESCE(MAX(known_at), 0.0) FROM observation"
