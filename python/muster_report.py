"""Progress reporting of a training job under Muster. No dependencies; harmless anywhere else.

    import muster_report as muster

    start = muster.resume_path()              # where to go on from, or None
    muster.on_checkpoint_request(lambda: ...)  # called by check() when one is asked for
    for step in ...:
        muster.step(step, t=seconds, loss=loss, stages={"read": 0.02, "compute": 0.36})
        muster.check()                        # at a safe point: answers a pending request
        with muster.checkpoint(step, path):   # reports started, then done or failed
            save(path)

Every function does nothing when MUSTER_REPORT is not set, and none of them raises because of
reporting: a full disk must not end a training run.
"""

import contextlib
import json
import os
import signal
import threading
import time

__all__ = [
    "step",
    "checkpoint",
    "checkpoint_started",
    "checkpoint_done",
    "checkpoint_failed",
    "on_checkpoint_request",
    "checkpoint_requested",
    "check",
    "checkpoint_dir",
    "resume_path",
    "rank",
    "world_size",
]

_lock = threading.Lock()
_handler = None
_requested = threading.Event()


def _write(line):
    path = os.environ.get("MUSTER_REPORT")
    if not path:
        return
    try:
        data = (json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n").encode()
        with _lock:
            # One write to a file opened for appending: lines of two threads never mix.
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)
    except (OSError, ValueError, TypeError):
        pass


def _given(**fields):
    return {k: v for k, v in fields.items() if v is not None}


def _number(value):
    """A float, or None for what JSON cannot say (NaN, infinity)."""
    if value is None:
        return None
    value = float(value)
    return value if value - value == 0 else None


def step(number, t=None, loss=None, stages=None):
    """Reports progress: the step, the seconds it took, the loss, seconds by stage."""
    stages = {str(k): float(v) for k, v in stages.items()} if stages else None
    _write(_given(step=int(number), t=_number(t), loss=_number(loss), stages=stages))


def _checkpoint(state, step=None, path=None, bytes=None, blocked_s=None):
    path = None if path is None else os.fspath(path)
    fields = _given(state=state, step=step, path=path, bytes=bytes, blocked_s=_number(blocked_s))
    _write({"checkpoint": fields})


def checkpoint_started(step=None, path=None):
    """A checkpoint is being written."""
    _checkpoint("started", step, path)


def checkpoint_done(step=None, path=None, bytes=None, blocked_s=None):
    """A checkpoint is complete and may be resumed from. Also answers a request."""
    _requested.clear()
    _checkpoint("done", step, path, bytes, blocked_s)


def checkpoint_failed(step=None, path=None):
    """A checkpoint could not be written."""
    _checkpoint("failed", step, path)


@contextlib.contextmanager
def checkpoint(step=None, path=None):
    """Reports that a checkpoint is written, and how that ended."""
    checkpoint_started(step, path)
    begun = time.monotonic()
    try:
        yield
    except BaseException:
        checkpoint_failed(step, path)
        raise
    size = None
    with contextlib.suppress(OSError, TypeError):
        size = os.path.getsize(path)
    checkpoint_done(step, path, size, round(time.monotonic() - begun, 3))


def on_checkpoint_request(handler=None, signum=signal.SIGUSR1):
    """Listens for requests. `handler()` is called by `check()`, never inside the signal
    handler, so it may do anything. Call this from the main thread."""
    global _handler
    _handler = handler
    owner = os.getpid()

    def asked(_signum, _frame):
        # Workers forked later (data loaders) inherit the handler but have nothing to save.
        if os.getpid() == owner:
            _requested.set()

    signal.signal(signum, asked)


def checkpoint_requested():
    """Whether a request waits for its answer."""
    return _requested.is_set()


def check():
    """Answers a pending request by calling the handler; says whether there was one."""
    if not _requested.is_set():
        return False
    _requested.clear()
    if _handler is not None:
        _handler()
    return True


def checkpoint_dir(default=None):
    """Where checkpoints belong."""
    return os.environ.get("MUSTER_CHECKPOINT_DIR") or default


def resume_path():
    """The checkpoint to go on from, if there is one."""
    return os.environ.get("MUSTER_RESUME") or None


def rank():
    """This process's place in the gang."""
    return int(os.environ.get("RANK", "0"))


def world_size():
    """Processes in the gang."""
    return int(os.environ.get("WORLD_SIZE", "1"))
