"""What happens to jobs that mean harm: each as the head of a real `tithe run`, and what was said and left.

scripts/bench/hostile            # 10 GB of output takes a while; --quick writes 1 GB
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kills import git

CONFIG = """\
[tithe]
main = "main"

[graph]
packages = []

[[scenario]]
name = "job"
command = "python job.py"
metrics = [{ name = "score", unit = "s" }, "wall"]
timeout = "60s"
"""
GOOD = "print('score=1.0')\n"
PIDS = "open({pids!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
FLOOD = """\
import os, sys
line = b"x" * 65535 + b"\\n"
for _ in range({gigabytes} * 16384):
    os.write(1, line)
print("score=1.0")
"""
JOBS = {
    "escapes by setsid": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    "
        + PIDS
        + "    time.sleep(600)\nprint('score=1.0')\n"
    ),
    "escapes by a double fork": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        "
        + PIDS
        + "        time.sleep(600)\n    os._exit(0)\nprint('score=1.0')\n"
    ),
    "ignores SIGTERM and hangs": (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + PIDS
        + "time.sleep(600)\n"
    ),
    "deletes its folder": "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nprint('score=1.0')\n",
    "writes NaN": "print('score=nan')\nprint('score=NaN')\n",
    "writes 1e308": "print('score=1e308')\n",
    "writes minus infinity and 1e999": "print('score=-inf')\nprint('score=1e999')\n",
    "prints garbage": "import os, sys\nsys.stdout.buffer.write(os.urandom(1 << 20)); print(); print('score=1.0')\n",
    "reads the environment for a secret": (
        "import os, pathlib\nfound = [k for k, v in os.environ.items() if 'hunter2' in v]\n"
        "pid = os.getppid()\n"
        "for up in range(3):\n"
        "    for what in ('environ', 'cmdline'):\n"
        "        try:\n"
        "            told = pathlib.Path(f'/proc/{{pid}}/{{what}}').read_bytes()\n"
        "            found += ['/proc'] * (b'hunter2' in told)\n"
        "        except OSError:\n            pass\n"
        "    try:\n        pid = int(pathlib.Path(f'/proc/{{pid}}/stat').read_text().rpartition(')')[2].split()[1])\n"
        "    except OSError:\n        break\n"
        "open({pids!r} + '.secret', 'a').write(repr(found) + '\\n')\nprint('score=1.0')\n"
    ),
    "writes ten gigabytes": FLOOD,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for name, code in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {tried(Path(folder), code, 1 if options.quick else 10)}", flush=True)


def tried(folder: Path, code: str, gigabytes: int) -> str:
    root, pids = folder / "repository", folder / "pids"
    root.mkdir()
    pids.touch()
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        git(root, "config", key, value)
    hangs = "SIG_IGN" in code
    config = CONFIG.replace("60s", "2s") if hangs else CONFIG
    for text, subject in ((GOOD, "good"), (code.format(pids=str(pids), gigabytes=gigabytes), "hostile")):
        (root / "tithe.toml").write_text(config)
        (root / "job.py").write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", subject)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tithe", "run", "--base", "HEAD~1", "--head", "HEAD", "--format", "json"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PASSWORD": "hunter2"},
    )
    took = time.monotonic() - began
    report = json.loads(done.stdout)
    told = {v["metric"]: v for v in report["verdicts"]}
    score = told["score"]
    parts = [f"exit {done.returncode}, {score['verdict']}" + (f" ({score['note']})" if score["note"] else "")]
    parts += report["warnings"]
    alive = [pid for pid in set(pids.read_text().split()) if Path(f"/proc/{pid}").exists()]
    parts.append(f"{len(set(pids.read_text().split()))} processes noted, {len(alive)} left")
    size = sum(path.stat().st_size for path in (root / ".tithe").rglob("*") if path.is_file())
    parts.append(f"{size / 2**20:.1f} MiB below .tithe, {took:.0f} s")
    secret = Path(f"{pids}.secret")
    if secret.exists():
        parts.append(f"secrets seen: {sorted(set(secret.read_text().split(chr(10))) - {''})}")
    if "Traceback" in done.stderr:
        parts.append("TRACEBACK")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
