#!/usr/bin/env python3
"""attend beside PyTorch on one GPU, in one run.

    python3 bench/against_cuda.py [--build DIR] [--json FILE] [--quick] [PART...]

PARTs (default: all): see --list. Each row has attend's number, those of its peers, and attend's
divided by each: above 1 attend is faster. attend's numbers come from `attend bench --device cuda`
or from a program of bench/ that calls the kernels (built by the target gpu_tests in DIR, default
build-test/gpu); a part whose program is missing says so and is left out. Models have random
weights: nothing is downloaded.

A part is a function that yields rows:

    @part("softmax", "TFLOP/s")
    def softmax(run):
        for p in run.lines("gpu_bench_softmax"):
            yield row(f"d {p['dim']}", p["tflops"], cuDNN=..., flash=...)
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PARTS = {}
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def part(name, unit):
    def keep(rows):
        PARTS[name] = (unit, rows)
        return rows
    return keep


def row(name, ours, unit=None, **peers):
    """peers: PEER=number, None if it cannot do it; in the unit of ours, larger is better."""
    return {"name": name, "ours": ours, "unit": unit, "peers": peers}


class Missing(Exception):
    pass


class Run:
    def __init__(self, args):
        self.build, self.quick, self.said = args.build, args.quick, {}

    def command(self, words):
        environment = dict(os.environ)
        library = os.path.join(self.build, "libattend-cuda.so")
        if os.path.exists(library):
            environment.setdefault("ATTEND_CUDA_LIBRARY", os.path.abspath(library))
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Missing(f"{' '.join(words[:4])}: {last[0] if last else done.returncode}")
        return done.stdout

    def lines(self, program, *words):
        """The lines of JSON that a program of bench/ prints; it runs once."""
        if (program, words) in self.said:
            return self.said[program, words]
        path = os.path.join(self.build, program)
        if not os.path.exists(path):
            raise Missing(f"{path} is not built: cmake --build {self.build} --target gpu_tests")
        self.said[program, words] = [json.loads(x)
                                     for x in self.command([path, *words]).splitlines()
                                     if x.startswith("{")]
        return self.said[program, words]

    def attend(self, *words):
        """The rows of `attend WORDS --device cuda --json`."""
        path = os.path.join(self.build, "attend")
        if not os.path.exists(path):
            raise Missing(f"{path} is not built")
        return json.loads(self.command([path, *words, "--device", "cuda", "--json"]))

    def python(self, *words):
        """The JSON that this file prints in a process of its own, for peers that fill the memory."""
        said = self.command([sys.executable, os.path.abspath(__file__), "--peer", *map(str, words)])
        return json.loads(said.splitlines()[-1])


# ---- timing PyTorch -----------------------------------------------------------------------

def torch_ms(call, inner=5, rounds=15):
    """Median milliseconds of call(i), by events, after a warm-up."""
    import torch
    for _ in range(3):
        call(0)
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(inner):
            call(i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / inner)
    return statistics.median(times)


def sdpa_ms(p, backend, backward=False):
    """Milliseconds of PyTorch's attention of p, by cuDNN or flash; None where it refuses. Decoding
    rotates among several caches, so that keys are not read from L2."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]
    decode = p["q_len"] == 1
    sets = (2 if p["kv_heads"] > 8 else 8) if decode else 1

    def new(heads, n):
        return torch.randn(p["batch"], heads, n, p["dim"], device="cuda", dtype=torch.bfloat16,
                           requires_grad=backward)

    q = new(p["heads"], p["q_len"])
    keys = [(new(p["kv_heads"], p["kv_len"]), new(p["kv_heads"], p["kv_len"]))
            for _ in range(sets)]
    grouped, causal = p["kv_heads"] != p["heads"], p["causal"] and not decode

    def forward(i):
        k, v = keys[i % sets]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

    try:
        with sdpa_kernel(backend):
            if not backward:
                with torch.no_grad():
                    return torch_ms(forward, 32 if decode else 5)
            o = forward(0)
            d_o = torch.randn_like(o)
            wanted = (q, *keys[0])
            return torch_ms(lambda i: torch.autograd.grad(o, wanted, d_o, retain_graph=True))
    except RuntimeError:
        return None


def beside(ours, ms, theirs):
    """A peer's number from attend's, by time."""
    return ours * ms / theirs if theirs else None


# ---- parts: attention -----------------------------------------------------------------------

@part("softmax", "TFLOP/s")
def softmax(run):
    """The kernels alone, bf16."""
    for p in run.lines("gpu_bench_softmax"):
        if p["q_len"] == 1:
            continue
        backward = p.get("what") == "backward"
        name = f"{p.get('what', 'forward')} d {p['dim']} n {p['kv_len']}"
        yield row(name + (" causal" if p["causal"] else ""), p["tflops"],
                  **{x: beside(p["tflops"], p["ms"], sdpa_ms(p, x, backward))
                     for x in ("cuDNN", "flash")})


@part("decoding", "TB/s")
def decoding(run):
    """One query over 65,536 keys, the kernels alone, bf16."""
    for p in run.lines("gpu_bench_softmax"):
        if p["q_len"] == 1:
            pages = " in pages" if p.get("paged") else ""
            yield row(f"{p['kv_heads']} kv heads d {p['dim']} keys {p['kv_len']}{pages}",
                      p["tbytes_per_s"], **{x: beside(p["tbytes_per_s"], p["ms"], sdpa_ms(p, x))
                                            for x in ("cuDNN", "flash")})


def shape(n, dim, heads=None, kv_heads=None, batch=None):
    heads = heads or 2048 // dim
    return {"batch": batch or max(1, 16384 // n), "heads": heads, "kv_heads": kv_heads or heads,
            "q_len": n, "kv_len": n, "dim": dim, "causal": False}


def problem(form, p, *words):
    return ":".join([form, f"b{p['batch']}h{p['heads']}g{p['kv_heads']}n{p['kv_len']}d{p['dim']}",
                     *words])


@part("attention", "TFLOP/s")
def attention(run):
    """The same through the library's public calls: attend bench."""
    for dim in (64, 128):
        for n in (4096,) if run.quick else (1024, 4096, 16384):
            for mask in ([], ["causal"]):
                p = dict(shape(n, dim), causal=bool(mask))
                times = {}
                for what in ("forward", "both"):
                    words = [*mask, "bf16", *(["bwd"] if what == "both" else [])]
                    r = run.attend("bench", "--repeat", "15", problem("softmax", p, *words))[0]
                    times[what] = r["median_s"] * 1e3
                flops = 4e-12 * p["batch"] * p["heads"] * n * n * dim * (0.5 if mask else 1)
                name = f"d {dim} n {n}{' causal' if mask else ''}"
                forward = {x: sdpa_ms(p, x) for x in ("cuDNN", "flash")}
                yield row(f"forward {name}", flops / times["forward"] * 1e3,
                          **{x: ms and flops / ms * 1e3 for x, ms in forward.items()})
                backward = {x: sdpa_ms(p, x, True) for x in ("cuDNN", "flash")}
                yield row(f"forward+backward {name}", 3.5 * flops / times["both"] * 1e3,
                          **{x: ms and 3.5 * flops / (ms + forward[x]) * 1e3
                             for x, ms in backward.items()})


def linear_limit_s(p, features):
    """Seconds: each tensor once at 4.18 TB/s, or the products at 600 TFLOP/s."""
    rows, dim = p["batch"] * p["heads"] * p["q_len"], p["dim"]
    return max(rows * 4 * dim * 2 / 4.18e12, rows * 2 * features * 3 * dim / 600e12)


@part("linear", "Mtokens/s")
def linear(run):
    """Linear forms beside their limit, and softmax of the same sizes: attend's and cuDNN's."""
    for n in (16384,) if run.quick else (16384, 65536, 1000000):
        p = dict(shape(n, 64), causal=True)
        tokens = p["batch"] * n * 1e-6
        names = [problem(form, p, "causal", "bf16")
                 for form in ["elu", "favor(m=256)"] + ["softmax"] * (n <= 65536)]
        s = [r["median_s"] for r in run.attend("bench", "--repeat", "7", *names)]
        softmax_ms = sdpa_ms(p, "cuDNN") if n <= 65536 else None
        for form, features, seconds in zip(("elu", "favor(m=256)"), (64, 256), s):
            yield row(f"{form} causal n {n} d 64", tokens / seconds,
                      limit=tokens / linear_limit_s(p, features),
                      softmax=tokens / s[2] if len(s) > 2 else None,
                      cuDNN=softmax_ms and tokens / softmax_ms * 1e3)


@part("linear kernels", "Mtokens/s")
def linear_kernels(run):
    """The kernels of linear forms alone, beside cuDNN's softmax of the same sizes; `limit` is what
    bytes at 4.18 TB/s or products at 600 TFLOP/s allow, whichever is less."""
    for p in run.lines("gpu_bench_linear"):
        tokens = p["batch"] * p["q_len"] * 1e-6
        p = dict(p, kv_len=p["q_len"])
        softmax_ms = sdpa_ms(p, "cuDNN", p["backward"]) if p["q_len"] <= 65536 else None
        yield row(p["problem"], tokens / p["ms"] * 1e3,
                  cuDNN_softmax=softmax_ms and tokens / softmax_ms * 1e3,
                  limit=tokens / p["ms"] * 1e3 / p["of_limit"])


# ---- parts: products -------------------------------------------------------------------------

def product_ms(p):
    """Milliseconds of torch.mm of p, into bf16 or f32. Few rows: as CUDA graphs over several sets of
    weights, so that they are not read from L2 and the host does not count."""
    import torch
    kind = torch.float32 if p["weights"] == "f32" else torch.bfloat16
    few = p["m"] <= 64
    sets = min(64, (256 << 20) // (p["n"] * p["k"] * (4 if p["weights"] == "f32" else 2)) + 1)

    def new(rows, columns, across):
        x = torch.randn((columns, rows) if across else (rows, columns), device="cuda", dtype=kind)
        return x.t() if across else x

    a = new(p["m"], p["k"], p["a_columns"])
    b = [new(p["n"], p["k"], p["b_columns"]).t() for _ in range(sets if few else 1)]
    c = torch.empty(p["m"], p["n"], device="cuda", dtype=kind)
    if not few:
        return torch_ms(lambda i: torch.mm(a, b[0], out=c), max(1, int(2e12 / p["flops"])), 9)
    for w in b[:2]:
        torch.mm(a, w, out=c)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for w in b:
            torch.mm(a, w, out=c)
    return torch_ms(lambda i: graph.replay(), 2, 9) / sets


@part("products", "TFLOP/s")
def products(run):
    """Linear layers, the kernels alone, beside torch.mm; few rows: TB/s of weights."""
    for p in run.lines("gpu_bench_products"):
        few = p["m"] <= 64
        ours = p["tbytes_per_s"] if few else p["tflops"]
        name = f"{p['what']} {p['weights']} {p['m']} x {p['k']} x {p['n']}"
        ms = None if p["weights"] == "int8" else product_ms(p)
        yield row(name, ours, unit="TB/s" if few else None, torch_mm=beside(ours, p["ms"], ms))


# ---- parts: GPT-2 124M -------------------------------------------------------------------------

GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50257,
        "n_positions": 1024, "architectures": ["GPT2LMHeadModel"]}


class folder_of:
    """A folder with config.json alone."""

    def __init__(self, **changed):
        self.config = {**GPT2, **changed}

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory()
        with open(os.path.join(self.place.name, "config.json"), "w", encoding="utf8") as f:
            json.dump(self.config, f)
        return self.place.name

    def __exit__(self, *_):
        self.place.cleanup()


def gpt2_torch(positions=1024):
    import torch
    import transformers
    shape_of = {k: v for k, v in GPT2.items() if k not in ("model_type", "architectures")}
    config = transformers.GPT2Config(**{**shape_of, "n_positions": positions}, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    return model.cuda(), torch


def peer_train(how, batch, length, steps=12):
    """GPT-2 124M in PyTorch: bf16 autocast, fused AdamW."""
    model, torch = gpt2_torch(max(1024, length))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, GPT2["vocab_size"], (batch, length + 1), device="cuda")

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(input_ids=x, use_cache=False).logits
            return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    run = torch.compile(loss_of) if how == "compiled" else loss_of
    seconds = []
    for _ in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        run(ids[:, :-1], ids[:, 1:].contiguous()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return {"tokens_per_s": batch * length / statistics.median(seconds[4:]),
            "gib": torch.cuda.max_memory_allocated() / 2**30}


def peer_generate(batch, prompt, new=64):
    """Decoding and prefill of GPT-2 124M in bf16 by transformers: tokens a second."""
    model, torch = gpt2_torch()
    model = model.to(torch.bfloat16).eval()
    ids = torch.randint(0, GPT2["vocab_size"], (batch, prompt), device="cuda")

    def decode():
        with torch.inference_mode():
            past = model(ids, use_cache=True, logits_to_keep=1).past_key_values
            torch.cuda.synchronize()
            start = time.perf_counter()
            token = ids[:, :1]
            for _ in range(new):
                out = model(token, past_key_values=past, use_cache=True, logits_to_keep=1)
                past, token = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)
            torch.cuda.synchronize()
            return (time.perf_counter() - start) / new

    def prefill(_):
        with torch.inference_mode():
            model(ids, use_cache=True, logits_to_keep=1)

    decode()
    return {"decode": batch / statistics.median(decode() for _ in range(3)),
            "prefill": batch * prompt / torch_ms(prefill, 3) * 1e3}


@part("training", "tokens/s")
def training(run):
    """GPT-2 124M, B 32, T 1024, bf16 products; PyTorch eager and compiled."""
    with folder_of() as folder:
        ours = run.attend("bench", "train", folder, "--weights", "bf16", "--precision", "bf16",
                          "--batch", "32", "--tokens", "1024")[0]
    peers = {how: run.python("train", how, 32, 1024)
             for how in (("eager",) if run.quick else ("eager", "compiled"))}
    yield row("GPT-2 124M, 32 x 1024, bf16", ours["tokens_per_s"],
              **{how: p["tokens_per_s"] for how, p in peers.items()})
    yield row("peak memory: less is better", ours["peak_bytes"] / 2**30, unit="GiB",
              **{how: p["gib"] for how, p in peers.items()})


@part("long", "tokens/s")
def long_training(run):
    """GPT-2 124M on one text of 16,384 tokens: linear attention beside softmax, both attend's."""
    with folder_of(n_positions=16384) as folder:
        rates = [run.attend("bench", "train", folder, "--weights", "bf16", "--precision", "bf16",
                            "--batch", "1", "--tokens", "16384", "--attention", form)[0]["tokens_per_s"]
                 for form in ("elu", "softmax")]
    yield row("elu, 1 x 16384", rates[0], softmax=rates[1])


@part("generation", "tokens/s")
def generation(run):
    """GPT-2 124M in bf16: prefill of 512 tokens and decoding after it."""
    with folder_of() as folder:
        for batch in (1, 32):
            reading, writing = run.attend("bench", "model", folder, "--weights", "bf16", "--precision",
                                          "bf16", "--batch", str(batch), "--tokens", "512")[:2]
            theirs = run.python("generate", batch, 512)
            yield row(f"decode, batch {batch}", writing["tokens_per_s"],
                      transformers=theirs["decode"])
            yield row(f"prefill, {batch} x 512", reading["tokens_per_s"],
                      transformers=theirs["prefill"])
            if batch == 1:
                yield row("decode, batch 1: weights and cache", writing["gbytes_per_s"] / 1e3,
                          unit="TB/s", copy=copy_rate())


def copy_rate():
    """TB/s of a copy on the GPU, bytes read and written."""
    import torch
    x = torch.randn(1 << 30, device="cuda")
    y = torch.empty_like(x)
    return 2 * 4 * (1 << 30) / torch_ms(lambda i: y.copy_(x)) * 1e-9


# ---- the table ----------------------------------------------------------------------------------

def show(name, unit, r):
    peers = "".join(f"  {peer} {value:.4g} ({r['ours'] / value:.2f})" if value else f"  {peer} -"
                    for peer, value in r["peers"].items())
    print(f"{name:11} {r['name']:38} {r['ours']:11.5g} {r['unit'] or unit:9}{peers}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--build", default=os.path.join(TOP, "build-test/gpu"))
    arguments.add_argument("--json", help="also write the rows there")
    arguments.add_argument("--quick", action="store_true", help="fewer sizes")
    arguments.add_argument("--list", action="store_true", help="name the parts")
    arguments.add_argument("parts", nargs="*", metavar="PART")
    args = arguments.parse_args()
    if args.list:
        print("\n".join(f"{name:11} {unit:10} {(rows.__doc__ or '').strip()}"
                        for name, (unit, rows) in PARTS.items()))
        return
    unknown = [name for name in args.parts if name not in PARTS]
    if unknown:
        sys.exit(f"there is no part {unknown[0]}: choose {', '.join(PARTS)}")
    run, kept = Run(args), []
    print(f"{'part':11} {'':38} {'attend':>11} {'':9}  PEER number (attend / PEER)")
    for name in args.parts or PARTS:
        unit, rows = PARTS[name]
        try:
            for r in rows(run):
                show(name, unit, r)
                kept.append({"part": name, **r, "unit": r["unit"] or unit})
        except (Missing, ImportError) as why:
            print(f"{name:11} left out: {why}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf8") as f:
            json.dump(kept, f, indent=1)


PEERS = {"train": lambda how, *n: peer_train(how, *map(int, n)),
         "generate": lambda *n: peer_generate(*map(int, n))}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        print(json.dumps(PEERS[sys.argv[2]](*sys.argv[3:])))
    else:
        main()
