#!/usr/bin/python3
"""Golden interventions and attributions: make_interventions.py [OUT]

Hugging Face models of tests/golden/models, in float64, changed by PyTorch hooks and
differentiated by autograd. OUT (tests/golden/interventions) gets FAMILY.safetensors with
the inputs, the logits after each change and the attributions; the names say which. Running
it again gives the same bytes.

Positions, layers and heads count from 0. "after layer 1" is the residual stream that layer 2
reads; after the last layer it is past the final norm, as in hidden_states.
"""
import json
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F
import transformers

HERE = pathlib.Path(__file__).parent
FAMILIES = ("gpt2", "llama-gqa", "bert")
LENGTH = 10
STEPS = 16


# ---- where a family keeps its parts -------------------------------------------------------


class Model:
    """A Hugging Face model and the modules that the hooks are attached to."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        kind = config["model_type"]
        auto = transformers.AutoModelForMaskedLM if kind == "bert" else \
            transformers.AutoModelForCausalLM
        self.hf = auto.from_pretrained(folder, attn_implementation="eager",
                                       dtype=torch.float64).eval()
        self.kind = kind
        if kind == "gpt2":
            base = self.hf.transformer
            self.layers = list(base.h)
            self.attention = [x.attn for x in self.layers]
            self.reads = [x.attn for x in self.layers]
            self.out = [x.attn.c_proj for x in self.layers]
            self.mlp = [x.mlp for x in self.layers]
            self.mlp_reads = self.mlp
            self.norms = [n for x in self.layers for n in (x.ln_1, x.ln_2)] + [base.ln_f]
            self.final_norm, self.heads = base.ln_f, base.config.n_head
        elif kind == "llama":
            base = self.hf.model
            self.layers = list(base.layers)
            self.attention = [x.self_attn for x in self.layers]
            self.reads = self.attention
            self.out = [x.self_attn.o_proj for x in self.layers]
            self.mlp = [x.mlp for x in self.layers]
            self.mlp_reads = self.mlp
            self.norms = [n for x in self.layers
                          for n in (x.input_layernorm, x.post_attention_layernorm)] + [base.norm]
            self.final_norm, self.heads = base.norm, base.config.num_attention_heads
        else:
            base = self.hf.bert
            self.layers = list(base.encoder.layer)
            self.attention = [x.attention.self for x in self.layers]
            self.reads = self.attention
            self.out = [x.attention.output.dense for x in self.layers]
            self.mlp = [x.output.dense for x in self.layers]
            self.mlp_reads = [x.intermediate for x in self.layers]
            self.norms = [n for x in self.layers
                          for n in (x.attention.output.LayerNorm, x.output.LayerNorm)]
            self.final_norm, self.heads = None, base.config.num_attention_heads
        self.vocab = self.hf.config.vocab_size
        self.edit_pattern = None
        self.patterns = {}
        self._wrap_attention()

    def _wrap_attention(self):
        """Lets edit_pattern(layer, weights) replace attention weights [B,H,T,S]."""
        module = sys.modules[type(self.hf).__module__]
        eager = module.eager_attention_forward
        place = {id(m): i for i, m in enumerate(self.attention)}

        def attend(m, query, key, value, mask, *args, **kwargs):
            _, weights = eager(m, query, key, value, mask, *args, **kwargs)
            layer = place[id(m)]
            if self.edit_pattern:
                weights = self.edit_pattern(layer, weights)
            self.patterns[layer] = weights
            groups = weights.shape[1] // value.shape[1]
            out = weights @ value.repeat_interleave(groups, dim=1)
            return out.transpose(1, 2).contiguous(), weights

        module.eager_attention_forward = attend

    def __call__(self, ids):
        self.patterns = {}
        return self.hf(input_ids=ids, use_cache=False).logits

    def head(self, hidden):
        return self.hf.cls(hidden) if self.kind == "bert" else self.hf.lm_head(hidden)


class Edits:
    """Forward hooks that are removed when the block ends."""

    def __init__(self):
        self.handles = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for h in self.handles:
            h.remove()

    def output(self, module, f):
        def hook(_, __, y):
            if isinstance(y, tuple):
                return (f(y[0]),) + tuple(y[1:])
            return f(y)
        self.handles.append(module.register_forward_hook(hook))

    def input(self, module, f):
        def hook(_, args, kwargs):
            if args:
                return (f(args[0]),) + tuple(args[1:]), kwargs
            return args, {**kwargs, "hidden_states": f(kwargs["hidden_states"])}
        self.handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))


def record(model, ids):
    """Everything that is patched from another text."""
    r = {"residual": {}, "head": {}, "mlp": {}}
    with Edits() as e:
        for i in range(len(model.layers)):
            last = i == len(model.layers) - 1
            at = model.final_norm if last and model.final_norm else model.layers[i]
            e.output(at, lambda y, i=i: r["residual"].__setitem__(i, y) or y)
            e.input(model.out[i], lambda x, i=i: r["head"].__setitem__(i, x) or x)
            e.output(model.mlp[i], lambda y, i=i: r["mlp"].__setitem__(i, y) or y)
        e.input(model.layers[0], lambda x: r.__setitem__("embedded", x) or x)
        r["logits"] = model(ids)
    r["pattern"] = dict(model.patterns)
    return r


# ---- interventions --------------------------------------------------------------------------


def of_head(model, x, head, value):
    """x [B,T,H*M] with one head replaced by value, a number or [.., M]."""
    x = x.clone()
    m = x.shape[-1] // model.heads
    x[..., head * m:(head + 1) * m] = value
    return x


def rows(x, first, last, value):
    x = x.clone()
    x[:, first:last + 1] = value[:, first:last + 1]
    return x


def pinned(kind, weights):
    """The same shape, each row a distribution over the keys that it sees."""
    T = weights.shape[-1]
    seen = (weights.detach().sum(dim=(0, 1)) > 0).double()
    if kind == "uniform":
        p = seen / seen.sum(-1, keepdim=True)
    else:
        i = torch.arange(T)
        key = {"first": 0 * i, "previous": (i - 1).clamp(min=0), "self": i}[kind]
        p = F.one_hot(key, T).double()
    return p.expand_as(weights)


def interventions(model, ids, other, corpus, steer):
    out = {}
    source = record(model, other)

    def run(name, build):
        with Edits() as e:
            build(e)
            out[name] = model(ids)[0]
        model.edit_pattern = None

    def zero(layer, head):
        return lambda e: e.input(model.out[layer], lambda x: of_head(model, x, head, 0.0))

    run("before", lambda e: None)
    run("ablate.1.2", zero(1, 2))
    run("ablate.0.0,2.3", lambda e: (zero(0, 0)(e), zero(2, 3)(e)))
    run("ablate.attention.1", lambda e: e.input(model.out[1], torch.zeros_like))
    run("ablate.mlp.1", lambda e: e.output(model.mlp[1], torch.zeros_like))

    heads = [record(model, c[None])["head"][1][0] for c in corpus]
    mean = torch.cat(heads).mean(0)
    m = mean.shape[-1] // model.heads
    run("mean.1.2", lambda e: e.input(
        model.out[1], lambda x: of_head(model, x, 2, mean[2 * m:3 * m])))
    mlps = torch.cat([record(model, c[None])["mlp"][1][0] for c in corpus]).mean(0)
    run("mean.mlp.1", lambda e: e.output(model.mlp[1], lambda y: mlps.expand_as(y)))
    run("resample.1.2", lambda e: e.input(
        model.out[1], lambda x: of_head(model, x, 2, source["head"][1][..., 2 * m:3 * m])))

    for layer in range(len(model.layers)):
        last = layer == len(model.layers) - 1
        at = model.final_norm if last and model.final_norm else model.layers[layer]
        run(f"patch.residual.{layer}.2-3", lambda e: e.output(
            at, lambda y: rows(y, 2, 3, source["residual"][layer])))
    run("patch.residual.embedding.2-3", lambda e: e.input(
        model.layers[0], lambda x: rows(x, 2, 3, source["embedded"])))
    run("patch.head.1.2-3", lambda e: e.input(
        model.out[1], lambda x: rows(x, 2, 3, source["head"][1])))
    run("patch.mlp.1.2-3", lambda e: e.output(
        model.mlp[1], lambda y: rows(y, 2, 3, source["mlp"][1])))

    def pattern(change):
        model.edit_pattern = change

    run("patch.pattern.1", lambda e: pattern(
        lambda i, w: source["pattern"][1] if i == 1 else w))
    run("steer.0", lambda e: e.output(model.layers[0], lambda y: y + 2.0 * steer))
    for kind in ("uniform", "first", "previous", "self"):
        def pin(i, w, kind=kind):
            if i != 1:
                return w
            w = w.clone()
            w[:, 2] = pinned(kind, w)[:, 2]
            return w
        run(f"pin.{kind}.1.2", lambda e: pattern(pin))
    return out


# ---- attributions -----------------------------------------------------------------------------


def choose(model, ids):
    """The position, and the likeliest token there."""
    position = LENGTH - 1 if model.kind != "bert" else 4
    logits = model(ids)[0, position]
    return position, int(logits.argmax())


def logit_at(model, ids, x, position, token):
    """The logit with x as the input of the first layer."""
    with Edits() as e:
        e.input(model.layers[0], lambda _: x)
        return model(ids)[0, position, token]


def attributions(model, ids, baseline_ids):
    out = {}
    position, token = choose(model, ids)
    x = record(model, ids)["embedded"].detach()
    other = record(model, baseline_ids)["embedded"].detach()

    at = x.clone().requires_grad_()
    g, = torch.autograd.grad(logit_at(model, ids, at, position, token), at)
    out["gradient"] = g[0]
    out["gradient_input"] = (g * x).sum(-1)[0]
    for name, base in (("zero", torch.zeros_like(x)), ("tokens", other)):
        total = torch.zeros_like(x)
        for k in range(STEPS):
            share = (k + 0.5) / STEPS
            at = (base + share * (x - base)).requires_grad_()
            total += torch.autograd.grad(logit_at(model, ids, at, position, token), at)[0]
        out[f"integrated.{name}"] = ((x - base) * total / STEPS).sum(-1)[0]
        with torch.no_grad():
            out[f"difference.{name}"] = (logit_at(model, ids, x, position, token) -
                                         logit_at(model, ids, base, position, token)).reshape(1)

    at = x.clone().requires_grad_()
    logit = logit_at(model, ids, at, position, token)
    weights = [model.patterns[i] for i in range(len(model.layers))]
    grads = torch.autograd.grad(logit, weights)
    out["attention_gradient"] = torch.stack([g[0] for g in grads])

    lens = []
    with torch.no_grad():
        streams = []
        with Edits() as e:
            for layer in model.layers:
                e.input(layer, lambda x: streams.append(x) or x)
            logits = model(ids)
        for s in streams:
            h = model.final_norm(s) if model.final_norm else s
            lens.append(model.head(h)[0, position])
        lens.append(logits[0, position])
    out["logit_lens"] = torch.stack(lens)
    out.update(direct(model, ids, position, token))
    out["position"] = torch.tensor([float(position)])
    out["token"] = torch.tensor([float(token)])
    return out


def frozen(norm):
    """The norm as a linear map: its standard deviation or root mean square is a constant."""
    w, b = norm.weight, getattr(norm, "bias", None)
    eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))

    def forward(x):
        if b is None:
            return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt().detach() * w
        c = x - x.mean(-1, keepdim=True)
        return c / (c.pow(2).mean(-1, keepdim=True) + eps).sqrt().detach() * w + b
    return forward


def direct(model, ids, position, token):
    """What each head and mlp adds to the logit along the residual stream: branches read
    constants, norms are linear."""
    kept = {"head": {}, "mlp": {}}
    norms = [(n, n.forward) for n in model.norms]
    for n, _ in norms:
        n.forward = frozen(n)

    def keep(what, i):
        def f(x):
            x = x.detach().requires_grad_()
            kept[what][i] = x
            return x
        return f
    try:
        with Edits() as e:
            e.input(model.layers[0], keep("head", -1))
            for i in range(len(model.layers)):
                e.input(model.reads[i], lambda x: x.detach())
                e.input(model.mlp_reads[i], lambda x: x.detach())
                e.input(model.out[i], keep("head", i))
                e.output(model.mlp[i], keep("mlp", i))
            logit = model(ids)[0, position, token]
        layers = range(len(model.layers))
        leaves = [kept["head"][i] for i in range(-1, len(model.layers))] + \
            [kept["mlp"][i] for i in layers]
        grads = torch.autograd.grad(logit, leaves)
    finally:
        for n, f in norms:
            n.forward = f
    parts = [(g * x).detach()[0] for g, x in zip(grads, leaves)]
    n = len(model.layers)
    heads = torch.stack([p.sum(0).reshape(model.heads, -1).sum(-1) for p in parts[1:n + 1]])
    return {"direct.embedding": parts[0].sum().reshape(1), "direct.heads": heads,
            "direct.mlp": torch.stack([p.sum() for p in parts[n + 1:]]),
            "direct.logit": logit.detach().reshape(1)}


# ---- files ---------------------------------------------------------------------------------------


def write(path, tensors):
    header, data, at = {}, b"", 0
    for name in sorted(tensors):
        t = tensors[name].detach()
        integer = not t.is_floating_point()
        t = t.to(torch.int32 if integer else torch.float32).contiguous()
        raw = t.numpy().tobytes()
        header[name] = {"dtype": "I32" if integer else "F32", "shape": list(t.shape),
                        "data_offsets": [at, at + len(raw)]}
        data += raw
        at += len(raw)
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make(family, out):
    model = Model(HERE / "models" / family)
    generator = torch.Generator().manual_seed(19)
    draw = lambda *shape: torch.randint(5, model.vocab, shape, generator=generator)
    ids, other, corpus = draw(1, LENGTH), draw(1, LENGTH), draw(3, LENGTH)
    baseline = torch.full((1, LENGTH), 4)
    width = model.hf.config.hidden_size
    steer = torch.randn(width, generator=generator, dtype=torch.float64)
    tensors = {"ids": ids[0].int(), "from_ids": other[0].int(), "corpus": corpus.int(),
               "baseline": baseline[0].int(), "steer": steer}
    with torch.no_grad():
        tensors.update(interventions(model, ids, other, corpus, steer))
    tensors.update(attributions(model, ids, baseline))
    write(out / f"{family}.safetensors", tensors)
    print(family, len(tensors), "tensors")


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "interventions"
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for family in FAMILIES:
        make(family, out)


if __name__ == "__main__":
    main()
