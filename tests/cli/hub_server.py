"""A Hugging Face hub, its store of large files and an npm registry, for tests.

    hub_server.py WORLD

serves WORLD/models/OWNER/NAME/FILE as a hub does, and WORLD/npm/*.tgz as a
registry does, on two ports of the loopback, which are written to WORLD/ports:
the hub's, and that of the store to which large files (*.safetensors) are
redirected. Every request is a line of WORLD/log.

GET /_set?NAME=VALUE[:TIMES]&... puts all switches off and then these on, each
for so many requests (or for good):
    status=N    the hub answers with the status N
    error=CODE  and says so in X-Error-Code
    name=NAME   the list of files has this one too
    etag=ETAG   the etag of every file
    cut=N       the store stops after N bytes and closes the connection
    wrong=1     the store changes a byte
    whole=1     the store knows no ranges
    slow=1      the store sends 64 KiB, then 64 KiB every 0.05 seconds
    token=T     the hub wants this token
    integrity=1 the registry announces a wrong hash
"""
import base64
import hashlib
import io
import json
import os
import sys
import tarfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORLD = sys.argv[1]
SLICE = 1 << 16
switches = {}
guard = threading.Lock()


def switch(name):
    """The value if the switch is on; a request counts as one use of it."""
    with guard:
        if name not in switches:
            return None
        value, times = switches[name]
        if times == 0:
            return None
        switches[name] = (value, times - 1)
        return value


def set_switches(query):
    with guard:
        switches.clear()
        for name, text in urllib.parse.parse_qsl(query):
            value, _, times = text.partition(":")
            switches[name] = (value, int(times) if times else -1)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def is_large(name):
    return name.endswith(".safetensors")


def git_name(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, who):
        line = "%s %s %s range=%s token=%s\n" % (
            who, self.command, self.path, self.headers.get("Range", ""),
            self.headers.get("Authorization", ""))
        with guard, open(os.path.join(WORLD, "log"), "a") as f:
            f.write(line)

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()


class Store(Handler):
    def do_GET(self):
        self.note("store")
        if self.headers.get("Authorization"):
            return self.answer(400)
        data = blobs.get(self.path[1:])
        if data is None:
            return self.answer(404)
        if switch("wrong"):
            data = data[:-1] + bytes([data[-1] ^ 1])
        wanted = self.headers.get("Range")
        start = 0
        if wanted and not switch("whole"):
            start = int(wanted[len("bytes="):].rstrip("-"))
            if start >= len(data):
                return self.answer(416)
        return self.send_from(data, start)

    def send_from(self, data, start):
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", "bytes %d-%d/%d" %
                             (start, len(data) - 1, len(data)))
        self.end_headers()
        cut, slow = switch("cut"), switch("slow")
        end = min(len(data), start + int(cut)) if cut else len(data)
        self.close_connection = bool(cut)
        for at in range(start, end, SLICE):
            self.wfile.write(data[at:min(at + SLICE, end)])
            if slow:
                time.sleep(0.05)


class Hub(Handler):
    def do_GET(self):
        if self.path.startswith("/_set?"):
            set_switches(self.path[len("/_set?"):])
            return self.answer(200)
        self.note("hub")
        if self.path.startswith("/npm/"):
            return self.registry(urllib.parse.unquote(self.path[len("/npm/"):]))
        status, token = switch("status"), switch("token")
        if token and self.headers.get("Authorization") != "Bearer " + token:
            return self.answer(401, [("X-Error-Code", "GatedRepo")])
        if status:
            return self.answer(int(status), [("X-Error-Code",
                                              switch("error") or "")])
        parts = urllib.parse.unquote(self.path).split("/")
        if self.path.startswith("/api/models/") and len(parts) > 6:
            return self.list_files(parts[3] + "/" + parts[4],
                                   "/".join(parts[6:]))
        if len(parts) > 5 and parts[3] == "resolve":
            return self.resolve(parts[1] + "/" + parts[2], parts[4],
                                "/".join(parts[5:]))
        return self.answer(404, [("X-Error-Code", "EntryNotFound")])

    def list_files(self, model, revision):
        if model == "old/name":
            return self.answer(307, [(
                "Location", "/api/models/small/bert/revision/" + revision)])
        if model not in models:
            return self.answer(404, [("X-Error-Code", "RepoNotFound")])
        commit = commits[model]
        if revision not in ("main", "v1/beta", commit):
            return self.answer(404, [("X-Error-Code", "RevisionNotFound")])
        names = sorted(models[model])
        extra = switch("name")
        if extra:
            names.append(extra)
        body = json.dumps({"id": model, "sha": commit, "siblings": [
            {"rfilename": name} for name in names]}).encode()
        return self.answer(200, [("Content-Type", "application/json")], body)

    def resolve(self, model, commit, name):
        if model == "old/name":
            return self.answer(307, [("Location", "/small/bert/resolve/%s/%s" %
                                      (commit, urllib.parse.quote(name)))])
        data = models.get(model, {}).get(name)
        if data is None:
            return self.answer(404, [("X-Error-Code", "EntryNotFound")])
        headers = [("X-Repo-Commit", commits[model])]
        etag = switch("etag")
        if not is_large(name):
            headers.append(("ETag", '"%s"' % (etag or git_name(data))))
            return self.answer(200, headers, data)
        sha = hashlib.sha256(data).hexdigest()
        headers += [("X-Linked-Etag", '"%s"' % (etag or sha)),
                    ("X-Linked-Size", str(len(data))), ("ETag", '"redirect"'),
                    ("Location", "http://127.0.0.1:%d/%s" % (store_port, sha))]
        return self.answer(302, headers, b"Found. Redirecting.")

    def registry(self, name):
        path = os.path.join(WORLD, "npm", os.path.basename(name))
        if name.endswith(".tgz"):
            return self.answer(200, body=read(path))
        versions = {}
        for file in sorted(os.listdir(os.path.join(WORLD, "npm"))):
            data = read(os.path.join(WORLD, "npm", file))
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                about = json.load(tar.extractfile("package/package.json"))
            if about["name"] != name:
                continue
            digest = hashlib.sha512(data).digest()
            if switch("integrity"):
                digest = bytes(64)
            about["dist"] = {
                "tarball": "http://127.0.0.1:%d/npm/-/%s" % (hub_port, file),
                "integrity": "sha512-" + base64.b64encode(digest).decode()}
            versions[about["version"]] = about
        if not versions:
            return self.answer(404, body=b"{}")
        body = json.dumps({"name": name, "versions": versions, "dist-tags": {
            "latest": max(versions)}}).encode()
        return self.answer(200, [("Content-Type", "application/json")], body)


def load_models():
    top = os.path.join(WORLD, "models")
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), top)
            owner, name, rest = path.split(os.sep, 2)
            data = read(os.path.join(folder, file))
            models.setdefault(owner + "/" + name, {})[rest] = data
            if is_large(file):
                blobs[hashlib.sha256(data).hexdigest()] = data
    for model in models:
        commits[model] = hashlib.sha1(model.encode()).hexdigest()


models, blobs, commits = {}, {}, {}
load_models()
hub = Server(("127.0.0.1", 0), Hub)
store = Server(("127.0.0.1", 0), Store)
hub_port, store_port = hub.server_port, store.server_port
with open(os.path.join(WORLD, "ports.new"), "w") as ports:
    ports.write("%d %d\n" % (hub_port, store_port))
os.rename(os.path.join(WORLD, "ports.new"), os.path.join(WORLD, "ports"))
threading.Thread(target=store.serve_forever, daemon=True).start()
hub.serve_forever()
