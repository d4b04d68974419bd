"""Small .npy and .npz files, written by NumPy: tests/golden/arrays, and seeds of the fuzzer.

    /usr/bin/python3 tests/golden/make_arrays.py

Array x [2, 3, 4] has the numbers 0 to 23 in C's order, in every dtype.
"""
import io
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
    z.writestr("x.npy", text.getvalue())
    z.writestr("y.npy", text.getvalue())
zipfile.ZIP64_LIMIT = limit

for name in ("f4.npy", "fortran.npy", "text.npy", "version3.npy", "stored.npz", "deflated.npz", "zip64.npz"):
    (seeds / name).write_bytes((out / name).read_bytes())
print(sum(os.path.getsize(p) for p in out.iterdir()), "bytes")
