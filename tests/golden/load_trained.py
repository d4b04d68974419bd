#!/usr/bin/env python3
"""Models that attend trained, opened by Hugging Face transformers: load_trained.py FOLDER...

Every tensor must be found under the name that transformers has for it, and none be left
over. What the model then gives for drawn tokens is written to FOLDER/golden.safetensors,
which `attend verify --model FOLDER --golden FOLDER/golden.safetensors` compares with what
attend gives. Where there is a tokenizer.json, its ids of a text are printed.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file


def open_model(folder, family):
    kind = (transformers.AutoModelForMaskedLM if family == "bert" else
            transformers.AutoModelForSeq2SeqLM if family in ("bart", "t5") else
            transformers.AutoModelForCausalLM)
    model, found = kind.from_pretrained(folder, attn_implementation="eager",
                                        dtype=torch.float32, output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not found[what], (folder, what, found[what])
    return model.eval()


def listed(name, tensors):
    return {f"{name}.{i}": x.contiguous() for i, x in enumerate(tensors)}


def answers(model, family):
    torch.manual_seed(0)
    ids = torch.randint(0, model.config.vocab_size, (2, 24))
    given = {"input_ids": ids}
    kept = {"ids": ids, "mask": torch.ones_like(ids)}
    if family in ("bart", "t5"):
        kept["decoder_ids"] = torch.randint(0, model.config.vocab_size, (2, 9))
        given["decoder_input_ids"] = kept["decoder_ids"]
    with torch.no_grad():
        out = model(**given, output_hidden_states=True, output_attentions=True)
    kept["logits"] = out.logits.contiguous()
    if family not in ("bart", "t5"):
        return {**kept, **listed("hidden", out.hidden_states),
                **listed("attention", out.attentions)}
    return {**kept, **listed("encoder_hidden", out.encoder_hidden_states),
            **listed("decoder_hidden", out.decoder_hidden_states),
            **listed("encoder_attention", out.encoder_attentions),
            **listed("decoder_attention", out.decoder_attentions),
            **listed("cross_attention", out.cross_attentions)}


def main():
    for folder in map(pathlib.Path, sys.argv[1:]):
        family = json.loads((folder / "config.json").read_text())["model_type"]
        model = open_model(folder, family)
        save_file(answers(model, family), folder / "golden.safetensors",
                  metadata={"family": json.dumps(family)})
        words = ""
        if (folder / "tokenizer.json").exists():
            words = transformers.AutoTokenizer.from_pretrained(folder)("To be, or not: 42!").input_ids
        print(f"{folder}: {family}, all {len(model.state_dict())} tensors found {words}")


main()
