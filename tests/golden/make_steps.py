#!/usr/bin/env python3
"""Ten steps of AdamW by PyTorch on the golden models: make_steps.py MODELS OUT

For each family a file OUT/FAMILY.json: the loss before each of ten steps, on the
batch of golden.safetensors, with a rate of 2e-4, decay 0.01 on matrices and tables
alone, and gradients clipped to length 1. tests/unit/test_optimizer.c takes the same steps.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

CAUSAL = ["gpt2", "llama-gqa", "llama-mqa-tied"]
MASKED = ["bert", "distilbert", "roberta"]
BOTH = ["bart", "t5", "t5-gated"]


def open_model(folder, name):
    kind = (transformers.AutoModelForCausalLM if name in CAUSAL else
            transformers.AutoModelForMaskedLM if name in MASKED else
            transformers.AutoModelForSeq2SeqLM)
    return kind.from_pretrained(folder, attn_implementation="eager",
                                dtype=torch.float32).eval()


def batch(golden, name):
    ids, mask = golden["ids"], golden["mask"]
    if name in CAUSAL:
        row = ids[:1, :int(mask[0].sum())]
        return {"input_ids": row, "labels": row}
    more = {k: golden[k] for k in ("token_type_ids",) if k in golden}
    return {"input_ids": ids, "attention_mask": mask, "labels": golden["labels"], **more}


def main():
    models, out = map(pathlib.Path, sys.argv[1:3])
    for name in CAUSAL + MASKED + BOTH:
        model = open_model(models / name, name)
        given = batch(load_file(models / name / "golden.safetensors"), name)
        wide = [p for p in model.parameters() if p.dim() > 1]
        flat = [p for p in model.parameters() if p.dim() < 2]
        steps = torch.optim.AdamW([{"params": wide, "weight_decay": 0.01},
                                   {"params": flat, "weight_decay": 0.0}], lr=2e-4)
        losses = []
        for _ in range(10):
            steps.zero_grad()
            loss = model(**given).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
            losses.append(loss.item())
        (out / f"{name}.json").write_text(json.dumps({"loss": losses}) + "\n")
        print(name, losses[0], losses[-1])


main()
