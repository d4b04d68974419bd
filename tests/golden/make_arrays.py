"""Small .npy and .npz files, written by NumPy: tests/golden/arrays, and seeds of the fuzzer.

    /usr/bin/python3 tests/golden/make_arrays.py

Array x [2, 3, 4] has the numbers 0 to 23 in C's order, in every dtype.
"""
import io
import json
import os
import pathlib
import zipfile

import numpy as np
from numpy.lib import format as npy

here = pathlib.Path(__file__).parent
out = here / "arrays"
seeds = here.parent / "fuzz" / "seeds" / "numpy"
out.mkdir(exist_ok=True)
seeds.mkdir(exist_ok=True)

x = np.arange(24).reshape(2, 3, 4)
for dtype in ("f2", "f4", "f8", "i1", "i4", "i8", "u1"):
    np.save(out / f"{dtype}.npy", x.astype("<" + dtype))
np.save(out / "b1.npy", x % 2 == 1)
np.save(out / "fortran.npy", np.asfortranarray(x.astype("<f4")))
np.save(out / "text.npy", np.array(["The", "dog", "ran", "naïve"]))
np.save(out / "bytes.npy", np.array([b"The", b"dogs"]))
np.save(out / "scalar.npy", np.float32(2.5))
np.save(out / "empty.npy", np.zeros((0, 4), "<f4"))
np.save(out / "big.npy", x.astype(">f4"))
np.save(out / "object.npy", np.array(["a", None]), allow_pickle=True)
np.save(out / "complex.npy", x.astype("<c8"))
for version in (1, 2, 3):
    with open(out / f"version{version}.npy", "wb") as f:
        npy.write_array(f, x.astype("<f4"), version=(version, 0))

arrays = {"x": x.astype("<f4"), "y": np.asfortranarray(x.astype("<f8")), "tokens": np.array(["a", "bc"])}
np.savez(out / "stored.npz", **arrays)
np.savez_compressed(out / "deflated.npz", **arrays)
# All three kinds of blocks: random bytes are stored, few bytes use the fixed codes.
random = np.random.default_rng(1)
mixed = {
    "noise": random.integers(0, 256, 3000).astype("u1"),
    "one": np.array([7], "<i8"),
    "runs": np.repeat(random.normal(size=60).astype("<f4"), 40),
    "words": np.frombuffer(b"the cat sat on the mat and the dog ran " * 40, "u1"),
}
np.savez_compressed(out / "mixed.npz", **mixed)
np.savez(out / "mixed_stored.npz", **mixed)

# zip64: sizes and offsets in the extra field, as for members over 4 GiB.
text = io.BytesIO()
npy.write_array(text, x.astype("<f4"))
limit = zipfile.ZIP64_LIMIT
with zipfile.ZipFile(out / "zip64.npz", "w", zipfile.ZIP_DEFLATED) as z:
    zipfile.ZIP64_LIMIT = 16
    z.writestr(zipfile.ZipInfo("x.npy"), text.getvalue(), zipfile.ZIP_DEFLATED)
    z.writestr(zipfile.ZipInfo("y.npy"), text.getvalue(), zipfile.ZIP_DEFLATED)
zipfile.ZIP64_LIMIT = limit

# Attention for `attend view --tensors`, and what NumPy computes from queries, keys and values.
def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


tokens = ["[CLS]", "the", "dog", "##s", "ran", "[SEP]"]
L, H, G, T, S, D, M = 2, 4, 2, 6, 9, 8, 5
weights = softmax(random.normal(size=(L, H, T, T)) * 2)
np.savez_compressed(out / "weights.npz", attention=weights.astype("f2"), tokens=np.array(tokens))
cross = softmax(random.normal(size=(L, 1, H, T, S)))
np.savez(out / "cross.npz", **{f"cross_attentions.{i}": cross[i] for i in range(L)})
np.save(out / "lower.npy", softmax(random.normal(size=(L, H, T, T)) + np.triu(np.full((T, T), -np.inf), 1)))
q, k = random.normal(size=(L, H, T, D)).astype("f4"), random.normal(size=(L, G, T, D)).astype("f4")
v = random.normal(size=(L, G, T, M)).astype("f4")
mask = np.tril(np.ones((T, T), bool)) & (random.random((T, T)) < 0.8) | np.eye(T, dtype=bool)
wide = [np.repeat(a.astype("f8"), H // G, 1) for a in (k, v)]
scores = q.astype("f8") @ wide[0].swapaxes(-1, -2) / np.sqrt(D)
seen = softmax(np.where(mask, scores, -np.inf))
np.savez(out / "qkv.npz", q=q, k=k, v=v, mask=mask)
(out / "qkv.json").write_text(
    json.dumps({"weights": seen.round(7).tolist(), "out": (seen @ wide[1]).round(7).tolist()}))

for name in ("f4.npy", "fortran.npy", "text.npy", "version3.npy", "stored.npz", "deflated.npz", "zip64.npz"):
    (seeds / name).write_bytes((out / name).read_bytes())
print(sum(os.path.getsize(p) for p in out.iterdir()), "bytes")
