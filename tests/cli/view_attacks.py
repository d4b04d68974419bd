"""What must not be done to the server of `attend view`, for view_hostile.py.

Each takes a server, does it, and asserts that it is refused or cut off.
"""
import json
import random
import socket
import time

GUARD = 60  # seconds; a hang, and nothing else


def drain(s, pause=0.0, most=1 << 26, each=65536):
    """What comes until the server closes: it must, whatever it says."""
    got = b""
    try:
        while len(got) < most:
            piece = s.recv(each)
            if not piece:
                break
            got += piece
            time.sleep(pause)
    except ConnectionError:
        pass
    s.close()
    return got


def statuses(got):
    return [int(p[9:12]) for p in got.split(b"\r\n") if p.startswith(b"HTTP/1.")]


def refused(got, *allowed):
    """No status, or one of these; never the page, an answer or a file."""
    assert all(s in allowed for s in statuses(got)), got[:300]
    assert b"root:" not in got and b"<script src=" not in got


def throw(server, text, *allowed):
    s = server.connect()
    try:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    got = drain(s)
    refused(got, *allowed)
    return got


def trickle(server, text, pause=0.1):
    """A byte now and then, for as long as the server takes them."""
    s = server.connect()
    until = time.time() + GUARD
    try:
        for byte in text:
            s.sendall(bytes([byte]))
            time.sleep(pause)
            assert time.time() < until, "the connection is not closed"
    except ConnectionError:
        pass
    refused(drain(s), 400, 408)


def slow_line(server):
    trickle(server, b"GET /" + b"a" * 100000)


def slow_headers(server):
    trickle(server, f"GET / HTTP/1.1\r\nHost: {server.own}\r\n".encode() +
            b"X-A: b\r\n" * 10000)


def slow_body(server):
    trickle(server, b"x" * 10000 if random.random() < 0.1 else
            server.head(more="Content-Length: 100000\r\n") + b"x" * 99999, 0.02)


def slow_chunks(server):
    trickle(server, server.head(more="Transfer-Encoding: chunked\r\n") +
            b"1\r\nx\r\n" * 10000, 0.02)


def slow_second(server):
    """Proper at first."""
    body = b"12"
    first = server.head(more="Content-Length: 2\r\n") + body
    s = server.connect()
    s.sendall(first)
    got = s.recv(65536)
    assert got.startswith(b"HTTP/1.1 200"), got
    try:
        for byte in b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 10000:
            s.sendall(bytes([byte]))
            time.sleep(0.1)
    except ConnectionError:
        pass
    drain(s)


def slow_reader(server):
    """By the time it reads on, there is nothing left to read."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(GUARD)
    s.connect(("127.0.0.1", server.port))
    s.sendall(server.head("bytes", "Content-Length: 7\r\n") + b"1000000")
    got = b""
    until = time.time() + 9
    while time.time() < until:
        try:
            got += s.recv(100)
        except ConnectionError:
            break
        time.sleep(0.02)
    got += drain(s)
    assert len(got) < 1000000


def no_reader(server):
    s = server.connect()
    s.sendall(server.head("flood", "Content-Length: 2\r\n") + b"{}")
    time.sleep(4)
    drain(s)


def long_body(server):
    throw(server, server.head(more="Content-Length: 2000000\r\n") +
          b"x" * 2000000, 413)
    got = throw(server, server.head(more="Content-Length: 9999999999\r\n"), 413)
    assert b"1 MiB" in got
    throw(server, server.head(
        more="Content-Length: 18446744073709551617\r\n"), 400, 413)


def endless_body(server):
    s = server.connect()
    s.sendall(server.head(more="Transfer-Encoding: chunked\r\n"))
    sent = 0
    try:
        while sent < 1 << 28:
            s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent += 65536
    except ConnectionError:
        pass
    assert sent < 1 << 28
    refused(drain(s), 413)


def long_headers(server):
    host = f"Host: {server.own}\r\n"
    throw(server, f"GET / HTTP/1.1\r\n{host}X: {'a' * 70000}\r\n\r\n".encode(),
          400, 413, 431)
    throw(server, f"GET /{'a' * 70000} HTTP/1.1\r\n{host}\r\n".encode(),
          400, 404, 413, 414, 431)
    many = "".join(f"X-{i}: a\r\n" for i in range(5000))
    throw(server, f"GET / HTTP/1.1\r\n{host}{many}\r\n".encode(), 400, 413, 431)


def bad_chunks(server):
    for body in (b"zz\r\nx\r\n0\r\n\r\n", b"-1\r\nx\r\n", b"5\r\nxx",
                 b"ffffffffffffffffff\r\nx", b"1\r\nxx\r\n0\r\n\r\n"):
        throw(server, server.head(more="Transfer-Encoding: chunked\r\n") + body,
              400, 413)


def bad_lengths(server):
    for length in (b"-1", b"abc", b"1 2", b"0x10", b""):
        more = b"Content-Length: " + length + b"\r\n"
        throw(server, server.head(more=more.decode()) + b"xx", 400, 413, 415)


def garbage(server):
    throw(server, random.randbytes(random.randrange(1, 5000)), 400, 413, 431)
    throw(server, b"\0" * 1000, 400)
    throw(server, b"GET / HTTP/9.9\r\n\r\n", 400, 403, 505)
    throw(server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 508,
          400)  # as TLS begins
    throw(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 403, 505)


def old_versions(server):
    page = b"GET " + server.page().encode()
    throw(server, page + b"\r\n\r\n", 400, 403)
    throw(server, page + b" HTTP/0.9\r\n\r\n", 400, 403, 505)
    throw(server, page + b" HTTP/1.0\r\n\r\n", 400, 403)
    throw(server, page + b" HTTP/1.1\r\n\r\n", 400, 403)


def wrong_hosts(server):
    p = server.port
    for host in ("evil.example", f"evil.example:{p}", "127.0.0.1",
                 f"127.0.0.1:{p ^ 1}", f"localhost.evil.example:{p}",
                 f"127.0.0.1.nip.example:{p}", f"10.0.0.1:{p}", f"[::2]:{p}",
                 f"localhost:{p}x", f"@localhost:{p}", f"localhost:{p}@x",
                 f"0.0.0.0:{p}", f"{socket.gethostname()}:{p}", "[", "[]", ":",
                 f"[::1:{p}", f"localhost:0{p}0", "a" * 5000):
        got = throw(server, f"GET {server.page()} HTTP/1.1\r\nHost: {host}\r\n"
                    f"\r\n".encode(), 400, 403)
        assert statuses(got) and b"lacks the token" not in got, host
    throw(server, f"GET {server.page()} HTTP/1.1\r\nHost: {server.own}\r\n"
          f"Host: evil.example\r\n\r\n".encode(), 400, 403)


def other_sites(server):
    for line in ("Origin: http://evil.example", "Origin: null",
                 f"Origin: https://{server.own}",
                 f"Origin: http://localhost:{server.port}",
                 f"Origin: http://127.0.0.1:{server.port ^ 1}",
                 f"Origin: http://{server.own}.evil.example", "Origin: ",
                 "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
                 f"Origin: http://{server.own}\r\nOrigin: http://evil.example"):
        more = f"Content-Length: 1\r\n{line}\r\n"
        got = throw(server, server.head(more=more) + b"x", 403)
        assert statuses(got) == [403], (line, got)
        assert b"lacks the token" not in got, line


def wrong_tokens(server):
    """Missing, cut short, too long, of another kind, or in another place."""
    right = server.token
    changed = ("0" if right[0] != "0" else "1") + right[1:]
    wrong = ["", right[:-1], right[:1], right + "0", right[1:], changed, right[::-1],
             "%" + right, "x" * len(right), "x" * 4000]
    host = f"Host: {server.own}\r\n"
    paths = ["/", "/?", "/?token", "/?Token=" + right, "/?x=token=" + right]
    for path in paths + ["/?token=" + t for t in wrong]:
        got = throw(server, f"GET {path} HTTP/1.1\r\n{host}\r\n".encode(), 403)
        assert b"open the whole address" in got, path
    lines = ["", f"Cookie: token={right}\r\n", f"Authorization: {right}\r\n",
             f"Authorization: Basic {right}\r\n"]
    lines += [f"Authorization: Bearer {t}\r\n" for t in wrong]
    for line in lines:
        got = throw(server, f"POST /api/echo?token={right} HTTP/1.1\r\n{host}"
                    f"Content-Type: application/json\r\nContent-Length: 1\r\n"
                    f"{line}\r\nx".encode(), 403)
        assert b"open the whole address" in got, line
    twice = f"GET {server.page()}&token={right} HTTP/1.1\r\n{host}\r\n"
    assert statuses(throw(server, twice.encode(), 403))
    twice = f"Content-Length: 1\r\nAuthorization: Bearer {right}\r\n"
    assert statuses(throw(server, server.head(more=twice) + b"x", 403))


def other_places(server):
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
                 "/page.js/../../../../etc/passwd", "/..%2f..%2fetc%2fpasswd",
                 "/page.js%00.html", "/page%2ejs", "/api/", "/api/../page.js",
                 "/api/echo/", "/api/nothing", "/api/" + "a" * 200, "/.git/config",
                 "/page.html", "file:///etc/passwd", "/api/ech%6f", "/~root"):
        got = throw(server, f"GET {path} HTTP/1.1\r\nHost: {server.own}\r\n"
                    f"\r\n".encode(), 400, 404, 405)
        assert statuses(got), path


def other_methods(server):
    for method in ("OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "get"):
        for path in ("/", "/api/echo"):
            got = throw(server, f"{method} {path} HTTP/1.1\r\nHost: {server.own}"
                        f"\r\nContent-Length: 0\r\n\r\n".encode(), 405)
            assert b"\r\nAllow: " in got and b"Access-Control" not in got
            assert json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]
    for kind in ("text/plain", "application/jsonx", "", "multipart/form-data"):
        got = throw(server, f"POST /api/echo HTTP/1.1\r\nHost: {server.own}\r\n"
                    f"Content-Type: {kind}\r\nContent-Length: 1\r\n\r\nx".encode(),
                    415)
        assert statuses(got) == [415], kind


def leave_request(server):
    whole = server.head(more="Content-Length: 50000\r\n") + b"x" * 50000
    s = server.connect()
    s.sendall(whole[:random.randrange(len(whole))])
    s.close()
    s = server.connect()  # as a killed process does: with a reset
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.sendall(whole[:300])
    s.close()
    time.sleep(0.02)


def leave_answer(server):
    s = server.connect()
    s.sendall(server.head("bytes", "Content-Length: 7\r\n") + b"4000000")
    s.recv(random.choice([1, 1000, 100000]))
    s.close()
    s = server.connect()
    s.sendall(server.head("slow", "Content-Length: 0\r\n"))
    s.close()
    time.sleep(0.5)


def leave_stream(server):
    s = server.connect()
    s.sendall(server.head("endless", "Content-Length: 2\r\n") + b"{}")
    assert s.recv(1000).startswith(b"HTTP/1.1 ")
    time.sleep(random.random() / 5)
    s.close()
    time.sleep(0.3)


def crowd(server):
    """Many that say nothing; each is closed, though none asks to be."""
    many = [server.connect() for _ in range(400)]
    for s in many:
        assert drain(s) == b""


IMPROPER = [slow_line, slow_headers, slow_headers, slow_body, slow_body,
            slow_chunks, slow_second, slow_reader, wrong_tokens, no_reader,
            long_body, endless_body, long_headers, bad_chunks, bad_lengths,
            garbage, old_versions, wrong_hosts, other_sites, other_places,
            other_methods, leave_request, leave_answer, leave_stream, crowd]
