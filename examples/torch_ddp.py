#!/usr/bin/env python3
"""PyTorch DistributedDataParallel under Muster, on GPUs or processors.

    muster run --nodes 2 --gpus 8 -- python examples/torch_ddp.py

Each rank is one process; MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK are set.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import muster_report as muster  # noqa: E402

STEPS = int(os.environ.get("STEPS", "500"))
EVERY = int(os.environ.get("EVERY", "100"))


def main():
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda:
        torch.cuda.set_device(local % torch.cuda.device_count())
    device = torch.device("cuda" if cuda else "cpu")
    dist.init_process_group("nccl" if cuda else "gloo")

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
    ).to(device)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=float(os.environ.get("LR", "1e-3")))

    start = 0
    resume = muster.resume_path()
    if resume and os.path.exists(resume):
        saved = torch.load(resume, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]

    muster.on_checkpoint_request()
    directory = muster.checkpoint_dir("checkpoints")

    def save(step):
        if dist.get_rank() == 0:
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, f"step-{step}.pt")
            with muster.checkpoint(step, path):
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, path + ".tmp")
                os.rename(path + ".tmp", path)
        dist.barrier()

    value = float("nan")
    for step in range(start + 1, STEPS + 1):
        begun = time.monotonic()
        x = torch.randn(128, 64, device=device)
        y = x.sum(dim=1, keepdim=True)
        read = time.monotonic()
        loss = torch.nn.functional.mse_loss(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        now = time.monotonic()
        muster.step(step, t=now - begun, loss=value, stages={"read": read - begun, "compute": now - read})
        # A request may reach the ranks at different steps: they agree before they save.
        asked = torch.tensor([1.0 if muster.checkpoint_requested() else 0.0], device=device)
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        if asked.item() > 0 or step % EVERY == 0:
            muster.check()
            save(step)
    if dist.get_rank() == 0:
        print(f"done: {STEPS} steps, loss {value:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
