#!/usr/bin/env python3
"""A 'training' in plain Python: steps, checkpoints, resumes, answers checkpoint requests.

Tries to find x with x*x = 2 by gradient descent, slowly. Environment: STEPS (default 200),
STEP_SECONDS (0.05), EVERY (steps between checkpoints, 50).
"""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import muster_report as muster  # noqa: E402

STEPS = int(os.environ.get("STEPS", "200"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.05"))
EVERY = int(os.environ.get("EVERY", "50"))

state = {"step": 0, "x": 9.0}


def save():
    """Writes a checkpoint to a temporary file and moves it into place: it is whole or absent."""
    directory = muster.checkpoint_dir("checkpoints")
    if muster.rank() != 0:
        return
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"step-{state['step']}.json")
    with muster.checkpoint(state["step"], path):
        with open(path + ".tmp", "w", encoding="utf-8") as f:
            json.dump(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(path + ".tmp", path)
    print(f"checkpoint {path}", flush=True)


def main():
    resume = muster.resume_path()
    if resume and os.path.exists(resume):
        with open(resume, encoding="utf-8") as f:
            state.update(json.load(f))
        print(f"resumed at step {state['step']} from {resume}", flush=True)
    muster.on_checkpoint_request(save)
    # Asked to stop: save what there is, then go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(save() or 143))
    print(f"rank {muster.rank()} of {muster.world_size()} begins", flush=True)
    while state["step"] < STEPS:
        begun = time.monotonic()
        x = state["x"]
        loss = (x * x - 2) ** 2
        state["x"] = x - 0.0005 * 4 * x * (x * x - 2)
        time.sleep(STEP_SECONDS)
        state["step"] += 1
        took = time.monotonic() - begun
        muster.step(state["step"], t=round(took, 4), loss=loss, stages={"compute": round(took, 4)})
        if not muster.check() and state["step"] % EVERY == 0:
            save()
        if state["step"] % EVERY == 0:
            print(f"step {state['step']} loss {loss:.6f}", flush=True)
    print(f"done: x = {state['x']:.6f}", flush=True)


if __name__ == "__main__":
    main()
