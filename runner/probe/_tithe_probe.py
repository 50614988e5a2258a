"""Finds the first batch of a training program without a change to it.

Loaded into every Python process of a launch; it must never disturb one. So it imports nothing that the
interpreter has not loaded, changes nothing before `torch` has been imported, swallows each of its own
failures (one mark `error` tells), and takes back every hook as soon as it has fired, at the latest at the
first step.

What is learned where, and why it is not simpler:

* Marks are appended and closed one by one: `os._exit` and code that closes all descriptors lose nothing.
* The first forward is often not of the first batch that is *trained on* (evaluation first, sanity batches,
  rollouts, dummy inputs). Only a backward, or an optimizer's step, proves training; the mark `train-batch`
  is written then, with the time of the forward that led to it: the start of the last *round*, which begins
  when a module that was called at the top before is called there again, or when gradients come back on.
* Without modules there is no forward to see; the last batch out of a DataLoader stands in, or else the
  backward itself.
* Global hooks disturb `torch.compile` (graph breaks, recompilation, a warning). So they are given up the
  moment that something is compiled: a compiled module is then seen through the class that wraps it, whose
  call is not traced; for a compiled function (a whole train step, perhaps) the DataLoader and the backward
  remain, and our own frames are declared to be none of the compiler's business.
* A forward without gradients takes the hook away too, until gradients come back on: an evaluation or a
  rollout pays for one hook, not for thousands.
* The dictionary of optimizer hooks cannot change while torch walks through it: that hook goes at the next
  backward.
"""

from __future__ import annotations

import atexit
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not loaded in every interpreter, and must not be because of us
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_clock = time.monotonic_ns
_target = ""
_stop = "none"
_packages: tuple[str, ...] = ()
_told: dict[str, str] = {}


def start(environ: Mapping[str, str]) -> None:
    """Mark that the interpreter is up, and wait for torch."""
    global _target, _stop, _packages
    _target = environ["TITHE_MARKS"]
    _stop = environ.get("TITHE_STOP", "none")
    _packages = tuple(name for name in environ.get("TITHE_PACKAGES", "").split(",") if name)
    mark("interpreter")
    if environ.get("TITHE_COVER"):
        import _tithe_cover

        _tithe_cover.start(environ)
    if environ.get("TITHE_FILES"):
        import _tithe_files

        _tithe_files.start(environ)
    if environ.get("TITHE_TIMES"):
        import _tithe_times

        _tithe_times.start(environ)
    if _packages:
        atexit.register(_quietly(tell_origins))
    _Waiter({"torch": _on_torch}).wait()


def mark(name: str, at: int = 0, note: str = "") -> None:
    """Append one mark; `at` is a moment of the monotonic clock in ns, now if not given."""
    line = f"{name} {at or _clock()} {os.getpid()}" + (f" {note}" if note else "") + "\n"
    try:
        descriptor = os.open(_target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass


def tell_origins() -> None:
    """Say where the configured packages were imported from, those that were."""
    found: dict[str, str] = {}
    for name in _packages:
        module = sys.modules.get(name)
        if module is not None and name not in _told:
            places = list(getattr(module, "__path__", ()))
            found[name] = getattr(module, "__file__", None) or (places[0] if places else "")
    if found:
        import json

        _told.update(found)
        mark("@origin", note=json.dumps(found))


def end() -> None:
    """End the process with code 0, its workers with it.

    Exit handlers are left out: those of a job that has hardly begun may save, upload or wait.
    """
    try:
        tell_origins()
        mark("stopped")
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its failures told in a mark instead of raised."""

    def quiet(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            mark("error", note=f"{type(error).__name__} in {function.__name__}")
            return None

    return quiet


class _Waiter:
    """A finder that finds nothing itself, but calls back when a module it waits for has been executed."""

    def __init__(self, callbacks: dict[str, Callable[..., Any]]) -> None:
        self.callbacks = callbacks

    def wait(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        callback = self.callbacks.pop(name, None)
        if callback is None:
            return None
        if not self.callbacks and self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                try:
                    self._follow(spec.loader, callback)
                except Exception:
                    mark("error", note="loader")
                return spec
        return None

    @staticmethod
    def _follow(loader: Any, callback: Callable[..., Any]) -> None:
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                del loader.exec_module
            except AttributeError:
                pass
            original(module)
            callback(module)

        loader.exec_module = exec_module


class _Patch:
    """An attribute replaced for a while. What somebody else put over ours meanwhile is left alone."""

    def __init__(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        self.owner, self.name = owner, name
        self.original = getattr(owner, name)
        self.ours = make(self.original)
        for copied in ("__name__", "__qualname__", "__module__", "__doc__", "__signature__"):
            try:
                setattr(self.ours, copied, getattr(self.original, copied))
            except (AttributeError, TypeError):
                pass
        setattr(owner, name, self.ours)

    def undo(self) -> None:
        if self.owner.__dict__.get(self.name) is self.ours:
            setattr(self.owner, self.name, self.original)


class _Torch:
    """What is known so far about the training that this process does."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.round = 0  # when the forward began that may turn out to be the first one trained on
        self.roots: set[int] = set()
        self.inner: set[int] = set()
        self.last_batch = 0
        self.seen: set[str] = set()
        self.hooks_given_up = False
        self.forward_hook: Any = None
        self.step_hook: Any = None
        self.grad_patches: list[_Patch] = []
        self.patches: list[_Patch] = []
        self.backward_patch: _Patch | None = None

    def install(self) -> None:
        torch = self.torch
        self.arm_forward()
        self.backward_patch = _Patch(torch.autograd, "backward", self.around_backward)
        self.patches.append(_Patch(torch.autograd, "grad", self.around_grad))
        if hasattr(torch, "compile"):
            self.patches.append(_Patch(torch, "compile", self.around_compile))
        later = {}
        for name, callback in (
            ("torch.utils.data.dataloader", self.on_dataloader),
            ("torch.optim.optimizer", self.on_optimizer),
        ):
            if name in sys.modules:
                callback(sys.modules[name])
            else:
                later[name] = _quietly(callback)
        if later:
            _Waiter(later).wait()

    def once(self, name: str, at: int = 0, note: str = "") -> bool:
        if name in self.seen:
            return False
        self.seen.add(name)
        mark(name, at, note)
        return True

    # Forwards

    def arm_forward(self) -> None:
        if self.forward_hook is None and not self.hooks_given_up:
            register = sys.modules["torch.nn.modules.module"].register_module_forward_pre_hook
            self.forward_hook = register(_quietly(self.on_forward))

    def disarm_forward(self) -> None:
        hook, self.forward_hook = self.forward_hook, None
        if hook is not None:
            hook.remove()

    def on_forward(self, module: Any, _inputs: Any) -> None:
        now = _clock()
        self.once("first-forward", now)
        if not self.torch.is_grad_enabled():
            self.round = 0
            self.disarm_forward()
            self.await_gradients()
            return
        own = id(module)
        if self.round and own in self.inner:
            return
        if not self.round or own in self.roots:
            self.round, self.roots, self.inner = now, set(), set()
        self.roots.add(own)
        self.inner.update(id(inner) for inner in module.modules() if inner is not module)

    def await_gradients(self) -> None:
        modes = self.torch.autograd.grad_mode
        for owner, name in (
            (modes.no_grad, "__exit__"),
            (modes.inference_mode, "__exit__"),
            (modes.set_grad_enabled, "__exit__"),
            (modes.set_grad_enabled, "__init__"),
        ):
            self.grad_patches.append(_Patch(owner, name, self.around_grad_mode))

    def around_grad_mode(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self.grad_patches and self.torch.is_grad_enabled():
                self.resume()
            return result

        return changed

    def resume(self) -> None:
        self.forget_gradients()
        try:
            self.arm_forward()
        except Exception:
            mark("error", note="resume")

    def forget_gradients(self) -> None:
        while self.grad_patches:
            self.grad_patches.pop().undo()

    # Compilation

    def around_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 - it stands in for torch.compile
            if model is None:  # a decorator with arguments: called again, with the function
                return original(model, *args, **kwargs)
            self.before_compile()
            result = original(model, *args, **kwargs)
            self.after_compile(model, result)
            return result

        return compile

    def before_compile(self) -> None:
        self.once("compile-called")
        self.hooks_given_up = True
        self.round = 0
        self.disarm_forward()
        self.forget_gradients()

    def after_compile(self, model: Any, result: Any) -> None:
        try:
            if isinstance(model, self.torch.nn.Module):
                wrapper = type(result)
                if wrapper is not type(model) and not any(patch.owner is wrapper for patch in self.patches):
                    self.patches.append(_Patch(wrapper, "__call__", self.around_compiled))
                return
            self.drop_step_hook()
            rules = sys.modules["torch._dynamo.trace_rules"]
            rules.SKIP_DIRS.append(os.path.dirname(os.path.abspath(__file__)) + os.sep)
            rules._recompile_re()
        except Exception as error:
            mark("error", note=f"{type(error).__name__} in compile")

    def around_compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for one
            now = _clock()
            self.once("first-forward", now)
            if self.torch.is_grad_enabled():
                self.round = now
            return original(module, *args, **kwargs)

        return __call__

    def drop_step_hook(self) -> None:
        hook, self.step_hook = self.step_hook, None
        if hook is not None:
            hook.remove()

    # Batches

    def on_dataloader(self, module: Any) -> None:
        self.patches.append(_Patch(module._BaseDataLoaderIter, "__next__", self.around_next))

    def around_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807 - it stands in for one
            batch = original(iterator)
            self.last_batch = _clock()
            if "first-batch-out" not in self.seen:
                self.once("first-batch-out", self.last_batch)
            return batch

        return __next__

    # What proves training

    def around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            self.on_backward()
            return original(*args, **kwargs)

        return backward

    def on_backward(self) -> None:
        try:
            now = _clock()
            if self.once("first-backward", now):
                self.trained(now)
            elif "first-step" in self.seen:
                self.settle()
            elif not self.optimizer_in_use():
                # A second backward, and nothing that steps: the first step was by hand, or compiled.
                self.stepped(now)
        except Exception as error:
            mark("error", note=f"{type(error).__name__} in backward")

    def optimizer_in_use(self) -> bool:
        """Whether a step is still to come: one of torch's optimizers has been made."""
        if self.step_hook is None:
            return False
        queue = [self.torch.optim.Optimizer]
        while queue:
            kind = queue.pop()
            if getattr(kind.__dict__.get("step"), "hooked", False):
                return True
            queue.extend(kind.__subclasses__())
        return False

    def around_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(*args: Any, **kwargs: Any) -> Any:
            if "grad-batch" not in self.seen:
                self.once("grad-batch", self.batch_time(_clock()))
            return original(*args, **kwargs)

        return grad

    def on_optimizer(self, module: Any) -> None:
        self.step_hook = module.register_optimizer_step_post_hook(_quietly(self.on_step))

    def on_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if "first-step" not in self.seen:
            self.stepped(_clock())

    def batch_time(self, now: int) -> int:
        """When the batch reached the model that is being trained on now."""
        return self.round or self.last_batch or now

    def trained(self, now: int) -> None:
        self.once("train-batch", self.batch_time(now))
        self.hooks_given_up = True
        self.disarm_forward()
        self.forget_gradients()
        while self.patches:
            self.patches.pop().undo()
        tell_origins()
        if _stop == "first-batch":
            end()

    def stepped(self, now: int) -> None:
        if "train-batch" not in self.seen:
            self.trained(now)
        self.once("first-step", now)
        if _stop == "first-step":
            end()

    def settle(self) -> None:
        """Take back the last two hooks."""
        if self.backward_patch is not None:
            self.backward_patch.undo()
        self.drop_step_hook()


def _on_torch(torch: Any) -> None:
    mark("torch-imported")
    _quietly(_Torch(torch).install)()
