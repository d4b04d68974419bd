#!/usr/bin/python3
"""Golden models for the settings of the one transformer: make_settings.py [OUT]

A reference transformer in plain PyTorch functions, in float64, from weights that are
exact in bfloat16. OUT (tests/golden/settings) gets a folder for each case with
config.json, model.safetensors and golden.safetensors: ids, logits, hidden.0 ..
hidden.L, loss, and grad.<parameter>. A parameter's values depend on its name and shape
alone, so a case differs from "base" in its settings and nothing else. Running it again
gives the same bytes.

check_settings.py compares the reference with Hugging Face transformers.
"""
import hashlib
import json
import math
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
BATCH, LENGTH = 2, 12

# ---- cases ----------------------------------------------------------------------------

SIZES = ("vocab_size", "width", "layers", "heads", "dim", "mlp")
BASE = {
    "model_type": "toy", "vocab_size": 40, "width": 10, "layers": 2, "heads": 4,
    "kv_heads": 4, "dim": 4, "mlp": 14, "max_positions": 16, "norm": "before",
    "rms": True, "norm_eps": 0.01, "qk_norm": "none", "parallel": "none", "biases": [],
    "rotary_dim": 4, "rope_theta": 50.0, "rope_theta_local": 0.0, "sliding_window": 0,
    "layer_types": ["full", "full"], "query_scale": 0.0, "score_cap": 0.0,
    "logit_cap": 0.0, "embed_scale": 1.0, "layer_groups": 0, "embed_width": 0,
    "gated": True, "activation": "silu", "final_norm": True, "tied": True}
LINEARS = ["q", "k", "v", "o", "gate", "up", "down"]
SLIDING = {"sliding_window": 5, "layer_types": ["sliding", "full"]}
CASES = {
    "base": {},
    "norm-after": {"norm": "after"},
    "norm-both": {"norm": "both"},
    "norm-sum": {"norm": "sum"},
    "norm-none": {"norm": "none", "layers": 1, "layer_types": ["full"]},
    "layer-norm": {"rms": False},
    "qk-norm-head": {"qk_norm": "head"},
    "qk-norm-all": {"qk_norm": "all"},
    "qk-layer-norm": {"qk_norm": "all", "rms": False, "kv_heads": 2},
    "parallel-shared": {"parallel": "shared"},
    "parallel-separate": {"parallel": "separate"},
    "biases-qv": {"biases": ["q", "v"]},
    "biases-qkv": {"biases": ["q", "k", "v"]},
    "biases-vup": {"biases": ["v", "up"], "layers": 1, "layer_types": ["full"]},
    "biases-all": {"biases": LINEARS + ["head"]},
    "rotary-none": {"rotary_dim": 0},
    "rotary-partial": {"dim": 6, "rotary_dim": 4},
    "sliding": SLIDING,
    "rope-local": {**SLIDING, "rope_theta_local": 3.0},
    "query-scale": {"query_scale": 1.25},
    "score-cap": {"score_cap": 1.0},
    "logit-cap": {"logit_cap": 3.0},
    "embed-scale": {"embed_scale": 3.5},
    "layer-groups": {"layers": 3, "layer_types": ["full"] * 3, "layer_groups": 2},
    "embed-width": {"embed_width": 8},
    "embed-width-untied": {"embed_width": 8, "tied": False},
    "embed-width-wide": {"embed_width": 18},
    "plain-mlp": {"gated": False},
    "gelu": {"activation": "gelu"},
    "gelu-new": {"activation": "gelu_new"},
    "relu": {"activation": "relu"},
    "no-final-norm": {"final_norm": False},
    "untied": {"tied": False},
    "gqa": {"kv_heads": 2},
    "mqa": {"kv_heads": 1},
    "everything": {
        "width": 16, "layers": 3, "kv_heads": 2, "dim": 6, "rotary_dim": 6, "mlp": 24,
        "norm": "both", "qk_norm": "head", "sliding_window": 4,
        "layer_types": ["sliding", "sliding", "full"], "rope_theta": 500.0,
        "rope_theta_local": 5.0, "query_scale": 0.75, "score_cap": 1.5,
        "logit_cap": 4.0, "embed_scale": 4.0, "activation": "gelu_new"},
    "odd": {
        "vocab_size": 51, "width": 22, "heads": 3, "kv_heads": 1, "dim": 10,
        "rotary_dim": 6, "mlp": 29, "rms": False, "biases": ["q", "v"],
        "parallel": "separate", "gated": False, "activation": "gelu", "tied": False}}


def config_of(overrides):
    return {**BASE, **overrides}


def reset(config, key):
    """The same with one setting as it is in the base case."""
    same = {"kv_heads": config["heads"], "rotary_dim": config["dim"],
            "layer_types": ["full"] * config["layers"]}
    return {**config, key: same.get(key, BASE[key])}


def is_set(config, key):
    return key not in SIZES and reset(config, key) != config


# ---- parameters -----------------------------------------------------------------------

def group_of(c, layer):
    return layer * c["layer_groups"] // c["layers"] if c["layer_groups"] else layer


def norm_names(c):
    before, after = ["attn_norm", "mlp_norm"], ["attn_after_norm", "mlp_after_norm"]
    names = {"before": before, "after": after, "both": before + after, "sum": before,
             "none": []}
    parallel = c["parallel"] == "shared"
    return [n for n in names[c["norm"]] if not (parallel and n == "mlp_norm")]


def shapes(c):
    """Parameters in order: name -> shape."""
    f, m = c["width"], c["mlp"]
    q, k = c["heads"] * c["dim"], c["kv_heads"] * c["dim"]
    e = c["embed_width"] or f
    found = {}

    def norm(name, width):
        found[name + ".weight"] = [width]
        if not c["rms"]:
            found[name + ".bias"] = [width]

    def linear(name, outputs, inputs, biased):
        found[name + ".weight"] = [outputs, inputs]
        if biased:
            found[name + ".bias"] = [outputs]

    found["embed.weight"] = [c["vocab_size"], e]
    if c["embed_width"]:
        linear("embed_projection", f, e, True)
    each = c["qk_norm"] == "head"
    linears = {"q": (q, f), "k": (k, f), "v": (k, f), "o": (f, q), "gate": (m, f),
               "up": (m, f), "down": (f, m)}
    for group in sorted({group_of(c, i) for i in range(c["layers"])}):
        at = f"layers.{group}."
        for name in norm_names(c):
            norm(at + name, f)
        if c["qk_norm"] != "none":
            norm(at + "q_norm", c["dim"] if each else q)
            norm(at + "k_norm", c["dim"] if each else k)
        for name, (outputs, inputs) in linears.items():
            if name != "gate" or c["gated"]:
                linear(at + name, outputs, inputs, name in c["biases"])
    if c["final_norm"]:
        norm("final_norm", f)
    if c["embed_width"] and c["tied"]:
        linear("transform", e, f, True)
    if not c["tied"]:
        found["head.weight"] = [c["vocab_size"], f]
    if "head" in c["biases"]:
        found["head.bias"] = [c["vocab_size"]]
    return found


def uniform(name, count):
    """In [-1, 1), 16 bits each, from a digest of the name."""
    data, block = b"", 0
    while len(data) < 2 * count:
        data += hashlib.sha256(f"{name} {block}".encode()).digest()
        block += 1
    words = struct.unpack(f"<{count}H", data[:2 * count])
    return torch.tensor([w / 32768 - 1 for w in words], dtype=torch.float64)


def values(name, shape):
    x = uniform(f"{name} {shape}", math.prod(shape)).reshape(shape)
    if "norm.weight" in name:
        x = 1 + 0.4 * x
    elif name.endswith(".bias"):
        x = 0.4 * x
    elif name != "embed.weight":
        x = 1.5 * math.sqrt(3 / shape[1]) * x
    return x.float().bfloat16().double()


def parameters(c):
    return {name: values(name, shape).requires_grad_()
            for name, shape in shapes(c).items()}


def tokens(c):
    u = uniform("ids", BATCH * LENGTH)
    ids = ((u + 1) / 2 * c["vocab_size"]).long()
    return ids.reshape(BATCH, LENGTH)


# ---- the transformer ------------------------------------------------------------------

def norm(c, w, name, x):
    weight, bias = w[name + ".weight"], w.get(name + ".bias")
    if c["rms"]:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + c["norm_eps"]) * weight
    x = x - x.mean(-1, keepdim=True)
    x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + c["norm_eps"])
    return x * weight + bias


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def rotate(c, x, theta):
    """x [B, heads, T, dim]: the first rotary_dim of a head, in halves."""
    r = c["rotary_dim"]
    if not r:
        return x
    frequency = theta ** (-2 * torch.arange(r // 2, dtype=torch.float64) / r)
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b, rest = x[..., :r // 2], x[..., r // 2:r], x[..., r:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(c, w, layer, x):
    at = f"layers.{group_of(c, layer)}."
    batch, n = x.shape[:2]
    q, k, v = (linear(w, at + name, x) for name in "qkv")
    if c["qk_norm"] == "all":
        q, k = norm(c, w, at + "q_norm", q), norm(c, w, at + "k_norm", k)
    q, k, v = (t.reshape(batch, n, -1, c["dim"]).transpose(1, 2) for t in (q, k, v))
    if c["qk_norm"] == "head":
        q, k = norm(c, w, at + "q_norm", q), norm(c, w, at + "k_norm", k)
    slides = c["sliding_window"] and c["layer_types"][layer] == "sliding"
    theta = c["rope_theta_local"] if slides and c["rope_theta_local"] else c["rope_theta"]
    q, k = rotate(c, q, theta), rotate(c, k, theta)
    shared = c["heads"] // c["kv_heads"]
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    s = q @ k.transpose(2, 3) * (c["query_scale"] or c["dim"] ** -0.5)
    if c["score_cap"]:
        s = c["score_cap"] * torch.tanh(s / c["score_cap"])
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    seen = j <= i
    if slides:
        seen = seen & (j > i - c["sliding_window"])
    p = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
    return linear(w, at + "o", (p @ v).transpose(1, 2).reshape(batch, n, -1))


ACTIVATIONS = {
    "silu": F.silu, "relu": F.relu, "gelu": F.gelu,
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(
        math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}


def mlp(c, w, layer, x):
    at = f"layers.{group_of(c, layer)}."
    f, up = ACTIVATIONS[c["activation"]], linear(w, at + "up", x)
    inside = f(linear(w, at + "gate", x)) * up if c["gated"] else f(up)
    return linear(w, at + "down", inside)


def add(c, w, layer, name, f, x):
    """x and what a branch adds to it, with norms where the case has them."""
    at = f"layers.{group_of(c, layer)}.{name}"
    if c["norm"] == "sum":
        return norm(c, w, at + "_norm", x + f(c, w, layer, x))
    read = norm(c, w, at + "_norm", x) if c["norm"] in ("before", "both") else x
    y = f(c, w, layer, read)
    after = c["norm"] in ("after", "both")
    return x + (norm(c, w, at + "_after_norm", y) if after else y)


def parallel(c, w, layer, x):
    at = f"layers.{group_of(c, layer)}."
    second = "attn_norm" if c["parallel"] == "shared" else "mlp_norm"
    return (x + attention(c, w, layer, norm(c, w, at + "attn_norm", x)) +
            mlp(c, w, layer, norm(c, w, at + second, x)))


def forward(c, w, ids):
    """Logits, and what comes into each layer and out of the last."""
    x = w["embed.weight"][ids] * c["embed_scale"]
    if c["embed_width"]:
        x = linear(w, "embed_projection", x)
    hidden = [x]
    for layer in range(c["layers"]):
        if c["parallel"] != "none":
            x = parallel(c, w, layer, x)
        else:
            x = add(c, w, layer, "attn", attention, x)
            x = add(c, w, layer, "mlp", mlp, x)
        hidden.append(x)
    if c["final_norm"]:
        x = hidden[-1] = norm(c, w, "final_norm", x)
    if "transform.weight" in w:
        x = linear(w, "transform", x)
    table = w["embed.weight"] if c["tied"] else w["head.weight"]
    logits = F.linear(x, table, w.get("head.bias"))
    if c["logit_cap"]:
        logits = c["logit_cap"] * torch.tanh(logits / c["logit_cap"])
    return logits, hidden


def loss_of(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


# ---- files ----------------------------------------------------------------------------

def save(path, tensors):
    """safetensors: length of the header, the header, data without gaps."""
    header, data = {}, b""
    for name, x in tensors.items():
        whole = x.dtype in (torch.int32, torch.int64)
        flat = x.detach().flatten().tolist()
        raw = struct.pack(f"<{len(flat)}{'i' if whole else 'f'}", *flat)
        header[name] = {"dtype": "I32" if whole else "F32", "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_case(folder, name, c):
    w, ids = parameters(c), tokens(c)
    logits, hidden = forward(c, w, ids)
    loss = loss_of(logits, ids)
    loss.backward()
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save(folder / name / "model.safetensors", w)
    save(folder / name / "golden.safetensors", {
        "ids": ids, "logits": logits,
        **{f"hidden.{i}": x for i, x in enumerate(hidden)}, "loss": loss.reshape(1),
        **{f"grad.{p}": x.grad for p, x in w.items()}})
    return w, logits.detach()


# ---- what the cases must show ---------------------------------------------------------

def logits_of(c):
    with torch.no_grad():
        return forward(c, parameters(c), tokens(c))[0]


def gap(a, b):
    return (a - b).abs().max().item()


def check_settings(name, c, logits):
    """Each setting of a case must matter, or a mistake in it would not show."""
    for key in filter(lambda key: is_set(c, key), c):
        moved = gap(logits, logits_of(reset(c, key)))
        assert moved > 1e-2, f"{name}: {key} moves the logits by {moved} alone"
    other = {"gelu": "gelu_new", "gelu_new": "gelu"}.get(c["activation"])
    if other:
        moved = gap(logits, logits_of({**c, "activation": other}))
        assert moved > 5e-4, f"{name}: {other} moves the logits by {moved} alone"


def check_gradients(name, c, w):
    ids, by = tokens(c), 1e-5
    for p, x in w.items():
        most = x.grad.abs().max().item()
        assert most > 1e-4, f"{name}: the gradient of {p} is {most} at most"
    for p in list(w)[::5]:
        at = w[p].grad.abs().flatten().argmax().item()
        with torch.no_grad():
            flat, losses = w[p].view(-1), []
            for step in (by, -2 * by, by):
                flat[at] += step
                losses.append(loss_of(forward(c, w, ids)[0], ids).item())
        slope, want = (losses[0] - losses[1]) / (2 * by), w[p].grad.flatten()[at].item()
        assert abs(slope - want) < 1e-6, f"{name}: {p} has {want} where {slope} is due"


def make(folder):
    for name, overrides in CASES.items():
        c = config_of(overrides)
        w, logits = write_case(folder, name, c)
        check_settings(name, c, logits)
        check_gradients(name, c, w)
    size = sum(f.stat().st_size for f in folder.glob("*/*"))
    print(f"{len(CASES)} cases, {size} bytes")
    assert size < 1.3e6


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "settings")
