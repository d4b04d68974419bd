#!/usr/bin/python3
"""The reference of make_settings.py against Hugging Face: check_settings.py MODELS

MODELS has folders with config.json, model.safetensors and golden.safetensors, as
transformers computed it: logits and hidden states of ids where mask is 1, the loss of
row 0. Decoders that the settings can say are compared, others passed over.
"""
import json
import pathlib
import struct
import sys

import torch

sys.dont_write_bytecode = True  # no cache among the goldens
from make_settings import BASE, LINEARS, forward, loss_of

KINDS = {"F32": torch.float32, "I64": torch.int64}
BEFORE = {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
AFTER = {"attn_after_norm": "post_attention_layernorm",
         "mlp_after_norm": "post_feedforward_layernorm"}
BOTH = {"attn_norm": "input_layernorm", "mlp_norm": "pre_feedforward_layernorm", **AFTER}
LLAMA = {"embed": "model.embed_tokens", "final_norm": "model.norm", "head": "lm_head",
         "layers": "model.layers.", "o": "self_attn.o_proj", "down": "mlp.down_proj"}
APART = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
         "gate": "mlp.gate_proj", "up": "mlp.up_proj"}
QK = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
NEOX = {"embed": "gpt_neox.embed_in", "final_norm": "gpt_neox.final_layer_norm",
        "head": "embed_out", "layers": "gpt_neox.layers.", "o": "attention.dense",
        "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h"}
FAMILIES = {
    "llama": ({}, {**LLAMA, **APART, **BEFORE}),
    "qwen2": ({"biases": ["q", "k", "v"]}, {**LLAMA, **APART, **BEFORE}),
    "qwen3": ({"qk_norm": "head"}, {**LLAMA, **APART, **BEFORE, **QK}),
    "olmo2": ({"norm": "after", "qk_norm": "all"}, {**LLAMA, **APART, **AFTER, **QK}),
    "gemma2": ({"norm": "both"}, {**LLAMA, **APART, **BOTH}),
    "gemma3_text": ({"norm": "both", "qk_norm": "head"},
                    {**LLAMA, **APART, **BOTH, **QK}),
    "phi3": ({}, {**LLAMA, **BEFORE}),
    "gpt_neox": ({"rms": False, "gated": False, "parallel": "separate",
                  "biases": LINEARS}, {**NEOX, **BEFORE})}


def load(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header, found = json.loads(raw[8:8 + n]), {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        data = bytearray(raw[8 + n + begin:8 + n + end])
        found[name] = torch.frombuffer(data, dtype=KINDS[t["dtype"]]).reshape(t["shape"])
    return found


def theta_of(rope, kind):
    return rope.get(kind, rope).get("rope_theta", 10000.0)


def config_of(h, settings):
    heads, gemma = h["num_attention_heads"], h["model_type"].startswith("gemma")
    dim = h.get("head_dim") or h["hidden_size"] // heads
    rope = h["rope_parameters"]
    activation = h.get("hidden_activation") or h["hidden_act"]
    scalar = h.get("query_pre_attn_scalar")
    kinds = h.get("layer_types") or ["full_attention"] * h["num_hidden_layers"]
    return {
        **BASE, "vocab_size": h["vocab_size"], "width": h["hidden_size"],
        "layers": h["num_hidden_layers"], "heads": heads, "dim": dim,
        "kv_heads": h.get("num_key_value_heads", heads), "mlp": h["intermediate_size"],
        "norm_eps": h.get("rms_norm_eps") or h["layer_norm_eps"],
        "rotary_dim": int(dim * rope.get("partial_rotary_factor", 1)),
        "rope_theta": theta_of(rope, "full_attention"),
        "rope_theta_local": theta_of(rope, "sliding_attention"),
        "sliding_window": h.get("sliding_window") or 0,
        "layer_types": [k.replace("_attention", "") for k in kinds],
        "query_scale": scalar ** -0.5 if scalar else 0,
        "score_cap": h.get("attn_logit_softcapping") or 0,
        "logit_cap": h.get("final_logit_softcapping") or 0,
        "embed_scale": h["hidden_size"] ** 0.5 if gemma else 1,
        "activation": activation.replace("gelu_pytorch_tanh", "gelu_new"),
        "tied": h["tie_word_embeddings"], **settings}


def split(c, w, at, layer):
    """Matrices that are stored as one: Phi 3's in a row, GPT-NeoX's by head."""
    q, k = c["heads"] * c["dim"], c["kv_heads"] * c["dim"]
    for end in ("weight", "bias"):
        phi = w.get(f"{at}self_attn.qkv_proj.{end}")
        neox = w.get(f"{at}attention.query_key_value.{end}")
        up = w.get(f"{at}mlp.gate_up_proj.{end}")
        if phi is not None:
            parts = phi.split([q, k, k])
        if neox is not None:
            by_head = neox.reshape(c["heads"], 3, c["dim"], *neox.shape[1:])
            parts = [by_head[:, i].flatten(0, 1) for i in range(3)]
        if phi is not None or neox is not None:
            for name, x in zip("qkv", parts):
                yield f"layers.{layer}.{name}.{end}", x
        if up is not None:
            for name, x in zip(("gate", "up"), up.chunk(2)):
                yield f"layers.{layer}.{name}.{end}", x


def weights_of(c, w, names, gemma):
    found = {}
    for ours, theirs in names.items():
        once = ours in ("embed", "final_norm", "head")
        for i in range(1 if once else c["layers"]):
            to = ours if once else f"layers.{i}.{ours}"
            at = theirs if once else f"{names['layers']}{i}.{theirs}"
            for end in ("weight", "bias"):
                if f"{at}.{end}" in w:
                    found[f"{to}.{end}"] = w[f"{at}.{end}"]
    for i in range(c["layers"]):
        found.update(split(c, w, f"{names['layers']}{i}.", i))
    return {n: x.double() + (gemma and "norm" in n) for n, x in found.items()}


def off(got, want, rows):
    want = want.double()[rows]
    return ((got[rows] - want).abs().max() / want.abs().max()).item()


def check(folder):
    h = json.loads((folder / "config.json").read_text())
    if h["model_type"] not in FAMILIES:
        return
    settings, names = FAMILIES[h["model_type"]]
    c = config_of(h, settings)
    gemma = h["model_type"].startswith("gemma")
    w = weights_of(c, load(folder / "model.safetensors"), names, gemma)
    golden = load(folder / "golden.safetensors")
    rows = golden["mask"].bool()
    logits, hidden = forward(c, w, golden["ids"])
    worst = max(off(x, golden[f"hidden.{i}"], rows) for i, x in enumerate(hidden))
    length = int(golden["mask"][0].sum())
    loss = loss_of(logits[:1, :length], golden["ids"][:1, :length])
    gaps = [off(logits, golden["logits"], rows), worst,
            abs(loss.item() / golden["loss"].item() - 1)]
    print(f"{folder.name:16} logits {gaps[0]:.1e}, hidden states {gaps[1]:.1e}, "
          f"loss {gaps[2]:.1e}")
    assert max(gaps) < 1e-4


if __name__ == "__main__":
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/config.json")):
        check(path.parent)
