#!/usr/bin/env python3
"""attend beside Hugging Face transformers and onnxruntime on the same CPU.

    python3 bench/against_transformers.py build/attend LLAMA MINILM GPT2 [THREADS...]

Each with the same number of threads on both sides, in turns, medians of ROUNDS:
decoding one token at a time (f32, eager, with cache) and reading a prompt with
LLAMA; 32 texts of 128 tokens with MINILM, against onnxruntime too; and for GPT2,
whose weights are larger than the caches, reading 512 tokens as a share of
torch.mm's GFLOP/s and decoding as a share of the bandwidth that attend measures.
Weights do not change the speed: the folders may hold config.json alone. ROUNDS in
the environment asks for more or fewer rounds than 5.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import transformers

ROUNDS = int(os.environ.get("ROUNDS", "5"))
PROMPT, NEW = 192, 48
TEXTS, TOKENS = 32, 128


def rows(binary, folder, threads, *options):
    out = subprocess.run(
        [binary, "bench", "model", folder, "--threads", str(threads), "--json", *options],
        check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def attend(binary, folder, threads, *options):
    return {row["what"].split()[0]: row["seconds"]
            for row in rows(binary, folder, threads, "--weights", "f32", *options)}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def llama(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager").eval().float()
    ids = (torch.arange(PROMPT)[None] * 7919 + 13) % config.vocab_size

    def read():
        with torch.inference_mode():
            return model(ids, use_cache=True, logits_to_keep=1)

    def write():
        with torch.inference_mode():
            cache = read().past_key_values
            start = time.perf_counter()
            for _ in range(NEW):
                cache = model(ids[:, :1], past_key_values=cache, use_cache=True,
                              logits_to_keep=1).past_key_values
            return (time.perf_counter() - start) / NEW

    return read, write


def minilm(folder, threads):
    """onnxruntime's session, or None and why."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModel.from_config(
        config, attn_implementation="eager").eval().float()
    ids = (torch.arange(TEXTS * TOKENS).reshape(TEXTS, TOKENS) * 7919 + 13) % config.vocab_size
    mask = torch.ones_like(ids)

    def torch_read():
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask)

    try:
        import onnxruntime
        path = "/tmp/minilm.onnx"

        class Plain(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        if not os.path.exists(path):
            torch.onnx.export(Plain(), (ids, mask), path, input_names=["ids", "mask"],
                              output_names=["hidden"], opset_version=17, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {"ids": ids.numpy(), "mask": mask.numpy()}
        return torch_read, lambda: session.run(None, feed)
    except Exception as why:  # the peer is missing: say so, do not guess
        print(f"onnxruntime was not measured: {why}", file=sys.stderr)
        return torch_read, None


def report(name, threads, ours, theirs, peer):
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{name:24} {threads:3} threads  attend {a * 1e3:9.3f} ms  "
          f"{peer} {b * 1e3:9.3f} ms  ratio {b / a:6.2f}", flush=True)


def measure(binary, llama_folder, minilm_folder, threads):
    torch.set_num_threads(threads)
    read, write = llama(llama_folder)
    torch_read, onnx_read = minilm(minilm_folder, threads)
    warm = [read, write, torch_read] + ([onnx_read] if onnx_read else [])
    for work in warm:
        work()
        work()
    ours = {"read": [], "write": [], "embed": []}
    theirs = {"read": [], "write": [], "torch": [], "onnx": []}
    for _ in range(ROUNDS):
        one = attend(binary, llama_folder, threads, "--tokens", str(PROMPT))
        ours["read"].append(one["read"])
        ours["write"].append(one["write"])
        ours["embed"].append(attend(binary, minilm_folder, threads)["read"])
        for _ in range(3):
            theirs["read"].append(seconds(read))
            theirs["torch"].append(seconds(torch_read))
            if onnx_read:
                theirs["onnx"].append(seconds(onnx_read))
        theirs["write"].append(write())
    report(f"decode, 1 x {PROMPT}+", threads, ours["write"], theirs["write"], "transformers")
    report(f"prefill, 1 x {PROMPT}", threads, ours["read"], theirs["read"], "transformers")
    report(f"MiniLM, {TEXTS} x {TOKENS}", threads, ours["embed"], theirs["torch"], "transformers")
    if onnx_read:
        report(f"MiniLM, {TEXTS} x {TOKENS}", threads, ours["embed"], theirs["onnx"], "onnxruntime")


def ceilings(binary, gpt2_folder, minilm_folder, threads):
    """Shares of what torch.mm and memory can do."""
    torch.set_num_threads(threads)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    with torch.inference_mode():
        for _ in range(3):
            torch.mm(a, b)
        reading, embedding, writing = {}, [], {}
        for _ in range(3):
            peak = 2 * 1024**3 / statistics.median(seconds(lambda: torch.mm(a, b))
                                                   for _ in range(21)) * 1e-9
            for row in rows(binary, gpt2_folder, threads):
                kind = row["weights"]
                if row["what"].startswith("read"):
                    reading.setdefault(kind, []).append(row["gflops"] / peak)
                else:
                    writing.setdefault(kind, []).append(row["of_memory"])
            row = rows(binary, minilm_folder, threads, "--weights", "f32")[0]
            embedding.append(row["gflops"] / peak)
    for kind in reading:
        print(f"{kind:5} {threads:3} threads  prefill of 512: "
              f"{statistics.median(reading[kind]):.2f} of sgemm   decoding: "
              f"{statistics.median(writing[kind]):.2f} of memory "
              f"({', '.join(f'{x:.2f}' for x in writing[kind])})", flush=True)
    print(f"f32   {threads:3} threads  MiniLM {TEXTS} x {TOKENS}: "
          f"{statistics.median(embedding):.2f} of sgemm", flush=True)


def main():
    binary, llama_folder, minilm_folder, gpt2_folder, *threads = sys.argv[1:]
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for t in map(int, threads or ["1", str(os.cpu_count())]):
        measure(binary, llama_folder, minilm_folder, t)
        ceilings(binary, gpt2_folder, minilm_folder, t)


if __name__ == "__main__":
    main()
