"""Many clients of the real `attend view`: view_clients.py ADDRESS PID

25 clients view six texts at once and must get what one alone got, to the byte; 25
others send requests without sense, break off, or speak no HTTP. Memory stays
bounded.
"""
import http.client
import json
import os
import random
import sys
import threading
import time
import traceback
from urllib.parse import parse_qs, urlsplit

from view_attacks import (GUARD, bad_lengths, garbage, long_headers,
                          other_places, slow_headers, wrong_hosts, wrong_tokens)
from view_hostile import Server as Attacked

SECONDS = 6
TEXTS = ["5 17 40 96 51 17 40", "1 2 3", "9 8 7 6 5 4 3 2 1 0", "40 40 40 40",
         " ".join(str(i % 90) for i in range(60)), "77"]
FORMS = ["softmax", "elu", "argmax"]


class Server(Attacked):
    """The same that the attacks know, but it runs already."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.own, self.port = parts.netloc, parts.port
        self.token = parse_qs(parts.query)["token"][0]

    def ask(self, name, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)
        connection.request("POST", "/api/" + name, body, self.json())
        reply = connection.getresponse()
        got = reply.read()
        connection.close()
        return reply.status, got


SERVER = Server(sys.argv[1])


def question(name, members):
    status, got = SERVER.ask(name, json.dumps(members))
    assert status == 200, (name, members, got[:300])
    return got


def run(case, name="run"):
    events = question(name, case).decode().replace(":\n\n", "").strip().split("\n\n")
    kind, data = events[-1].split("\ndata: ")
    assert kind == "event: done", events[-1]
    found = json.loads(data)
    del found["seconds"]
    return found


def look(text, form):
    """All answers about one case."""
    found = run({"text": text, "attention": form})
    about = {"run": found["run"], "role": "decoder"}
    place = {**about, "layer": 2, "head": 1}
    answers = [question(*q) for q in (
        ("thumbs", about), ("patterns", about), ("block", place),
        ("vectors", {**place, "attention": "favor(m=16)"}),
        ("tile", {**place, "level": 1, "pool": "mean"}),
        ("flow", {**about, "way": "argmax"}), ("flow", about),
        ("compare", {**about, "attention": "poly(p=2)"}),
        ("embeddings", {"run": found["run"], "layer": 1}),
        ("candidates", {"run": found["run"]}),
        ("picture", {"state": {"view": "head", "case": {"text": text}}}))]
    return [found] + answers


def write(text):
    return run({"case": {"text": text}, "new": 4, "temperature": 1, "seed": 7},
               "generate")


# ---- those who must not be --------------------------------------------------------

NONSENSE = [
    b"", b"{", b"[]", b"null", b"{}", b'"x"', b"\xff\xfe", b"{\"a\":" * 500,
    b'{"run": 5}', b'{"run": "0000000000000000"}', b'{"run": null, "role": []}',
    b'{"text": 7}', b'{"text": "1 2", "attention": "nonsense"}',
    b'{"text": "1 2", "attention": "favor(m=99999999999)"}',
    b'{"text": "1 2", "model": "9"}', b'{"text": "-1"}', b'{"text": "99999"}',
    b'{"text": "1", "pad": 1e300}', b'{"text": "1\\u00002"}', b'{"text": ""}',
    b'{"count": -1, "width": 0}', b'{"count": 1e9}', b'{"state": {}}',
    b'{"state": {"view": "head", "case": {"text": "1 2"}, "layer": 77}}',
    b'{"state": {"view": "x", "case": []}, "as": "gif", "width": 1e9}',
    b'{"case": {"text": "1"}, "new": 100000}',
    b'{"case": {"text": "1"}, "temperature": -1}']
NAMES = ["run", "generate", "refine", "thumbs", "patterns", "block", "stats",
         "vectors", "tile", "flow", "compare", "candidates", "embeddings",
         "positions", "picture"]


def nonsense(_):
    for name in NAMES:
        body = random.choice(NONSENSE)
        status, got = SERVER.ask(name, body)
        long = name in ("run", "generate", "refine") and status == 200
        harmless = status == 200 and b'"error"' not in got
        event = got.split(b"data: ")[-1] if long else got
        if not harmless:
            assert json.loads(event)["error"], (name, body, got[:200])
            assert long or 400 <= status < 500, (name, body, status)


def out_of_range(_):
    found = run({"text": TEXTS[0]})
    for more in ({"layer": 99}, {"head": -1}, {"row": 5, "rows": 9}, {"key": 1e9},
                 {"level": 99}, {"x": 50}, {"role": "cross"}, {"token": 99},
                 {"attention": "favor(m=-1)"}, {"minus": {"run": "x"}},
                 {"pool": "least"}, {"way": "home"}, {"layer": 0.5}):
        for name in ("block", "tile", "flow"):
            body = json.dumps({"run": found["run"], "role": "decoder", **more})
            status, got = SERVER.ask(name, body)
            assert status in (200, 400, 404) and got, (name, body)
            assert status == 200 or json.loads(got)["error"]


def leave(name, body):
    def left(server):
        s = server.connect()
        s.sendall(server.head(name, f"Content-Length: {len(body)}\r\n") + body)
        time.sleep(random.random() / 10)
        s.close()
    return left


leave_run = leave("run", json.dumps({"text": TEXTS[4] + " 3"}).encode())
leave_writing = leave("generate", b'{"case": {"text": "1 2"}, "new": 60}')
leave_picture = leave("picture", b'{"state": {"view": "model", "case": {"text": "1"}}}')
IMPROPER = [nonsense] * 6 + [out_of_range] * 3 + [leave_run] * 3 + \
    [leave_writing] * 3 + [leave_picture] * 2 + [slow_headers] * 2 + \
    [garbage, wrong_tokens, wrong_hosts, bad_lengths, long_headers, other_places]


# ---- all at once --------------------------------------------------------------------


def work(what, stop, tally):
    done = 0
    try:
        while not stop.is_set() or not done:
            what()
            done += 1
        tally.append((done, ""))
    except Exception:
        tally.append((done, traceback.format_exc()))


def peak(pid):
    with open(f"/proc/{pid}/status") as f:
        return [int(line.split()[1]) for line in f if line.startswith("VmHWM")][0]


def main():
    pairs = [(text, form) for text in TEXTS for form in FORMS]
    alone = {pair: look(*pair) for pair in pairs}
    written = {text: write(text) for text in TEXTS}
    before = peak(sys.argv[2])

    def proper():
        pair = random.choice(pairs)
        got = look(*pair)
        for ours, theirs in zip(got, alone[pair]):
            assert ours == theirs, (pair, ours[:200], theirs[:200])
        assert write(pair[0]) == written[pair[0]], pair

    stop, good, bad = threading.Event(), [], []
    threads = [threading.Thread(target=work, args=(proper, stop, good))
               for _ in range(25)]
    threads += [threading.Thread(target=work, args=(lambda a=a: a(SERVER), stop, bad))
                for a in IMPROPER[:25]]
    for t in threads:
        t.start()
    time.sleep(SECONDS)
    stop.set()
    for t in threads:
        t.join()
    faults = [fault for _, fault in good + bad if fault]
    assert not faults, "\n".join(faults[:3])
    assert len(good) == 25 and len(bad) == 25
    after = peak(sys.argv[2])
    print(f"{sum(d for d, _ in good)} proper looks, {sum(d for d, _ in bad)} improper, "
          f"peak {before >> 10} MiB alone, {after >> 10} MiB with all of them")
    # Sanitizers keep memory of their own for every thread of the server.
    allowed = 1024 if os.environ["ATTEND_SANITIZE"] else 64
    assert after < before + allowed * 1024, (before, after)


main()
