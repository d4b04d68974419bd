#!/usr/bin/env python3
"""What Google's rouge_score and NLTK's PorterStemmer say of texts and words.

  make_rouge.py PAIRS.jsonl OUT    writes OUT/rouge.json and OUT/stems.txt

PAIRS has "synopsis" and "description" on each line. rouge.json has

  pairs      [reference, summary, plain, stemmed]: twelve numbers each, precision, recall
             and F1 of rouge1, rouge2, rougeL, rougeLsum
  intervals  of rouge1's F1, plain, over all pairs: low, mid, high, as BootstrapAggregator
             has them

stems.txt has a word and its stem on each line. tests/unit/test_rouge.c computes the same.
"""
import itertools
import json
import pathlib
import random
import re
import sys

import numpy
from nltk.stem import porter
from rouge_score import rouge_scorer, scoring

KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
HARD = [
    ("", ""), ("", "word"), ("word", ""), ("word", "word"), ("one", "two"), ("a", "A"),
    ("...", "!?"), ("\n\n", "\n"), ("a\n", "\na"), (" a ", "a\t\r\n\v\fa"),
    ("the the the the", "the"), ("the", "the the the the"), ("a b a b a b", "b a b a b a"),
    ("command-line", "command line"), ("snake_case_name", "snake case name"),
    ("libfoo2.0-dev", "libfoo2 0 dev"), ("3.14159 1,000,000", "3 14159 1 000 000"),
    ("don't can't won't", "dont cant wont"), ("C++ and C#", "c and c"),
    ("caf\u00e9 na\u00efve \u00c9cole", "caf na ve cole"), ("\u5317\u4eac", "\u4e0a\u6d77"),
    ("\u5317a\u4eacb", "a b"), ("\U0001f44d ok", "ok \U0001f44d"),
    ("5\u212ag of \u212aelvin", "5kg of kelvin"), ("\u0130stanbul x\u0130y", "i stanbul xi y"),
    ("\u0131s\u0131 \u017f", "s"), ("\u00c5\u212b \ufb01 \u2460 \uff41", "a"),
    ("nul\u0000nul", "nul nul"), ("a\u0085b\u2028c\u00a0d", "a b c d"),
    ("caresses ponies ties caress cats", "caress poni tie caress cat"),
    ("dying lying tying news innings skies", "die lie tie new inning sky"),
    ("running runs runner ran", "run run run run"), ("1234s 12ing 99ed", "1234 12 99"),
    ("relational conditional rational", "relate condition ration"),
    ("dies died flies flied", "die die fli fli"), ("y yy yyy yyyy yyyyy", "yyyyy yyyy yyy yy y"),
    ("same words here\nand there", "and there\nsame words here"),
    ("a b c d\nc d e f", "d e\nc d\na f"), ("a b\n\n\nb a\n", "\n\nb\na b"),
    ("x " * 200, "x " * 63), ("x " * 64, "x " * 64 + "y"), ("x y " * 65, "y x " * 130),
]
ENDS = """s es ies sses ss ed ied eed ing at bl iz ating bling izing ational tional enci anci izer
bli abli alli entli eli ousli ization ation ator alism iveness fulness ousness aliti iviti biliti
fulli logi logy icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment
ent sion tion ion ou ism ate iti ous ive ize e le ll lle y ey ity ally ably fully ology ational
ly ies ied ying ary ery ll lled lling sing zed tted pping""".split()
FRONTS = "  b y a yb by ba ab tr geo oa syz hopp fall conform y1 relat vey eee controll".split(" ")


def short(text, words):
    return " ".join(text.split()[:words])


def shuffled(draw, text):
    words = text.split()
    draw.shuffle(words)
    return " ".join(words)


def near(draw, text):
    words = [w for w in text.split() if draw.random() > 0.15]
    return " ".join(draw.choice(words).upper() if draw.random() < 0.1 else w for w in words)


def in_lines(draw, text):
    words, lines = text.split(), []
    while words:
        n = draw.randint(1, 9)
        lines.append(" ".join(words[:n]))
        words = words[n:]
    return "\n".join(lines)


def letters(draw, count, kinds, lines):
    out = "".join(chr(97 + draw.randrange(kinds)) + ("\n" if draw.random() < lines else " ")
                  for _ in range(count))
    return out


def make_pairs(draw, data):
    data = draw.sample(data, 230)
    pairs = list(HARD)
    for d in data[:70]:
        pairs.append((d["synopsis"], short(d["description"], 8)))
    for d in data[70:100]:
        pairs.append((d["synopsis"], re.split(r"(?<=[.!?])\s", d["description"])[0]))
    for d in data[100:130]:
        text = short(d["description"], 40)
        pairs.append((text, shuffled(draw, text)))
    for d in data[130:160]:
        text = short(d["description"], 60)
        pairs.append((text, near(draw, text)))
    for d in data[160:200]:
        text = in_lines(draw, short(d["description"], 50))
        lines = near(draw, text.replace("\n", " \u2014 ")).split("\u2014")
        draw.shuffle(lines)
        pairs.append((text, "\n".join(lines)))
    for d, e in zip(data[200:215], data[215:]):
        pairs.append((short(d["description"], 60), short(e["description"], 30)))
    for _ in range(40):
        kinds, lines = draw.randint(2, 6), draw.choice([0, 0.1, 0.3])
        pairs.append((letters(draw, draw.randint(1, 80), kinds, lines),
                      letters(draw, draw.randint(1, 80), kinds, lines)))
    pairs.append((letters(draw, 1500, 3, 0), letters(draw, 1200, 4, 0)))
    pairs.append((letters(draw, 900, 20, 0.004), letters(draw, 1100, 20, 0.004)))
    return pairs


def numbers(score):
    return [x for kind in KINDS for x in score[kind]]


def main():
    draw = random.Random(7)
    numpy.random.seed(7)
    data = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    out = pathlib.Path(sys.argv[2])
    plain = rouge_scorer.RougeScorer(KINDS)
    stemmed = rouge_scorer.RougeScorer(KINDS, use_stemmer=True)
    sure = scoring.BootstrapAggregator()
    rows = []
    for reference, summary in make_pairs(draw, data):
        score = plain.score(reference, summary)
        sure.add_scores(score)
        rows.append([reference, summary, numbers(score),
                     numbers(stemmed.score(reference, summary))])
    interval = [x.fmeasure for x in sure.aggregate()["rouge1"]]
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)
    (out / "rouge.json").write_text(
        '{"intervals":%s,\n"pairs":[\n%s]}\n' % (json.dumps(interval), lines))

    words = set(w for d in draw.sample(data, 1500)
                for w in re.findall("[a-z0-9]+", d["description"].lower()))
    made = set(f + "".join(e) for f in FRONTS
               for e in itertools.chain(itertools.product(ENDS), zip(ENDS, draw.sample(ENDS, len(ENDS)))))
    words = draw.sample(sorted(w for w in words if len(w) > 3), 2500)
    stem = porter.PorterStemmer().stem
    listed = sorted(set(words) | made | set(porter.PorterStemmer().pool))
    (out / "stems.txt").write_text("".join("%s %s\n" % (w, stem(w)) for w in listed if w))


main()
