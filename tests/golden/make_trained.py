#!/usr/bin/env python3
"""What Hugging Face's trainers learn from a text, and what its readers make of ours.

  make_trained.py TEXT OUT            writes OUT/trained.json
  make_trained.py --check ATTEND TEXT learns tokenizers from TEXT with the program
                                      ATTEND and compares the ids that it, tokenizers
                                      and transformers give; exit 1 if any differ

trained.json has a member for each case: the options, the pieces in the order of their
ids and, for BPE, the merges. tests/unit/test_text_trained.c learns the same from the same text.

The order in which WordPieceTrainer meets "##" letters is that of a hash table, and breaks
ties differently from run to run. Here they are handed over as special tokens, all letters
first and then all "##" letters, in the order of their code points, which is the order that
they have in ours; ties are then broken by the same ids.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CASES = {
    "gpt2": {"like": "gpt2", "vocab": 2000, "least": 2},
    "gpt2-all": {"like": "gpt2", "vocab": 100000, "least": 3},
    "bert": {"like": "bert", "vocab": 1500, "least": 2},
    "bert-lower": {"like": "bert", "vocab": 1500, "least": 2, "lowercase": True},
}
TEXTS = ["Hello world", "  two  spaces\n\nand lines\t x", "don't we'll I'M", "café naïve École",
         "北京欢迎 you", "👍🏽 emoji", "<s> in <mask> text </s><|endoftext|>", "[CLS] a [MASK].",
         "123 4567 3.14", "", " ", "x" * 300, "\ufffd", "a  <mask>  y", "\u00a0\u3000 wide"]


def learn_bytes(text, case):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=case["vocab"], min_frequency=case["least"], show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def learn_words(text, case):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    lower = case.get("lowercase", False)
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = [w for w, _ in
             t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(text))]
    first = sorted({c for w in words for c in w})
    inside = ["##" + c for c in sorted({c for w in words for c in w[1:]})]
    t.train_from_iterator([text], trainers.WordPieceTrainer(
        vocab_size=case["vocab"], min_frequency=case["least"], show_progress=False,
        special_tokens=BERT + first + inside))
    return t


def learnt(text, case):
    t = (learn_bytes if case["like"] == "gpt2" else learn_words)(text, case)
    model = json.loads(t.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    out = dict(case, pieces=pieces)
    if "merges" in model:
        out["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return out


def make(text_path, out):
    text = pathlib.Path(text_path).read_text(encoding="utf-8")
    made = {"tokenizers": tokenizers.__version__}
    for name, case in CASES.items():
        made[name] = learnt(text, case)
        print(name, len(made[name]["pieces"]))
    path = pathlib.Path(out) / "trained.json"
    path.write_text(json.dumps(made, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def ids_of_attend(program, folder):
    lines = "".join(json.dumps(t) + "\n" for t in TEXTS)
    said = subprocess.run([program, "tokenize", "--jsonl", folder], input=lines, text=True,
                          capture_output=True, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def check(program, text_path):
    import transformers
    bad = 0
    for like in ["gpt2", "bert", "bart", "llama"]:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, "tokenize", "--train", text_path, "--out", folder,
                            "--like", like, "--vocab", "1500"], check=True,
                           capture_output=True)
            ours = ids_of_attend(program, folder)
            plain = Tokenizer.from_file(folder + "/tokenizer.json")
            auto = transformers.AutoTokenizer.from_pretrained(folder)
            ways = {"tokenizers": [plain.encode(t).ids for t in TEXTS],
                    "transformers": [auto(t)["input_ids"] for t in TEXTS]}
            (pathlib.Path(folder) / "tokenizer.json").unlink()
            ways["attend, without tokenizer.json"] = ids_of_attend(program, folder)
            for way, theirs in ways.items():
                same = theirs == ours
                bad += not same
                print(like, way, "same ids" if same else "OTHER IDS")
                for t, a, b in zip(TEXTS, ours, theirs):
                    if a != b:
                        print("  ", repr(t), a, b)
    sys.exit(bad > 0)


if sys.argv[1] == "--check":
    check(sys.argv[2], sys.argv[3])
else:
    make(sys.argv[1], sys.argv[2])
