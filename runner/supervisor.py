"""A tiny process that runs one job and lets nothing of it escape, from measuring or from the end.

It is a process of its own, started for every launch with `python -I -S`, for three reasons. The kernel hands
a parent's peak memory on to what it forks and executes, so that a job started straight from a fat process
reports that process's memory: this one stays near 12 MB. A subreaper must be the parent of all orphans, and
only then does `wait4` account for what left the job's session by `setsid` and double forks. And when tithe is
gone, even by SIGKILL, its end of our standard input closes, and the job is killed.

Where there is no subreaper (macOS), descendants are found by parentage and by a token in their environment.

One JSON plan comes in on the first line of standard input, one JSON result goes out on standard output. It
imports nothing but the standard library and nothing of tithe.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

TERM_GRACE_S = 2.0
"""After a time-out: from SIGTERM to SIGKILL."""
LINGER_S = 0.05
"""After the main process: what its helpers get to end by themselves (resource trackers clean up here)."""
ORPHAN_GRACE_S = 1.0
"""From SIGTERM to SIGKILL for what outlived the main process."""
GIVE_UP_S = 10.0
"""How long SIGKILL may take, for processes that hang in the kernel."""
CHUNK = 1 << 16
MEMORY_POLL_S = 0.05
"""How often the memory of a job with a limit is looked at."""
PERF_SYSCALL = {"x86_64": 298, "aarch64": 241}
PERF_INSTRUCTIONS = (0, 1)
"""Type and number of the event in perf_event_open(2): hardware, retired instructions."""


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def become_subreaper() -> bool:
    """Adopt every orphan below this process from now on (Linux only)."""
    return _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def hide_from_others() -> bool:
    """Keep this process's memory and environment from processes of the same user (Linux only).

    A job sees an allow-list of variables; /proc/<pid>/environ of whoever started it would show it the rest.
    Children that execute another program are not affected.
    """
    return _prctl(4, 0)  # PR_SET_DUMPABLE


def open_counter(pid: int, event: tuple[int, int]) -> tuple[int, str]:
    """A perf counter of a process that has not executed yet, and of all that it will start; in user space only.

    Returns its descriptor, or -1 and why there is none. It counts from the next execution on.
    """
    number = PERF_SYSCALL.get(os.uname().machine)
    if not sys.platform.startswith("linux") or number is None:
        return -1, "this system has no perf"
    try:
        import ctypes
        import struct

        attributes = bytearray(128)
        # disabled, inherit, exclude_kernel, exclude_hv, enable_on_exec
        flags = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 12
        struct.pack_into("IIQQQQQ", attributes, 0, event[0], len(attributes), event[1], 0, 0, 0, flags)
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
        close_on_exec = 8
        descriptor = libc.syscall(number, buffer, pid, -1, -1, close_on_exec)
        return descriptor, "" if descriptor >= 0 else f"perf: {os.strerror(ctypes.get_errno())}"
    except (ImportError, OSError, AttributeError) as error:
        return -1, str(error)


def memory_of(pids: set[int]) -> int:
    """Resident bytes of these processes together, from /proc; pages that they share count for each."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE")


def parents_from_proc() -> dict[int, int]:
    """pid to parent's pid of all processes, from /proc."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command stands in brackets and may hold brackets and blanks itself.
                found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return found


def holders_from_proc(token: str) -> set[int]:
    """Processes whose environment at their start held the token, from /proc."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if token.encode() in file.read():
                    found.add(int(name))
        except OSError:
            continue
    return found


def parse_ps(text: str, token: str) -> tuple[dict[int, int], set[int]]:
    """Parents, and holders of the token, from lines of `pid ppid command with environment`."""
    parents: dict[int, int] = {}
    holders: set[int] = set()
    for line in text.splitlines():
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].isdigit() or not words[1].isdigit():
            continue
        parents[int(words[0])] = int(words[1])
        if len(words) == 3 and token in words[2]:
            holders.add(int(words[0]))
    return parents, holders


def below(root: int, parents: dict[int, int]) -> set[int]:
    """All descendants of `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found:
                found.add(pid)
                queue.append(pid)
    return found


def descendants(token: str, subreaper: bool) -> set[int]:
    """What is left of the job, as well as this host lets us see it."""
    own = os.getpid()
    if os.path.isdir("/proc/self"):
        found = below(own, parents_from_proc())
        if not subreaper and token:
            found |= holders_from_proc(token)
    else:
        parents, holders = list_ps(token)
        found = below(own, parents) | (holders if token else set())
    found.discard(own)
    return found


def list_ps(token: str) -> tuple[dict[int, int], set[int]]:
    """As `parse_ps`, of all processes but the one that lists them."""
    import subprocess

    lister = subprocess.Popen(
        ["ps", "-axww", "-E", "-o", "pid=,ppid=,command="], stdout=subprocess.PIPE, text=True
    )
    parents, holders = parse_ps(lister.communicate()[0], token)
    parents.pop(lister.pid, None)
    return parents, holders - {lister.pid}


def holders(token: str) -> set[int]:
    """Processes that were started with the token in their environment, for where no supervisor is left."""
    return holders_from_proc(token) if os.path.isdir("/proc/self") else list_ps(token)[1]


class CappedFile:
    """The head and the tail of a stream in a file; what lies between is dropped; no job is blocked."""

    def __init__(self, path: str, cap: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._head_left = cap - cap // 4
        self._tail_cap = cap // 4
        self._tail = bytearray()
        self.total = 0
        self.dropped = 0

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if self._head_left:
            head, chunk = chunk[: self._head_left], chunk[self._head_left :]
            self._head_left -= len(head)
            self._write(head)
        if chunk:
            self._tail += chunk
            if len(self._tail) > 2 * self._tail_cap:
                self._trim()

    def close(self) -> None:
        self._trim()
        if self.dropped:
            self._write(f"\n[... {self.dropped} bytes cut ...]\n".encode())
        self._write(bytes(self._tail))
        os.close(self._descriptor)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._tail_cap
        if surplus > 0:
            del self._tail[:surplus]
            self.dropped += surplus

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # a full disk costs the job's output, never the job
            self.dropped += len(data)


class Job:
    """One job from its fork to the last of its descendants."""

    def __init__(self, plan: dict[str, object], subreaper: bool) -> None:
        self.plan = plan
        self.subreaper = subreaper
        self.token = str(plan.get("token", ""))
        self.main = 0
        self.start_ns = 0
        self.start_unix = 0.0
        self.end_ns = 0
        self.raw_status: int | None = None
        self.cpu_s = 0.0
        self.rss = 0
        self.processes = 0
        self.killed: set[int] = set()
        self.timed_out = False
        self.abandoned = False
        self.too_large = 0
        """Bytes that the job had taken when it was ended for its memory limit."""
        self.counter = -1
        self.uncounted = ""
        """Why instructions are not counted."""

    def start(self, out: int, err: int) -> str:
        """Fork and execute; returns why it could not, or nothing."""
        argv = [str(word) for word in self._list("argv")]
        env = {str(key): str(value) for key, value in self._dict("env").items()}
        report_read, report_write = os.pipe()
        go_read, go_write = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: for the case that this supervisor is killed
                if os.getppid() != supervisor:
                    os._exit(127)
                os.close(go_write)
                os.read(go_read, 1)  # until its counter is there
                if cores := [int(str(core)) for core in self._list("cores")]:
                    os.sched_setaffinity(0, cores)
                for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(number, signal.SIG_DFL)
                os.chdir(str(self.plan["cwd"]))
                null = os.open(os.devnull, os.O_RDONLY)
                for source, target in ((null, 0), (out, 1), (err, 2)):
                    os.dup2(source, target)
                os.write(report_write, f"S{time.monotonic_ns()} {time.time()!r}\n".encode())
                os.execvpe(argv[0], argv, env)
            except BaseException as error:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                os.write(report_write, f"E{reason}\n".encode(errors="replace"))
            os._exit(127)
        os.close(report_write)
        os.close(go_read)
        if self.plan.get("instructions"):
            self.counter, self.uncounted = open_counter(pid, PERF_INSTRUCTIONS)
        os.close(go_write)
        report = b""
        while chunk := os.read(report_read, 4096):
            report += chunk
        os.close(report_read)
        self.main = pid
        for line in report.decode(errors="replace").splitlines():
            if line.startswith("S"):
                clock, _, unix = line[1:].partition(" ")
                self.start_ns, self.start_unix = int(clock), float(unix)
            elif line.startswith("E"):
                os.waitpid(pid, 0)
                return line[1:]
        return ""

    def reap(self) -> bool:
        """Take in every child that has ended; returns whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.end_ns = time.monotonic_ns()
                self.raw_status = status
            self.processes += 1
            self.cpu_s += usage.ru_utime + usage.ru_stime
            scale = 1 if sys.platform == "darwin" else 1024
            self.rss = max(self.rss, usage.ru_maxrss * scale)

    def signal_tree(self, number: int) -> int:
        """Send a signal to all that is left; returns how many there were."""
        found = descendants(self.token, self.subreaper)
        for pid in found:
            try:
                os.kill(pid, number)
            except OSError:
                continue
            self.killed.add(pid)
        return len(found)

    def instructions(self) -> int | None:
        """What the counter says, once all is over; None where there is none."""
        if self.counter < 0:
            return None
        try:
            return int.from_bytes(os.read(self.counter, 8), sys.byteorder)
        except OSError:
            return None

    def exit_code(self) -> int | None:
        if self.raw_status is None:
            return None
        if os.WIFSIGNALED(self.raw_status):
            return 128 + os.WTERMSIG(self.raw_status)
        return os.WEXITSTATUS(self.raw_status)

    def _list(self, key: str) -> list[object]:
        value = self.plan[key]
        if not isinstance(value, list):
            raise TypeError(key)
        return value

    def _dict(self, key: str) -> dict[object, object]:
        value = self.plan[key]
        if not isinstance(value, dict):
            raise TypeError(key)
        return value


class Loop:
    """Waits for output, ended children, the time-out and the end of tithe, whichever comes first."""

    def __init__(self, job: Job, sinks: dict[int, CappedFile], wakeup: int) -> None:
        self.job = job
        self.sinks = sinks
        self.wakeup = wakeup
        self.poll = select.poll()
        for descriptor in (0, wakeup, *sinks):
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)

    def wait(self, until: float) -> None:
        """Handle events until a moment of the monotonic clock, or until something happened."""
        left = max(0.0, until - time.monotonic())
        for descriptor, _ in self.poll.poll(min(left, 3600.0) * 1000):
            if descriptor in self.sinks:
                self.drain(descriptor, 16)
            elif self._read(descriptor) == b"":
                self.poll.unregister(descriptor)
                if descriptor == 0:
                    self.job.abandoned = True

    def drain(self, descriptor: int, chunks: int) -> None:
        for _ in range(chunks):
            data = self._read(descriptor)
            if data is None:
                return
            if data == b"":
                self.poll.unregister(descriptor)
                os.close(descriptor)
                self.sinks.pop(descriptor).close()
                return
            self.sinks[descriptor].feed(data)

    @staticmethod
    def _read(descriptor: int) -> bytes | None:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def run_main(self, timeout_s: float) -> None:
        """Until the main process has ended, by itself or by force."""
        job = self.job
        deadline = job.start_ns / 1e9 + timeout_s
        limit = int(str(job.plan["memory"]))
        while job.raw_status is None and not job.abandoned:
            if limit:
                used = memory_of(descendants(job.token, job.subreaper))
                job.too_large = used if used > limit else 0
            if time.monotonic() >= deadline or job.too_large:
                job.timed_out = not job.too_large
                job.signal_tree(signal.SIGTERM)
                until = time.monotonic() + TERM_GRACE_S
                while job.reap() and not job.abandoned and time.monotonic() < until:
                    self.wait(until)
                return
            self.wait(min(deadline, time.monotonic() + MEMORY_POLL_S) if limit else deadline)
            job.reap()

    def finish(self) -> int:
        """End what is left; returns how many processes would not go."""
        job = self.job
        if not (job.abandoned or job.timed_out or job.too_large):
            self._until_gone(LINGER_S)
            if self._left() and job.signal_tree(signal.SIGTERM):
                self._until_gone(ORPHAN_GRACE_S)
        give_up = time.monotonic() + GIVE_UP_S
        while self._left() and time.monotonic() < give_up:
            job.signal_tree(signal.SIGKILL)
            self._until_gone(0.02)
        return self._left()

    def _until_gone(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._left() and time.monotonic() < until and not self.job.abandoned:
            self.wait(min(until, time.monotonic() + 0.02))

    def _left(self) -> int:
        waiting = self.job.reap()
        if self.job.subreaper:
            return int(waiting)
        return len(descendants(self.job.token, False))


def main() -> int:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, CHUNK)
        if not chunk:
            return 3
        line += chunk
    plan = json.loads(line)
    subreaper = become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    job = Job(plan, subreaper)

    def abandon(*_: object) -> None:
        job.abandoned = True

    signal.signal(signal.SIGTERM, abandon)
    cap = int(plan["cap"])
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    out, err = CappedFile(plan["stdout"], cap), CappedFile(plan["stderr"], cap)
    problem = job.start(out_write, err_write)
    os.close(out_write)
    os.close(err_write)
    if problem:
        os.write(1, json.dumps({"error": problem}).encode() + b"\n")
        return 0
    loop = Loop(job, {out_read: out, err_read: err}, wake_read)
    loop.run_main(float(plan["timeout_s"]))
    left = loop.finish()
    for descriptor in list(loop.sinks):
        loop.drain(descriptor, 1 << 30 if not left else 16)
    for sink in loop.sinks.values():
        sink.close()
    if job.abandoned:
        return 3
    result = {
        "error": "",
        "start_ns": job.start_ns,
        "start_unix": job.start_unix,
        "end_ns": job.end_ns or time.monotonic_ns(),
        "exit_code": job.exit_code(),
        "timed_out": job.timed_out,
        "too_large": job.too_large,
        "instructions": job.instructions(),
        "uncounted": job.uncounted,
        "cpu_s": job.cpu_s,
        "rss_bytes": job.rss,
        "processes": job.processes,
        "killed": len(job.killed - {job.main}),
        "left": left,
        "stdout_cut": out.dropped,
        "stderr_cut": err.dropped,
    }
    os.write(1, json.dumps(result).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
