#!/usr/bin/env python3
"""attend beside PyTorch, training the same model on the same CPU.

    python3 bench/against_training.py build/attend [THREADS...]

GPT-2 of 6 layers, width 384, 6 heads, 8192 tokens; 512 tokens a text, 8 texts a step
(one thread: 2); forward, backward, clipping and AdamW in f32, PyTorch eager; then both in
bf16 (autocast). Each in a process of its own, in turns, ROUNDS times (3): tokens a second
and peak memory. Then one text a step by form and length, with the largest number of
threads.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("ROUNDS", "3"))
CONFIG = {"model_type": "gpt2", "n_layer": 6, "n_head": 6, "n_embd": 384,
          "vocab_size": 8192, "n_positions": 16384}
STEPS = 7


def torch_step(threads, batch, length, kind):
    import torch
    import transformers
    torch.set_num_threads(threads)
    shape = {k: v for k, v in CONFIG.items() if k != "model_type"}
    config = transformers.GPT2Config(
        **{**shape, "n_positions": length}, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager")
    steps = torch.optim.AdamW(model.train().parameters(), lr=1e-4)
    ids = torch.randint(0, config.vocab_size, (batch, length))
    seconds = []
    for _ in range(STEPS):
        start = time.time()
        steps.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        seconds.append(time.time() - start)
    print(json.dumps([{"tokens_per_s": batch * length / statistics.median(seconds)}]))


def ours(binary, folder, batch, length, threads, *more):
    return [binary, "bench", "train", folder, "--json", "--batch", str(batch), "--tokens",
            str(length), "--threads", str(threads), *more]


def measure(command):
    """What it prints, and the most memory that it had, in MB."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, command
    return json.loads(said)[0]["tokens_per_s"], usage.ru_maxrss / 1024


def main():
    binary, threads = sys.argv[1], [int(t) for t in sys.argv[2:]] or [16, 1]
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/config.json", "w") as f:
            json.dump(CONFIG, f)
        for t in threads:
            for kind in ("f32", "bf16"):
                batch = 8 if t > 1 else 2
                mine, theirs = [], []
                for _ in range(ROUNDS):
                    mine.append(measure(ours(binary, folder, batch, 512, t, "--weights", kind)))
                    theirs.append(measure([sys.executable, __file__, "--torch", str(t),
                                           str(batch), "512", kind]))
                a, b = (statistics.median(x[0] for x in y) for y in (mine, theirs))
                print(f"{t:2} threads, {batch} x 512, {kind}: attend {a:7.0f} tokens/s, "
                      f"PyTorch {b:7.0f}, ratio {a / b:.2f}; memory "
                      f"{max(x[1] for x in mine):.0f} and {max(x[1] for x in theirs):.0f} MB",
                      flush=True)
        for form in ("softmax", "elu", "favor(m=64)"):
            rates = [measure(ours(binary, folder, 1, n, max(threads), "--weights", "f32",
                                  "--attention", form))[0] for n in (1024, 4096, 16384)]
            print(f"{form:12} 1,024 / 4,096 / 16,384 tokens: " +
                  " / ".join(f"{r:.0f}" for r in rates) + " tokens/s", flush=True)


if sys.argv[1] == "--torch":
    torch_step(*map(int, sys.argv[2:5]), sys.argv[5])
else:
    main()
