#!/usr/bin/env python3
"""attend against PyTorch's scaled_dot_product_attention, on this CPU, in one run.

    python3 bench/against_pytorch.py [--attend build/attend] [--rounds 5] [NAME...]

Each case is timed by both in turn, several rounds; the ratio is the median over
the rounds of PyTorch's time over attend's: above 1, attend is faster. Cases of
one thread run on one core, the same for both: cores of a shared machine differ.
Needs PyTorch and nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

# name, threads, attend's problem, PyTorch's shapes and ways, the ratio aimed at
CASES = [
    ("f32 forward, 1 thread", 1, "softmax:b1h12n4096d64", {}, 1.15),
    ("f32 forward, 16 threads", 16, "softmax:b1h12n4096d64", {}, 1.3),
    ("f32 causal, 1 thread", 1, "softmax:b1h12n4096d64:causal", {"causal": True}, 0),
    ("f32 causal, 16 threads", 16, "softmax:b1h12n4096d64:causal", {"causal": True}, 0),
    ("f32 forward+backward causal, 1 thread", 1, "softmax:b1h12n1024d64:causal:bwd",
     {"n": 1024, "causal": True, "backward": True}, 1.3),
    ("f32 forward+backward causal, 16 threads", 16, "softmax:b1h12n1024d64:causal:bwd",
     {"n": 1024, "causal": True, "backward": True}, 1.3),
    ("bf16 forward, 1 thread", 1, "softmax:b1h12n4096d64:bf16", {"dtype": torch.bfloat16}, 2.0),
    ("bf16 forward, 16 threads", 16, "softmax:b1h12n4096d64:bf16", {"dtype": torch.bfloat16}, 2.0),
    ("decode MHA, 16 threads", 16, "softmax:b1h32n16384d64:decode",
     {"h": 32, "t": 1, "n": 16384}, 1.0),
    ("decode GQA 8, 16 threads", 16, "softmax:b1h32g8n16384d64:decode",
     {"h": 32, "g": 8, "t": 1, "n": 16384}, 0),
    ("decode MQA, 16 threads", 16, "softmax:b1h32g1n16384d64:decode",
     {"h": 32, "g": 1, "t": 1, "n": 16384}, 5.0),
    ("elu causal against cumsum, 1 thread", 1, "elu:b1h12n4096d64:causal", {"cumsum": True}, 50),
]


def by_cumsum(q, k, v):
    """Causal linear attention as it is usually written: all prefixes at once."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    sums = torch.einsum("bhnd,bhnm->bhndm", k, v).cumsum(2)
    top = torch.einsum("bhnd,bhndm->bhnm", q, sums)
    return top / torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2)).unsqueeze(-1)


def torch_call(h=12, g=None, n=4096, t=None, d=64, dtype=torch.float32, causal=False,
               backward=False, cumsum=False):
    torch.manual_seed(1)
    g, t = g or h, t or n
    q = torch.randn(1, h, t, d).to(dtype).requires_grad_(backward)
    k = torch.randn(1, g, n, d).to(dtype).requires_grad_(backward)
    v = torch.randn(1, g, n, d).to(dtype).requires_grad_(backward)
    do = torch.randn(1, h, t, d).to(dtype)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=g != h)

    if cumsum:
        return lambda: by_cumsum(q, k, v)

    def both():
        o = forward()
        torch.autograd.grad(o, (q, k, v), do)

    return both if backward else forward


def time_torch(call, threads, seconds=0.7):
    torch.set_num_threads(threads)
    start = time.perf_counter()
    call()
    slow = time.perf_counter() - start > seconds
    for _ in range(0 if slow else 2):
        call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < (1 if slow else 5) or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def time_attend(program, problem, threads):
    command = [program, "bench", "--json", "--threads", str(threads), problem]
    row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[0]
    return row["median_s"], row["isa"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--attend", default="build/attend")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("names", nargs="*")
    a = arguments.parse_args()
    all_cores = os.sched_getaffinity(0)
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    print(f"{'case':42} {'isa':7} {'attend':>10} {'PyTorch':>10} {'ratio':>6} {'aim':>5}")
    for name, threads, problem, how, aim in CASES:
        if a.names and not any(word in name for word in a.names):
            continue
        call, ours, theirs = torch_call(**how), [], []
        os.sched_setaffinity(0, all_cores if threads > 1 else {max(all_cores)})
        with torch.set_grad_enabled(how.get("backward", False)):
            for _ in range(a.rounds):
                seconds, isa = time_attend(a.attend, problem, threads)
                ours.append(seconds)
                theirs.append(time_torch(call, threads))
        x, y = statistics.median(ours), statistics.median(theirs)
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print(f"{name:42} {isa:7} {x * 1e3:8.3f}ms {y * 1e3:8.3f}ms {ratio:6.2f} {aim or '':>5}",
              flush=True)


if __name__ == "__main__":
    main()
