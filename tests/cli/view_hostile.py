"""Attacks the server of `attend view`: view_hostile.py VIEW_ECHO

25 clients ask properly, all the time, each in a thread of five processes of
their own; 25 others do what must not be done. Every proper answer must be right
to the byte, every improper one is refused or cut off, and in the end nothing is
left: no connection, no thread, no stream, no memory. VIEW_ECHO's first lines
say what it answers.
"""
import gzip
import http.client
import multiprocessing
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import traceback

from view_attacks import GUARD, IMPROPER, drain

ECHO = sys.argv[1]  # the program; view_crowd.py has another
SECONDS = 7  # of the attack
POLICY = {
    "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
        "blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
BROKEN = (ConnectionError, http.client.RemoteDisconnected,
          http.client.BadStatusLine)


class Server:
    def __init__(self, *options, token=True):
        self.token = secrets.token_hex(16)
        needed = [f"token={self.token}"] if token else []
        self.process = subprocess.Popen([ECHO, *needed, *options], text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        port, kind = self.process.stdout.readline().split()
        self.port, self.sanitized = int(port), kind == "sanitized"
        self.own = f"127.0.0.1:{port}"

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=GUARD)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def page(self):
        return f"/?token={self.token}"

    def json(self):
        return {"Content-Type": "application/json",
                "Authorization": "Bearer " + self.token}

    def head(self, name="echo", more=""):
        headers = "".join(f"{n}: {v}\r\n" for n, v in self.json().items())
        return (f"POST /api/{name} HTTP/1.1\r\nHost: {self.own}\r\n"
                f"{headers}{more}\r\n").encode()

    def sockets(self):
        count = 0
        folder = f"/proc/{self.process.pid}/fd"
        for name in os.listdir(folder):
            try:
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
            except FileNotFoundError:
                pass
        return count

    def unread(self):
        """Bytes that came and that the server has not taken yet."""
        count = 0
        with open("/proc/net/tcp") as f:
            for line in list(f)[1:]:
                field = line.split()
                if int(field[1].split(":")[1], 16) == self.port:
                    count += int(field[4].split(":")[1], 16)
        return count

    def status(self, name):
        with open(f"/proc/{self.process.pid}/status") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1])
        raise AssertionError(name)

    def stop(self):
        """What it says of itself; its end must be a clean one."""
        output, _ = self.process.communicate(timeout=GUARD)
        assert self.process.returncode == 0, self.process.returncode
        return dict((n, int(v)) for n, v in
                    (part.split("=") for part in output.split()))


def pattern(length):
    return bytes((i * 31 + i // 256) & 255 for i in range(length))


# ---- proper clients ------------------------------------------------------------


class Client:
    """Keeps its connection where `keeps`; asks again where the server has closed
    it before a byte of an answer came, as browsers do."""

    def __init__(self, server, keeps):
        self.server, self.keeps = server, keeps
        self.connection = None
        self.again = 0

    def once(self, method, path, body, headers):
        if not self.connection:
            self.connection = http.client.HTTPConnection(
                "127.0.0.1", self.server.port, timeout=GUARD)
        self.connection.request(method, path, body, headers)
        return self.connection.getresponse()

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, method, path, body=None, headers=None):
        for _ in range(5):
            try:
                reply = self.once(method, path, body,
                                  self.server.json() if headers is None else headers)
                break
            except BROKEN:
                self.again += 1
                self.close()
        else:
            raise AssertionError(f"{path}: five times no answer")
        got = reply.read()
        for name, value in POLICY.items():
            assert reply.headers[name] == value, (path, name)
        if not self.keeps:
            self.close()
        return reply, got


def proper_page(client, page, _):
    name, kind = random.choice([("html", "text/html"), ("css", "text/css"),
                                ("js", "text/javascript")])
    path = client.server.page() if name == "html" else "/page." + name
    packed = random.choice([{}, {"Accept-Encoding": "br, gzip;q=0.5"},
                            {"Accept-Encoding": "gzip;q=0, identity"}])
    reply, got = client.ask("GET", path, headers=packed)
    gz = "br" in packed.get("Accept-Encoding", "")
    assert reply.status == 200 and reply.headers["Cache-Control"] == "no-cache"
    assert reply.headers["Content-Type"].startswith(kind)
    assert (reply.headers["Content-Encoding"] == "gzip") == gz
    assert (gzip.decompress(got) if gz else got) == page[name], path
    packed = {**packed, "If-None-Match": f'"x", {reply.headers["ETag"]}'}
    reply, got = client.ask("GET", path, headers=packed)
    assert (reply.status, got) == (304, b"")
    reply, got = client.ask("HEAD", path, headers={})
    assert (reply.status, got) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(page[name])


def proper_echo(client, _, length):
    body = random.randbytes(random.randrange(length))
    reply, got = client.ask("POST", "/api/echo", body)
    assert reply.status == 200 and got == body[::-1], reply.status
    assert reply.headers["Cache-Control"] == "no-store"


def proper_bytes(client, _, length):
    reply, got = client.ask("POST", "/api/bytes", str(length).encode())
    assert reply.status == 200 and got == WANTED[length], reply.status


def proper_slow(client, _, __):
    reply, got = client.ask("POST", "/api/slow", b"abc")
    assert (reply.status, got) == (200, b"cba")


def proper_run(client, _, __):
    reply, got = client.ask("POST", "/api/run", b"{}")
    assert reply.status == 200, got
    assert reply.headers["Content-Type"] == "text/event-stream"
    events = got.decode().replace(":\n\n", "").split("\n\n")
    assert events[-4:] == ['event: progress\ndata: {"done": 5, "total": 5}',
                           'event: token\ndata: {"text": "a\\nb"}',
                           'event: done\ndata: {"run":  1}', ""], events


PROPER = ([(proper_page, 0)] * 6 + [(proper_echo, 300)] * 6 +
          [(proper_echo, 1 << 18)] * 3 + [(proper_echo, (1 << 20) + 1)] +
          [(proper_bytes, 300000)] * 5 + [(proper_slow, 0)] +
          [(proper_run, 0)] * 3)
WANTED = {300000: pattern(300000)}


def proper_thread(server, page, work, keeps, stop, tally):
    ask, size = work
    client = Client(server, keeps)
    done = 0
    try:
        while not stop.is_set():
            ask(client, page, size)
            done += 1
            time.sleep(0.01)
        tally.append((done, client.again, ""))
    except Exception:
        tally.append((done, client.again, ask.__name__ + traceback.format_exc()))
    client.close()


def proper_process(server, page, works, seed, stop, results):
    random.seed(seed)
    tally = []
    threads = [threading.Thread(target=proper_thread, args=(
        server, page, w, i % 2 == 0, stop, tally)) for i, w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    results.put(tally)


def lines(server):
    """Asks ten times at once, and gets ten answers in order."""
    one = server.head(more="Content-Length: 2\r\n") + b"%d%d"
    s = server.connect()
    s.sendall(b"".join(one % (i, 1) for i in range(10)))
    got = drain(s)
    assert [p[-2:] for p in got.split(b"HTTP/1.1 200")[1:]] == \
        [b"1%d" % i for i in range(10)], got


def improper_thread(server, attack, stop, tally):
    done = 0
    try:
        while not stop.is_set() or not done:
            attack(server)
            done += 1
        tally.append((attack.__name__, done, ""))
    except Exception:
        tally.append((attack.__name__, done, traceback.format_exc()))


# ---- the attack ------------------------------------------------------------------


def wait_for(what, want):
    until = time.time() + GUARD
    while what() > want and time.time() < until:
        time.sleep(0.05)
    assert what() <= want, f"{what()} are left, not {want}"


def attack(server, page):
    stop, results = multiprocessing.Event(), multiprocessing.Queue()
    works = list(enumerate(PROPER))
    processes = [multiprocessing.Process(target=proper_process, args=(
        server, page, works[i::5], i, stop, results)) for i in range(5)]
    for p in processes:
        p.start()
    tally = []
    threads = [threading.Thread(target=improper_thread,
                                args=(server, a, stop, tally)) for a in IMPROPER]
    for t in threads:
        t.start()
    time.sleep(SECONDS)
    stop.set()
    answers = sum((results.get(timeout=GUARD) for _ in processes), [])
    for t in threads + processes:
        t.join()
    return answers, tally


def check_attack(page):
    server = Server("arrive=2", "idle=2", "streams=16")
    sockets, threads = server.sockets(), server.status("Threads")
    lines(server)
    wait_for(server.sockets, sockets)
    answers, tally = attack(server, page)
    faults = [fault for _, _, fault in answers + tally if fault]
    assert not faults, "\n".join(faults)
    assert len(answers) == 25 and all(done > 0 for done, _, _ in answers)
    assert len(tally) == 25 and all(done > 0 for _, done, _ in tally)
    wait_for(server.sockets, sockets)
    wait_for(lambda: server.status("Threads"), threads + 16)  # joined when reused
    peak = server.status("VmHWM") >> 10
    print(f"{sum(a[0] for a in answers)} proper rounds, "
          f"{sum(a[1] for a in answers)} asked again, "
          f"{sum(t[1] for t in tally)} attacks, peak {peak} MiB")
    assert peak < (1500 if server.sanitized else 150), peak
    return server


def check_streams(server):
    """At most 16 connections; closing one admits another."""
    def begin():
        s = server.connect()
        s.sendall(server.head("endless", "Content-Length: 2\r\n") + b"{}")
        return s, s.recv(100)
    open_ones = [begin() for _ in range(16)]
    assert all(b" 200 " in got for _, got in open_ones), open_ones
    s, got = begin()
    assert b" 503 " in got, got
    assert b'{"error": "too much is being worked on' in got + drain(s)
    open_ones[0][0].close()
    until = time.time() + GUARD
    while b" 200 " not in got and time.time() < until:
        s, got = begin()
        time.sleep(0.05)
    assert b" 200 " in got
    return [s for s, _ in open_ones[1:]] + [s]


def check_stop(server, held):
    """Streams, an answer that is computed, a request that arrives, silence."""
    held += [server.connect(), server.connect(), server.connect()]
    held[-1].sendall(server.head("slow", "Content-Length: 0\r\n"))
    held[-2].sendall(server.head(more="Content-Length: 1000\r\n") + b"x" * 500)
    time.sleep(0.2)
    output = server.stop()
    assert output["begun"] == output["ended"] and output["unheard"] > 16, output
    for s in held:
        assert b"event: done" not in drain(s)


def check_room():
    """The total of bodies is bounded; small requests are still served."""
    server = Server("held=600000", "arrive=8")
    open_ones = []
    for _ in range(2):
        s = server.connect()
        s.sendall(server.head(more="Content-Length: 250000\r\n") + b"x" * 200000)
        open_ones.append(s)
    client = Client(server, True)
    wait_for(server.unread, 0)
    time.sleep(0.1)
    reply, got = client.ask("POST", "/api/echo", b"y" * 200000)
    assert reply.status == 503 and b"try again" in got, reply.status
    reply, got = client.ask("POST", "/api/echo", b"yz")
    assert (reply.status, got) == (200, b"zy")
    for s in open_ones:
        s.sendall(b"x" * 50000)
        assert s.recv(12) == b"HTTP/1.1 200"
        s.close()
    client.close()
    server.stop()


def check_tokens():
    """Each server has its own token; --no-token answers every client."""
    one, other = Server(), Server()
    one.token, other.token = other.token, one.token
    for server in one, other:
        client = Client(server, False)
        for reply, got in (client.ask("GET", server.page(), headers={}),
                           client.ask("POST", "/api/echo", b"ab")):
            assert reply.status == 403 and b"lacks the token" in got, got
    one.token, other.token = other.token, one.token
    for server in one, other:
        assert Client(server, False).ask("POST", "/api/echo", b"ab")[1] == b"ba"
        server.stop()
    server = Server(token=False)
    client = Client(server, False)
    assert client.ask("GET", "/", headers={})[0].status == 200
    assert client.ask("POST", "/api/echo", b"ab", {
        "Content-Type": "application/json"})[1] == b"ba"
    server.stop()


def check_binding():
    def fails(code, sentence, *options):
        run = subprocess.run([ECHO, *options], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=GUARD)
        assert run.returncode == code and run.stdout == "", run
        assert sentence in run.stderr and run.stderr.count("\n") == 1, run
    fails(2, "0.0.0.0 would let other machines in", "bind=0.0.0.0")
    fails(2, ":: would let other machines in", "bind=::")
    fails(2, "10.1.2.3 would let other machines in", "bind=10.1.2.3")
    fails(2, "no address in figures", "bind=example.org")
    fails(2, "no address in figures", "bind=")
    fails(1, "is no address of this machine", "bind=203.0.113.7", "remote")
    server = Server("bind=127.0.0.9")
    fails(1, f"port {server.port} of 127.0.0.9 is in use", "bind=127.0.0.9",
          f"port={server.port}")
    server.stop()
    server = Server("bind=0.0.0.0", "remote")
    name = socket.gethostname()
    for host, status in ((server.own, 200), (f"10.0.0.1:{server.port}", 200),
                         (f"{name}:{server.port}", 200),
                         (f"evil.example:{server.port}", 403)):
        client = Client(server, False)
        reply, _ = client.ask("GET", server.page(), headers={"Host": host})
        assert reply.status == status, host
    server.stop()


def main():
    folder = os.path.join(os.path.dirname(os.path.dirname(ECHO)), "page")
    page = {}
    for name in ("html", "js", "css"):
        with open(f"{folder}/page.{name}", "rb") as f:
            page[name] = f.read()
    check_binding()
    check_tokens()
    check_room()
    server = check_attack(page)
    check_stop(server, check_streams(server))


if __name__ == "__main__":
    main()
