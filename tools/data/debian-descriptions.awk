# The index of packages to pairs, in two steps; between them a shell sorts the
# pairs and hashes the names of their sources:
#   awk -f debian-descriptions.awk -v step=pairs -v folder=DIR PACKAGES TRANSLATIONS
#     prints package, source, description, synopsis, with tabs between, the texts
#     as JSON has them; makes in DIR a file for each source, which holds its name
#   awk -f debian-descriptions.awk -v step=split -v folder=DIR SHA1SUMS PAIRS
#     writes DIR/train.jsonl, valid, test and near; prints a line about each

BEGIN { FS = "\t" }

# ---- entries of an index --------------------------------------------------------

step == "pairs" && /^$/ { end_entry(); next }
step == "pairs" && /^[ \t]/ {
  if (taking) line[++lines] = $0
  next
}
step == "pairs" {
  taking = 0
  if (/^Package: /) package = substr($0, 10)
  else if (/^Source: /) { source = substr($0, 9); sub(/ .*/, "", source) }
  else if (/^Description-en: /) {
    synopsis = trim(substr($0, 17))
    taking = 1
  }
}

# A package that several archives have counts once, and so does what is said again.
function end_entry(  description, said, shown) {
  if (package !~ /^[A-Za-z0-9][A-Za-z0-9.+-]*$/) package = ""
  if (source !~ /^[A-Za-z0-9][A-Za-z0-9.+-]*$/) source = package
  if (package != "" && synopsis == "") {
    if (!(package in source_of)) source_of[package] = source
  } else if (package != "" && !(package in had)) {
    had[package] = 1
    description = unwrapped()
    said = tolower(synopsis)
    shown = tolower(description)
    gsub(/[ \n]+/, " ", shown)
    if (!(said in synopses) && !(shown in descriptions)) {
      synopses[said] = descriptions[shown] = 1
      put_pair(description)
    }
  }
  package = source = synopsis = ""
  lines = taking = 0
}

function put_pair(description,  n, from, file) {
  n = words(description)
  if (n < 25 || n > 200) return
  n = words(synopsis)
  if (n < 3 || n > 15) return
  # what is built for other machines alone has no entry in this one's Packages
  from = package in source_of ? source_of[package] : package
  if (!(from in sources)) {
    sources[from] = 1
    file = folder "/" from
    printf "%s", from >file
    close(file)
  }
  print package, from, quoted(description), quoted(synopsis)
}

# ---- descriptions ---------------------------------------------------------------

# " ." ends a paragraph. Its lines are joined, unless one of them begins with two
# spaces, which says that lines are to stay as they are: lists, tables, commands.
function unwrapped(  i, text, part, kept) {
  for (i = 1; i <= lines + 1; i++) {
    if (i <= lines && trim(line[i]) != ".") {
      kept = kept || line[i] ~ /^[ \t][ \t]/
      part = part (part == "" ? "" : "\n") trim(line[i])
      continue
    }
    if (!kept) gsub(/[ \n]+/, " ", part)
    if (part != "") text = text (text == "" ? "" : "\n\n") part
    part = kept = ""
  }
  return text
}

# A space that is thin, or does not break, is a space.
function trim(s) {
  gsub(/\302\240|\342\200[\200-\212]|\t/, " ", s)
  gsub(/^ +| +$/, "", s)
  return s
}

function words(s,  w) { return split(s, w, /[ \n]+/) }

function quoted(s) {
  gsub(/[\001-\011\013-\037]/, "", s)
  gsub(/\\/, "&&", s)
  gsub(/"/, "\\\"", s)
  gsub(/\n/, "\\n", s)
  return "\"" s "\""
}

# ---- train, valid and test ------------------------------------------------------

# "da39.. ./name": the number that 40 digits of sixteen are, modulo 100.
step == "split" && FNR == NR {
  n = 0
  for (i = 1; i <= 40; i++)
    n = (16 * n + index("0123456789abcdef", substr($0, i, 1)) - 1) % 100
  file_of[substr($0, 45)] = n < 90 ? "train" : n < 95 ? "valid" : "test"
  next
}
step == "split" {
  pair[++pairs] = $0
  sent[pairs] = file_of[$2]
}

# What of a document must not be seen before a test: it all, and long paragraphs,
# in letters alone.
function marks(document,  n, i, k, p) {
  for (k in mark) delete mark[k]
  n = split(substr(document, 2, length(document) - 2), p, /(\\n)(\\n)+/)
  mark[letters(document)] = 1
  for (i = 1; i <= n; i++) if (words(letters(p[i])) >= 25) mark[letters(p[i])] = 1
}

function letters(s) {
  gsub(/\\n/, " ", s)
  s = tolower(s)
  gsub(/[^a-z]+/, " ", s)
  return trim(s)
}

# The files in the order in which they may keep a text to themselves.
function send(file,  i, k, near, f) {
  for (i = 1; i <= pairs; i++) {
    if (sent[i] != file) continue
    split(pair[i], f, "\t")
    marks(f[3])
    near = 0
    for (k in mark) near = near || (k in held && held[k] != file)
    if (near) sent[i] = "near"
    else if (file != "train") for (k in mark) held[k] = file
  }
}

function write(file,  i, f, name, n, sources, count, long, short) {
  name = folder "/" file ".jsonl"
  for (i = 1; i <= pairs; i++) {
    if (sent[i] != file) continue
    split(pair[i], f, "\t")
    print "{\"package\": \"" f[1] "\", \"source\": \"" f[2] "\", \"document\": " f[3] \
      ", \"summary\": " f[4] "}" >name
    n++
    if (!(f[2] in sources)) { sources[f[2]] = 1; count++ }
    gsub(/\\n/, " ", f[3])
    long += words(f[3])
    short += words(f[4])
  }
  close(name)
  printf "%-6s %7d %8d %15.1f %13.1f\n", file, n, count, n ? long / n : 0,
    n ? short / n : 0
}

BEGIN { OFS = "\t" }
END {
  if (step == "pairs") end_entry()
  else {
    send("test")
    send("valid")
    send("train")
    write("train")
    write("valid")
    write("test")
    write("near")
  }
}
