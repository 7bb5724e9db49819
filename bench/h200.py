#!/usr/bin/env python3
"""Everything that needs a real GPU, in one run on a machine that has one.

  python3 bench/h200.py --muster target/release/muster --out bench/results

Starts a server and an agent of its own, measures, and writes `h200-*.json` files: date, commit,
command, figures; what the commands printed lies beside them as `h200-*.txt`. Needs no Rust; PyTorch
is used for reference figures where it is installed. Changes no setting of the GPU.
"""
import argparse, datetime, json, os, re, shutil, signal, subprocess, sys, tempfile, textwrap, threading, time, urllib.request

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--muster", default="target/release/muster")
args.add_argument("--out", default="bench/results")
args.add_argument("--commit", default=None)
args.add_argument("--seconds", type=int, default=300, help="length of the telemetry run")
args.add_argument("--level", default="standard", help="level of the second qualification")
args.add_argument("--only", default="", help="some of: inventory,quick,telemetry,faults,training,limits,isolation,drills")
args = args.parse_args()
MUSTER = os.path.abspath(args.muster)
OUT = os.path.abspath(args.out)
os.makedirs(OUT, exist_ok=True)
WORK = tempfile.mkdtemp(prefix="muster-h200-", dir="/root" if os.access("/root", os.W_OK) else None)
COMMIT = args.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip() or "unknown"
ENV = dict(os.environ, XDG_CONFIG_HOME=WORK, XDG_DATA_HOME=WORK, MUSTER_SERVER="http://127.0.0.1:17070")
ONLY = set(filter(None, args.only.split(",")))
raw, started = [], time.time()


def wanted(name):
    return not ONLY or name in ONLY


def say(text):
    print(f"[{time.time() - started:6.1f} s] {text}", flush=True)


def muster(*words, check=False, timeout=900, token=True, stderr=False):
    """Runs a command, keeps what it printed, returns (code, stdout)."""
    p = subprocess.run([MUSTER, *words], capture_output=True, text=True, env=ENV, timeout=timeout)
    raw.append("$ muster " + " ".join(words) + f"\n{p.stdout}{p.stderr}(exit {p.returncode})\n")
    if check and p.returncode != 0:
        sys.exit(f"muster {' '.join(words)}: {p.stdout}{p.stderr}")
    return p.returncode, p.stdout + (p.stderr if stderr else "")


def document(*words, **kw):
    code, text = muster(*words, "-o", "json", **kw)
    try:
        return code, json.loads(text)
    except json.JSONDecodeError:
        return code, None


def keep(name, command, figures):
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,vbios_version,power.limit", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    doc = {"name": f"h200-{name}", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": COMMIT, "machine": {"gpu": gpu, "cpus": os.cpu_count(), "kernel": os.uname().release}, "command": command, "figures": figures}
    with open(os.path.join(OUT, f"h200-{name}.json"), "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
    with open(os.path.join(OUT, f"h200-{name}.txt"), "w") as f:
        f.write("" if raw else "what was scraped last is in h200-exporter.txt\n")
        f.write("\n".join(raw).replace(WORK, "$WORK").replace(MUSTER, "muster"))
    raw.clear()
    say(f"{name}: {json.dumps(figures)[:400]}")


class Site:
    """A server and this machine's agent, apart, as in production."""

    def __init__(self):
        self.server = self.start("server", "server", "--listen", "127.0.0.1:17070", "--link-listen", "127.0.0.1:17071", "--data-dir", f"{WORK}/server")
        for _ in range(200):
            if os.path.exists(f"{WORK}/server/admin.token"):
                break
            time.sleep(0.05)
        ENV["MUSTER_TOKEN"] = open(f"{WORK}/server/admin.token").read().strip()
        for _ in range(200):
            if muster("nodes")[0] == 0:
                break
            time.sleep(0.05)
        join = muster("token", "create", "--join", "bench", check=True)[1]
        token = re.search(r"\S*mjt_\S+", join).group(0)
        raw.clear()
        self.agent = self.start("agent", "agent", "--link", "127.0.0.1:17071", "--join", token, "--data-dir", f"{WORK}/agent", "--exporter", "127.0.0.1:19400", "--name", "gpu-1")
        for _ in range(200):
            _, nodes = document("get", "nodes")
            if nodes and any(n["state"] == "ready" for n in nodes["items"]):
                break
            time.sleep(0.1)
        raw.clear()

    def start(self, name, *words):
        log = open(f"{WORK}/{name}.log", "w")
        return subprocess.Popen([MUSTER, *words], stdout=log, stderr=log, env=ENV)

    def stop(self):
        for p in (self.agent, self.server):
            p.send_signal(signal.SIGTERM)
        for p in (self.agent, self.server):
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()


def cpu(pid):
    """Processor seconds of a process itself, user and system."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss(pid):
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024


def scrape():
    return urllib.request.urlopen("http://127.0.0.1:19400/metrics", timeout=10).read().decode()


REFERENCE = """
import torch, json
def med(f, n=10, w=3):
    for _ in range(w): f()
    ts = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); f(); b.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(b))
    return sorted(ts)[len(ts) // 2]
n = 8192; out = {}
a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16); b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
d = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
def ten(f): return lambda: [f() for _ in range(10)]
out["gemm-bf16"] = max(20 * n**3 / med(ten(lambda: torch.matmul(a, b, out=d)), 20) / 1e9, 20 * n**3 / med(ten(lambda: torch.matmul(a, b.t(), out=d)), 20) / 1e9)
a8 = a.to(torch.float8_e4m3fn); b8 = b.t().contiguous().to(torch.float8_e4m3fn).t(); s = torch.ones((), device="cuda")
out["gemm-fp8"] = 20 * n**3 / med(ten(lambda: torch._scaled_mm(a8, b8, scale_a=s, scale_b=s, out_dtype=torch.bfloat16, use_fast_accum=True)), 20) / 1e9
x = torch.randint(0, 1 << 30, (1 << 30,), device="cuda", dtype=torch.int32); y = torch.empty_like(x)
out["hbm-copy"] = 2 * x.numel() * 4 / med(lambda: y.copy_(x), 15) / 1e6
h = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True); g = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
out["pcie-h2d"] = (1 << 28) / med(lambda: g.copy_(h, non_blocking=True)) / 1e6
out["pcie-d2h"] = (1 << 28) / med(lambda: h.copy_(g, non_blocking=True)) / 1e6
print(json.dumps(out))
"""


def reference():
    p = subprocess.run(["python3", "-c", REFERENCE], capture_output=True, text=True)
    raw.append(f"$ python3 (PyTorch reference)\n{p.stdout}{p.stderr}")
    return json.loads(p.stdout) if p.returncode == 0 else {}


def figures_of(report):
    out = {}
    for c in report["checks"]:
        one = {k: c[k] for k in ("outcome", "value", "unit", "expected", "floor", "note") if k in c and c[k] != ""}
        out[c["name"]] = one
    return out


def beside(report, torch_says):
    got = {c["name"]: c.get("value") for c in report["checks"]}
    return {k: {"ours": got[k], "pytorch": round(v, 1), "ratio": round(got[k] / v, 3)} for k, v in torch_says.items() if got.get(k)}


def inventory():
    code, doc = document("agent", "inventory")
    _, check = document("agent", "check")
    keep("inventory", "muster agent inventory -o json; muster agent check -o json", {"inventory": doc, "check": check})


def quick():
    before = reference()
    t = time.time()
    code, report = document("agent", "qualify", "--no-history")
    took = time.time() - t
    after = reference()
    both = {k: max(v, after.get(k, 0)) for k, v in before.items()}
    muster("agent", "qualify", "--no-history")
    keep("qualify-quick", "muster agent qualify -o json", {"exit": code, "outcome": report["outcome"], "wall_s": round(took, 1), "beside_pytorch": beside(report, both), "checks": figures_of(report)})


def telemetry(site):
    """The agent's own cost while the GPU is tested through the server, beside nvidia-smi."""
    torch_says = reference()
    smi = subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu,temperature.gpu,power.draw,clocks.sm,memory.used", "--format=csv,noheader", "--loop=1"], stdout=subprocess.DEVNULL)
    time.sleep(2)
    begin = time.time()
    a0, s0, v0 = cpu(site.agent.pid), cpu(smi.pid), cpu(site.server.pid)
    test = subprocess.Popen([MUSTER, "node", "qualify", "gpu-1", "--level", args.level, "--wait", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
    most, scrapes, watts = 0.0, 0, []
    while time.time() - begin < args.seconds:
        time.sleep(15 - (time.time() - begin) % 15)
        page = scrape()
        scrapes += 1
        most = max(most, pss(site.agent.pid))
        m = re.search(r"^DCGM_FI_DEV_POWER_USAGE\{.*\} (\S+)$", page, re.M)
        watts.append(float(m.group(1)) if m else None)
    span = time.time() - begin
    a1, s1, v1 = cpu(site.agent.pid), cpu(smi.pid), cpu(site.server.pid)
    rss_smi = pss(smi.pid)
    smi.terminate()
    out, err = test.communicate(timeout=900)
    raw.append(f"$ muster node qualify gpu-1 --level {args.level} --wait -o json\n{out}{err}(exit {test.returncode})\n")
    with open(os.path.join(OUT, "h200-exporter.txt"), "w") as f:
        f.write(page)
    muster("describe", "node", "gpu-1")
    node = document("get", "node", "gpu-1")[1] or {}
    last = node.get("qualified") or node.get("qualification") or {}
    report = last.get("report", last)
    checks = figures_of(report) if report.get("checks") else {}
    keep("qualify-" + args.level, f"muster node qualify gpu-1 --level {args.level} --wait", {"exit": test.returncode, "outcome": report.get("outcome"), "took": report.get("took"), "beside_pytorch": beside(report, torch_says) if checks else None, "checks": checks})
    keep("telemetry", f"muster agent at 1 Hz for {span:.0f} s, scraped every 15 s, while the GPU is tested; nvidia-smi --loop=1 beside it", {
        "seconds": round(span, 1),
        "agent_cpu_percent_of_a_core": round((a1 - a0) / span * 100, 3),
        "agent_pss_mib": round(most, 1),
        "nvidia_smi_loop_cpu_percent_of_a_core": round((s1 - s0) / span * 100, 3),
        "nvidia_smi_loop_pss_mib": round(rss_smi, 1),
        "server_cpu_percent_of_a_core": round((v1 - v0) / span * 100, 3),
        "scrapes": scrapes, "watts_at_scrapes": watts,
        "series": len([l for l in page.splitlines() if l and not l.startswith("#")]),
        "published_dcgm_exporter": "250 MB resident and 131% of a core reported (dcgm-exporter#311)"})


def kernel_time(code, pid):
    for line in subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines():
        m = re.match(rf"\[\s*([0-9.]+)\] NVRM: Xid \(.*\): {code}, pid={pid},", line)
        if m:
            boot = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
            return boot + float(m.group(1)), line
    return None, None


def faults():
    out = {}
    for xid in (31, 43):
        code, _ = muster("run", "--gpus", "1", "--sku", "h200-sxm", "--name", f"xid{xid}", "--", MUSTER, "agent", "drill", "--xid", str(xid))
        time.sleep(1)
        job = next(j for j in document("ps", "-a")[1]["items"] if j["name"] == f"xid{xid}")
        seen = [f for f in document("faults")[1]["items"] if f["code"] == f"xid-{xid}"][0]
        events = [e for e in document("events")[1]["items"] if e["kind"] == "fault_seen"]
        event = next(e for e in events if e["data"]["fault"]["code"] == f"xid-{xid}")
        at, line = kernel_time(xid, seen["pid"])
        out[f"xid-{xid}"] = {
            "kernel_line": line, "pid": seen["pid"], "attempt": seen.get("attempt"), "rank": seen.get("rank"), "gpu": seen.get("gpu"),
            "class": seen["class"], "action": seen["action"],
            "kernel_to_log_ms": round((stamp(event["at"]) - at) * 1000) if at else None,
            "job_state": job["state"], "job_reason": job.get("reason"), "run_exit": code}
    node = document("get", "node", "gpu-1")[1]
    after, _ = muster("run", "--gpus", "1", "--sku", "h200-sxm", "--", "nvidia-smi", "-L")
    out["node_state_after"] = node["state"]
    out["next_job_on_the_gpu_exit"] = after
    muster("describe", "job", str(job["id"]))
    muster("faults")
    keep("faults", "muster run --gpus 1 -- muster agent drill --xid 31 (and 43)", out)


def stamp(at):
    if isinstance(at, (int, float)):
        return at / 1000
    return datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


TRAIN = """
import json, os, time, torch
torch.manual_seed(0)
net = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(8192, 8192), torch.nn.GELU())]).cuda().bfloat16()
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
say = open(os.environ["MUSTER_REPORT"], "a")
x = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16); y = torch.randn_like(x)
end, step = time.time() + 25, 0
while time.time() < end:
    t = time.time(); loss = torch.nn.functional.mse_loss(net(x), y); opt.zero_grad(); loss.backward(); opt.step(); torch.cuda.synchronize()
    step += 1
    say.write(json.dumps({"step": step, "t": time.time() - t, "loss": loss.item()}) + "\\n"); say.flush()
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: {step} steps, loss {loss.item():.4f}, {torch.cuda.get_device_name(0)}")
"""


def training():
    with open(f"{WORK}/train.py", "w") as f:
        f.write(TRAIN)
    result = {}
    job = threading.Thread(target=lambda: result.update(exit=muster("run", "--name", "train", "--gpus", "1", "--sku", "h200-sxm", "--", "python3", f"{WORK}/train.py")))
    job.start()
    time.sleep(20)
    page = [l for l in scrape().splitlines() if 'job="' in l and re.match(r"DCGM_FI_(DEV_(GPU_UTIL|POWER_USAGE|FB_USED|SM_CLOCK)|PROF_(PIPE_TENSOR|SM|DRAM)_ACTIVE)\{", l)]
    described = document("ps")[1]
    job.join()
    code, printed = result["exit"]
    short = {re.match(r"[A-Z0-9_a-z]+", l).group(0): {"value": float(l.rsplit(" ", 1)[1]), "rank": re.search(r'rank="([^"]*)"', l).group(1), "job": re.search(r',job="([^"]*)"', l).group(1)} for l in page}
    muster("describe", "job", "train")
    keep("training", "muster run --gpus 1 -- python3 train.py", {"exit": code, "printed": printed.strip().splitlines()[-1:], "gpu_metrics_by_rank": short})


def limits():
    """A rank that eats memory, and a neighbour on the same node that must not notice."""
    hungry = "import time\nb=[]\nwhile True: b.append(bytearray(64<<20)); time.sleep(0.05)"
    quiet = "import time,hashlib\nt=time.time()\nn=0\nwhile time.time()-t<12: hashlib.sha256(b'x'*100000).hexdigest(); n+=1\nprint('neighbour did',n)"
    done = {}
    def run(name, memory, code):
        done[name] = muster("run", "--name", name, "--cpus", "1", "--memory", memory, "--", "python3", "-c", code)
    threads = [threading.Thread(target=run, args=a) for a in (("neighbour", "2GiB", quiet), ("hungry", "512MiB", hungry))]
    for t in threads: t.start()
    for t in threads: t.join()
    jobs = {j["name"]: j for j in document("ps", "-a")[1]["items"]}
    keep("limits", "muster run --memory 512MiB -- (a rank that takes ever more) beside another job", {
        "hungry": {"exit": done["hungry"][0], "state": jobs["hungry"]["state"], "reason": jobs["hungry"].get("reason")},
        "neighbour": {"exit": done["neighbour"][0], "state": jobs["neighbour"]["state"], "printed": done["neighbour"][1].strip().splitlines()[-1:]}})


TRY = r'''
import ctypes, os
out = {"devices": sorted(d for d in os.listdir("/dev") if d.startswith("nvidia"))}
for p in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"):
    try: os.close(os.open(p, os.O_RDWR)); out[p] = "OPENED"
    except OSError as e: out[p] = e.strerror
try: os.mknod("/tmp/gpu", 0o20666, os.makedev(195, 0)); os.close(os.open("/tmp/gpu", os.O_RDWR)); out["mknod"] = "OPENED"
except OSError as e: out["mknod"] = e.strerror
try: out["cuInit"] = ctypes.CDLL("libcuda.so.1").cuInit(0)
except OSError as e: out["cuInit"] = str(e)
out["processes_seen"] = sum(d.isdigit() for d in os.listdir("/proc"))
import json; print(json.dumps(out))
'''


def isolation():
    code, text = muster("run", "--name", "no-gpu", "--cpus", "1", "--", "env", "-u", "CUDA_VISIBLE_DEVICES", "python3", "-c", TRY)
    got = json.loads(next(l for l in text.splitlines() if l.startswith("{")))
    with_gpu, text = muster("run", "--name", "with-gpu", "--gpus", "1", "--sku", "h200-sxm", "--", "python3", "-c", TRY)
    has = json.loads(next(l for l in text.splitlines() if l.startswith("{")))
    node = document("get", "node", "gpu-1")[1]
    keep("isolation", "muster run -- (a job without GPUs that tries to open them); the same with a GPU", {"without_gpu": got, "with_gpu": has, "isolation": node.get("inventory", node).get("isolation")})


def drills():
    """Bad kernels on the real GPU, with the whole loop of health on; and drills without one."""
    code, out = document("gameday", "run", "xid31-real", "xid43-real", "rank-killed-real", "slow-rank-real", "slow-job-real", "agent-stopped", "server-loss")
    raw.append("kernel lines:\n" + "\n".join(l for l in subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines() if "Xid" in l) + "\n")
    keep("drills", "muster gameday run xid31-real xid43-real rank-killed-real slow-rank-real slow-job-real agent-stopped server-loss", {"exit": code, "drills": out})


def main():
    if wanted("inventory"):
        inventory()
    if wanted("drills"):
        try:
            drills()
        except Exception as e:
            say(f"drills FAILED: {e!r}")
            keep("drills", "muster gameday run", {"failed": repr(e)})
        if ONLY == {"drills"}:
            return
    if wanted("quick"):
        quick()
    site = Site()
    try:
        for name, what in (("faults", faults), ("training", training), ("limits", limits), ("isolation", isolation)):
            if wanted(name):
                try:
                    what()
                except Exception as e:  # The others are still worth having.
                    say(f"{name} FAILED: {e!r}")
                    keep(name, name, {"failed": repr(e)})
        if wanted("telemetry"):
            telemetry(site)
    finally:
        site.stop()
        for name in ("server", "agent"):
            raw.append(f"{name}'s own log:\n" + open(f"{WORK}/{name}.log").read())
        shutil.rmtree(WORK, ignore_errors=True)
    say("done")


main()
