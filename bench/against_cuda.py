#!/usr/bin/env python3
"""attend's kernels beside PyTorch's on one GPU, in one run: python3 bench/against_cuda.py [PROGRAM]

PROGRAM is bench/cuda_softmax.c, built (target gpu_bench_softmax); ATTEND_CUDA_LIBRARY names the
library. Prints a table: TFLOP/s of softmax forward, TB/s of decoding, and the ratio.
"""
import json
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def median_ms(call, inner):
    for _ in range(3):
        call(0)
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(inner):
            call(i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / inner)
    return statistics.median(times)


def theirs(p, backend):
    decode = p["q_len"] == 1
    sets = 2 if not decode or p["kv_heads"] > 8 else 8
    new = lambda heads, n: torch.randn(p["batch"], heads, n, p["dim"], device="cuda",
                                       dtype=torch.bfloat16)
    q = new(p["heads"], p["q_len"])
    keys = [(new(p["kv_heads"], p["kv_len"]), new(p["kv_heads"], p["kv_len"]))
            for _ in range(sets if decode else 1)]
    grouped = p["kv_heads"] != p["heads"]
    causal = p["causal"] and not decode

    def call(i):
        k, v = keys[i % len(keys)]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    try:
        with sdpa_kernel(backend):
            return median_ms(call, 32 if decode else 5)
    except RuntimeError:
        return None


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build-test/gpu/gpu_bench_softmax"
    output = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    print("problem                          attend    cuDNN  ratio    flash  ratio")
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        p = json.loads(line)
        decode = p["q_len"] == 1
        ours = p["tbytes_per_s"] if decode else p["tflops"]
        name = (f"decode kv heads {p['kv_heads']} d {p['dim']}" if decode else
                f"forward d {p['dim']} n {p['kv_len']}{' causal' if p['causal'] else ''}")
        row = f"{name:32} {ours:7.2f}"
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            ms = theirs(p, backend)
            row += f"  {ours * p['ms'] / ms:7.2f}  {ms / p['ms']:5.2f}" if ms else "        -      -"
        print(row, flush=True)


if __name__ == "__main__":
    main()
