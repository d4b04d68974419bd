"""Writes malicious npm packages, and some valid ones.

    npm_tarballs.py FOLDER

writes FOLDER/NAME.tgz, each with a package.json of the name NAME.
"""
import gzip
import io
import json
import os
import sys
import tarfile

FOLDER = sys.argv[1]
LONG = "package/" + "/".join(["a-folder-with-a-long-name"] * 8) + "/file"


def entry(name, **fields):
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tarball(name, extra, kind=tarfile.PAX_FORMAT):
    about = json.dumps({"name": name, "version": "1.0.0"}).encode()
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=kind) as tar:
        tar.addfile(entry("package/package.json", size=len(about)),
                    io.BytesIO(about))
        tar.addfile(extra, io.BytesIO(b"evil\n"[:extra.size]))
    return data.getvalue()


def write(name, data):
    with open(os.path.join(FOLDER, name + ".tgz"), "wb") as f:
        f.write(data)


def pack(name, extra, kind=tarfile.PAX_FORMAT):
    write(name, gzip.compress(tarball(name, extra, kind)))


pack("long-pax", entry(LONG, size=5))
pack("long-gnu", entry(LONG, size=5), tarfile.GNU_FORMAT)
pack("long-ustar", entry(LONG, size=5), tarfile.USTAR_FORMAT)
pack("bad-parent", entry("package/../../../evil", size=5))
pack("bad-parent-gnu", entry("package/../../" + LONG, size=5),
     tarfile.GNU_FORMAT)
pack("bad-absolute", entry("/tmp/evil", size=5))
pack("bad-backslash", entry("package/..\\..\\evil", size=5))
pack("bad-link", entry("package/evil", type=tarfile.SYMTYPE,
                       linkname="/etc/passwd"))
pack("bad-hard-link", entry("package/evil", type=tarfile.LNKTYPE,
                            linkname="package/package.json"))
pack("bad-device", entry("package/evil", type=tarfile.FIFOTYPE))
pack("bad-both", entry("package/package.json/evil", size=5))
