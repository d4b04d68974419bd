"""The pages of docs/book, looked at as a reader would.

  book_pages.py links FOLDER TOPICS    links of the sources; TOPICS: a file of names
  book_pages.py built FOLDER           links of the built pages
  book_pages.py commands FOLDER WORK   runs what the pages run, a folder a page
                [PAGE...]              of these alone

Tables with a column "command" are answers: each row has a command, which must succeed, and what
the row's "answer" has between back quotes must be in what the command prints.

A ```c NAME block is a file of that name. In a ```console block a line "$ COMMAND"
is run, and what follows is what it prints: "..." within a line is anything, as a
line of its own any number of lines. Exits with 1 after a line for each fault.
"""
import html.parser
import os
import re
import subprocess
import sys

faults = 0


def fault(where, what):
    global faults
    faults += 1
    print(f"{where}: {what}")


def pages(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".md"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                yield name, f.read().split("\n")


def blocks(name, lines):
    """(line number, info, content) of fenced blocks, and the prose between."""
    fenced, prose, at = None, [], 0
    for n, line in enumerate(lines, 1):
        if line.startswith("```"):
            if fenced is None:
                fenced, info, at = [], line[3:].strip(), n
            else:
                yield at, info, fenced
                fenced = None
        elif fenced is not None:
            fenced.append(line)
        else:
            prose.append((n, line))
    if fenced is not None:
        fault(f"{name}:{at}", "a fenced block without an end")
    yield 0, "prose", prose


def anchor(heading):
    return re.sub(r"[`*().,:;?!'\"/]", "", heading.lower()).replace(" ", "-")


def anchors(path):
    with open(path, encoding="utf-8") as f:
        return {anchor(h) for h in re.findall(r"^#+ (.*)$", f.read(), re.M)}


def check_link(folder, where, link, topics, linked):
    path, _, mark = link.partition("#")
    if re.match(r"https?:", link):
        return
    if path.startswith("study/"):
        topic = path.split("/")[1]
        linked.add(topic)
        if topic not in topics:
            fault(where, f"{link}: there is no study {topic}")
        return
    target = os.path.join(folder, path) if path else where.split(":")[0]
    if not os.path.exists(target):
        fault(where, f"{link} is not there")
    elif mark and target.endswith(".md") and mark not in anchors(target):
        fault(where, f"{link}: no heading of that name")


def check_links(folder, topics_file):
    with open(topics_file, encoding="utf-8") as f:
        topics = f.read().split()
    linked = set()
    for name, lines in pages(folder):
        path = os.path.join(folder, name)
        if not lines[0].startswith("# "):
            fault(f"{path}:1", "a page opens with its title")
        for _, info, content in blocks(path, lines):
            for n, line in content if info == "prose" else []:
                for link in re.findall(r"\]\(([^)]*)\)", re.sub(r"`[^`]*`", "", line)):
                    check_link(folder, f"{path}:{n}", link, topics, linked)
    for topic in topics:
        if topic not in linked:
            fault(folder, f"no page links to study/{topic}/index.html")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path, self.open = path, []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)
        if tag == "script":
            fault(self.path, "a script")
        for key, value in attributes:
            if key not in ("href", "src") or re.match(r"https?:|#", value):
                continue
            if not os.path.exists(os.path.join(os.path.dirname(self.path),
                                               value.split("#")[0])):
                fault(self.path, f"{value} is not there")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            fault(self.path, f"line {self.getpos()[0]}: </{tag}> ends nothing")


def check_built(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".html"):
            page = Page(os.path.join(folder, name))
            with open(page.path, encoding="utf-8") as f:
                page.feed(f.read())
            if page.open:
                fault(page.path, f"{page.open} are not ended")


def pattern(lines):
    """Of what a command prints, its last line end included."""
    out = ""
    for line in lines:
        if line == "...":
            out += r"(?:[^\n]*\n)*"
        else:
            out += "[^\n]*".join(re.escape(p) for p in line.split("...")) + r" *\n"
    return re.compile(out)


def run_command(where, command, wanted, folder):
    try:
        done = subprocess.run(["bash", "-c", command], cwd=folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)
        got = done.stdout
    except subprocess.TimeoutExpired:
        got = "(two minutes were not enough)\n"
    if got and not got.endswith("\n"):
        got += "\n"
    if not pattern(wanted).fullmatch(got):
        fault(where, f"$ {command}\ndoes not print what the page says, but\n{got}")


def run_console(path, at, content, folder):
    command, start, wanted = None, 0, []
    for n, line in enumerate(content + ["$ "], at + 1):
        if line.startswith("$ "):
            if command:
                run_command(f"{path}:{start}", command, wanted, folder)
            command, start, wanted = line[2:], n, []
        elif command and command.endswith("\\"):
            command = command[:-1] + line.lstrip("> ")
        else:
            wanted.append(line)


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


def cells_of(line):
    return [c.strip() for c in line.strip().strip("|").split("|")]


def run_answer(where, command, place, done):
    """What a command prints, on one line of single spaces; None: it fails."""
    if command not in done:
        try:
            run = subprocess.run(["bash", "-c", command], cwd=place, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=120)
            done[command] = None if run.returncode else " ".join(run.stdout.split())
            if run.returncode:
                fault(where, f"$ {command}\nfails: {run.stdout[-2000:]}")
        except subprocess.TimeoutExpired:
            done[command] = None
            fault(where, f"$ {command}\ntook two minutes")
    return done[command]


def check_answers(name, lines, place):
    """Rows of the tables that have a column of commands."""
    columns, done = None, {}
    for n, line in enumerate(lines, 1):
        where = f"{name}:{n}"
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = cells_of(line)
        elif "command" in columns and not line.startswith("|---"):
            row = dict(zip(columns, cells_of(line)))
            if len(cells_of(line)) != len(columns) or len(spans(row["command"])) != 1:
                fault(where, "a row has a cell for each column, and one command")
                continue
            if not re.search(r"\w", row["answer"]):
                fault(where, "no answer")
            output = run_answer(where, spans(row["command"])[0], place, done)
            for span in spans(row["answer"]) if output is not None else []:
                words = re.escape(" ".join(span.split()))
                if not re.search(r"(?<![\w.])" + words + r"(?![\w]|\.\d)", output):
                    fault(where, f"$ {spans(row['command'])[0]}\ndoes not print {span}")


def run_commands(folder, work, only):
    for name, lines in pages(folder):
        if only and name not in only:
            continue
        place = os.path.join(work, name[:-3])
        os.makedirs(place, exist_ok=True)
        check_answers(os.path.join(folder, name), lines, place)
        for at, info, content in blocks(name, lines):
            kind = info.split()
            if kind[:1] == ["c"]:
                if len(kind) != 2:
                    fault(f"{name}:{at}", "```c without the name of its file")
                    continue
                with open(os.path.join(place, kind[1]), "w", encoding="utf-8") as f:
                    f.write("\n".join(content) + "\n")
            elif kind == ["console"]:
                run_console(os.path.join(folder, name), at, content, place)


if sys.argv[1] == "links":
    check_links(sys.argv[2], sys.argv[3])
elif sys.argv[1] == "built":
    check_built(sys.argv[2])
else:
    run_commands(sys.argv[2], sys.argv[3], sys.argv[4:])
sys.exit(faults > 0)
