# One book, as plain text, to documents: awk -f gutenberg.awk -v book=NAME
#   -v train=FILE -v valid=FILE BOOK
# Appends to the two files; prints the number of documents and bytes of each.
#
# A block is what stands between empty lines. Headings start documents; what
# stands before the first is a title page and goes. Lines of a paragraph are
# joined; verse keeps its lines. The last fiftieth of a prose book, by whole
# paragraphs, is held out.

BEGIN {
  prose = book !~ /^(blake|milton|whitman|shakespeare)/
  style = book ~ /^bible/ ? "bible" : book ~ /^milton/ ? "milton" : \
          book ~ /^whitman/ ? "whitman" : book ~ /^shakespeare/ ? "play" : \
          "blocks"
  # 1 Chronicles 1 to 9 and their like: lists of names
  lists = " 4:1 4:2 4:7 4:26 4:33 6:12 6:15 6:18 6:19 6:21 13:1 13:2 13:3 13:4" \
          " 13:5 13:6 13:7 13:8 13:9 13:23 13:24 13:25 13:26 13:27 15:2 16:7" \
          " 16:11 16:12 "
  # plays among the stories
  skipped["ETON MONTEM."] = skipped["OLD POZ."] = 1
  small = " a an and as at but by for from in of on or the to with "
}

# ---- documents ------------------------------------------------------------------

# What has nothing below its title is no document.
function start(title) {
  if (docs && bodies == 0) while (paras && of[paras] == docs) paras--
  docs++
  bodies = 0
  open = 1
  if (title != "") put_title(title)
}

function put_title(s) {
  text[++paras] = s
  of[paras] = docs
  is_title[paras] = 1
}

function put(s) {
  if (!open || s == "") return
  text[++paras] = s
  of[paras] = docs
  is_title[paras] = 0
  bodies++
}

# ---- words ----------------------------------------------------------------------

function tidy(s) {
  gsub(/[_=*]+/, "", s)
  sub(/^>/, "", s) # what mail puts before From
  gsub(/[ \t]+/, " ", s)
  sub(/^ /, "", s)
  sub(/ $/, "", s)
  return s
}

function capital(s,  i) {
  i = match(s, /[A-Za-z]/)
  return substr(s, 1, i - 1) toupper(substr(s, i, 1)) substr(s, i + 1)
}

# The letters of a word, between what stands around them.
function core(w) {
  gsub(/^[^A-Za-z]+|[^A-Za-z]+$/, "", w)
  return w
}

function ends_sentence(w) {
  return w ~ /[.?!]["')]*$/ && w !~ /^(Mr|Mrs|Dr|St|M)\.$/
}

# How words are written where neither a sentence's start nor emphasis, which is
# in capitals, decides: usual["brown"] is "Brown" in a book about Father Brown.
function count_words(  i, k, n, w, c, starts, times, l, top) {
  for (i = 1; i <= paras; i++) {
    if (is_title[i]) continue
    n = split(text[i], w, /[ \n]+/)
    starts = 1
    for (k = 1; k <= n; k++) {
      c = core(w[k])
      if (!starts && c != "" && !is_loud(c)) times[c]++
      starts = ends_sentence(w[k]) || w[k] ~ /^["'(]/
    }
  }
  for (c in times) {
    l = tolower(c)
    if (times[c] > top[l] || (times[c] == top[l] && c > usual[l])) {
      top[l] = times[c]
      usual[l] = c
    }
  }
}

function is_loud(c) {
  return length(c) > 1 && c ~ /^[A-Z][A-Z'-]*$/ && c !~ /^[IVXLC]+$/
}

# A word in capitals as it is usually written; one that is never, as a name.
function quiet(w,  c, l, at) {
  c = core(w)
  l = tolower(c)
  at = index(w, c)
  l = l in usual ? usual[l] : capital(l)
  return substr(w, 1, at - 1) l substr(w, at + length(c))
}

# Capitals for emphasis, in headings and on signs: "he was VERY tired".
function calm(s,  n, i, w, out, starts) {
  n = split(s, w, " ")
  starts = 1
  for (i = 1; i <= n; i++) {
    if (is_loud(core(w[i]))) {
      w[i] = quiet(w[i])
      if (starts) w[i] = capital(w[i])
    }
    starts = ends_sentence(w[i])
    out = out (i > 1 ? " " : "") w[i]
  }
  return out
}

# THE LITTLE RED HEN: The Little Red Hen
function title_case(s,  n, i, w, l, out) {
  sub(/\.$/, "", s)
  if (s ~ /[a-z]/ && s !~ /; or /) return s
  n = split(s, w, " ")
  for (i = 1; i <= n; i++) {
    l = tolower(w[i])
    if (w[i] !~ /^[IVXLC]+$/) w[i] = quiet(w[i])
    if (i == 1 || index(small, " " l " ") == 0 || w[i - 1] ~ /[;:]$/)
      w[i] = capital(w[i])
    else
      w[i] = l
    out = out (i > 1 ? " " : "") w[i]
  }
  return out
}

function calm_all(  i, k, n, l, s) {
  count_words()
  for (i = 1; i <= paras; i++) {
    if (is_title[i]) { text[i] = title_case(text[i]); continue }
    n = split(text[i], l, "\n")
    s = ""
    for (k = 1; k <= n; k++)
      s = s (k > 1 ? "\n" : "") (book ~ /^bible/ && l[k] ~ /[a-z]/ ? l[k] : calm(l[k]))
    text[i] = s
  }
}

# ---- blocks ---------------------------------------------------------------------

function indent(s) { match(s, /^ */); return RLENGTH }

function starts_high(s) { return s ~ /^ *["'(]*[A-Z]/ }

# Indented, or not filled, and beginning as lines of verse do.
function is_verse(  i, high, least, full) {
  if (n < 2) return 0
  least = 99
  for (i = 1; i <= n; i++) {
    high += starts_high(line[i])
    if (indent(line[i]) < least) least = indent(line[i])
    if (i < n && length(line[i]) - indent(line[i]) > 52) full = 1
  }
  if (least >= 2) return 5 * high >= 4 * n
  return book ~ /^(melville|chesterton-thursday)/ && high == n && !full
}

# A word that the line's end cuts at its hyphen, or a dash, takes no space.
function joined(  i, s) {
  for (i = 1; i <= n; i++) s = s (s == "" || s ~ /-$/ ? "" : " ") tidy(line[i])
  gsub(/[][]/, "", s)
  return s
}

function lines(  i, s, t) {
  for (i = 1; i <= n; i++) {
    t = tidy(line[i])
    if (t != "") s = s (s == "" ? "" : "\n") t
  }
  return s
}

# Whether the block is a heading; its title, or that it comes next.
function is_heading(  s) {
  s = tidy(line[1])
  title = ""
  if (n > 1) return 0
  if (book ~ /^(austen|chesterton-thursday|melville)/ &&
      s ~ /^(VOLUME|CHAPTER|Chapter) [IVXL0-9]+$/) {
    wanted = book !~ /^austen/
    return 1
  }
  if (s == "Epilogue") { title = s; return 1 }
  if (book ~ /^burgess/ && s ~ /^[IVXL]+$/) return wanted = 1
  if (book ~ /^carroll/ && s ~ /^CHAPTER [IVXL]+/) {
    title = s
    sub(/^CHAPTER [IVXL]+\.? ?/, "", title)
    wanted = title == ""
    return 1
  }
  if (book ~ /^chesterton-b/ && gap > 1 && s ~ /^[IVXL]+\. /) {
    title = s
    sub(/^[IVXL]+\. /, "", title)
    return 1
  }
  if (book ~ /^edgeworth/ && s ~ /^CHAPTER [IVXL]+\.?$/) return 1
  if (book ~ /^(edgeworth|bryant|blake)/ && indent(line[1]) < 2 &&
      gap > (book !~ /^blake/) &&
      s ~ /^[A-Z][A-Z ']/ && s !~ /[a-z]/ && s !~ /^([IVX]+\.?|THEL)$/ ||
      s ~ /^WASTE NOT, WANT NOT; or/) {
    title = s
    return 1
  }
  if (s ~ /^THE BOOK of THEL$/) { title = toupper(s); return 1 }
  return 0
}

# Notes of editors, pictures, lines of stars, ends; footnotes.
function is_dropped(  s) {
  s = line[1]
  sub(/^ +/, "", s)
  if (noted && gap > 1) noted = 0
  if (noted) return 1
  if (s ~ /^(\* *)+$/ || s ~ /^_+$/) return 1
  if (s ~ /^\*/) {
    noted = book ~ /^melville/ # to the next wide gap
    return 1
  }
  if (s ~ /^\[(Illustration|At this point)/) return 1
  if (s ~ /^\[/ && book ~ /^edgeworth/) return 1
  return s ~ /^(FINIS|Finis|THE END|SACRED$|NOTE:|APPENDIX|William Blake's|The Author &)/
}

# What is no text of its own inside a block.
function mend(  i, k) {
  for (i = k = 1; i <= n; i++) {
    if (line[i] ~ /\[later editions/ || line[i] ~ /^ *_+$/) continue
    if (book ~ /^carroll/) gsub(/[][]/, "", line[i])
    line[k++] = line[i]
  }
  n = k - 1
}

function put_heading() {
  if (skipping && title ~ /^(SCENE|ACT|MEN|WOMEN)/) return
  skipping = title in skipped
  if (skipping) { open = 0; return }
  if (title == "" && docs && !bodies) return # a chapter below a story's title
  start(title)
}

function put_block() {
  if (is_dropped()) return
  if (is_heading()) { put_heading(); return }
  if (skipping) return
  mend()
  if (!n) return
  if (wanted) {
    wanted = 0
    put_title(joined())
    return
  }
  if (book ~ /^blake/ && n == 1 && tidy(line[1]) ~ /^([IVX]+\.?|THEL|THEL'S Motto)$/)
    return
  put(book ~ /^blake/ || is_verse() ? lines() : joined())
}

# ---- books of their own ---------------------------------------------------------

# Verses: "1:2 And ..", also in the middle of a block. A block without any is
# a book's title if 1:1 follows, and else goes on with the verse before it.
function put_bible(  s, i, mark, chapter) {
  s = joined_plain()
  if (s !~ /^[0-9]+:[0-9]+ / && !match(s, /[0-9]+:[0-9]+ /)) {
    held = held (held == "" ? "" : " ") s
    return
  }
  if (s ~ /^1:1 /) held = ""
  if (held != "") { verse = verse " " held; held = "" }
  while (match(s, /[0-9]+:[0-9]+ /)) {
    mark = substr(s, RSTART, RLENGTH)
    verse = verse (verse == "" ? "" : " ") substr(s, 1, RSTART - 1)
    s = substr(s, RSTART + RLENGTH)
    put_verse()
    chapter = mark
    sub(/:.*/, "", chapter)
    if (mark == "1:1 ") books++
    if (chapter != last || mark == "1:1 ") {
      end_chapter()
      last = chapter
      place = books ":" chapter
    }
  }
  verse = s
}

function joined_plain(  i, s) {
  for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") tidy(line[i])
  return s
}

function put_verse() {
  verse = tidy(verse)
  if (verse != "") chapter_text = chapter_text (chapter_text == "" ? "" : "\n") verse
  verse = ""
}

function end_chapter() {
  if (chapter_text != "" && index(lists, " " place " ") == 0) {
    start("")
    put(chapter_text)
  }
  chapter_text = ""
}

# Lines that were too long go on, indented.
function put_whitman(  i, k, t) {
  if (line[1] ~ /^\}/) {
    t = line[1]
    sub(/^\} */, "", t)
    sub(/^\[[IVX]+\] */, "", t)
    sub(/ *\[.*\]$/, "", t)
    start(tidy(t))
    for (i = 2; i <= n; i++) line[i - 1] = line[i]
    n--
  }
  if (!n || line[1] ~ /^\[/) return
  for (i = k = 1; i <= n; i++) {
    t = tidy(line[i])
    if (t ~ /^[0-9]+$/ || t ~ /^\[.*\]$/) continue
    if (line[i] ~ /^    / && k > 1)
      line[k - 1] = line[k - 1] " " t
    else
      line[k++] = t
  }
  n = k - 1
  if (n && line[1] !~ /^\[.*\]$/) put(lines())
}

function put_milton(  i, s, t) {
  if (tidy(line[1]) ~ /^\[/) return
  for (i = 1; i <= n; i++) {
    t = tidy(line[i])
    if (t ~ /^Book [IVX]+$/) {
      put(s)
      s = ""
      start("")
      continue
    }
    if (line[i] ~ /^  / && s != "") { put(s); s = "" }
    s = s (s == "" ? "" : "\n") t
  }
  put(s)
}

function put_play(  i) {
  if (tidy(line[1]) ~ /^(Actus|Scena|Scoena)/) { start(""); return }
  if (tidy(line[1]) ~ /^(FINIS|\[The)/) return
  for (i = 1; i <= n; i++) gsub(/[][]/, "", line[i])
  put(lines())
}

# ---- lines ----------------------------------------------------------------------

function flush() {
  if (!n) return
  if (style == "bible") put_bible()
  else if (style == "whitman") put_whitman()
  else if (style == "milton") put_milton()
  else if (style == "play") put_play()
  else put_block()
  n = gap = 0
}

/^\*\*\* END OF/ { flush(); ended = 1 }
ended { next }
{ sub(/[ \t]+$/, "") }
/^$/ { flush(); gap++; next }
{ line[++n] = $0 }

# ---- the two files --------------------------------------------------------------

function between(i) { return style == "play" ? "\n" : "\n\n" }

function write(from, to, file,  i, s, count) {
  for (i = from; i <= to; i++) {
    s = s text[i]
    if (i < to && of[i + 1] == of[i]) { s = s between(i); continue }
    print s "\n<|endoftext|>" >> file
    count++
    s = ""
  }
  return count
}

END {
  flush()
  if (style == "bible") {
    if (held != "") verse = verse " " held
    put_verse()
    end_chapter()
  }
  start("") # drops a last title without a body
  if (style == "blocks" || style == "bible") calm_all()
  for (i = 1; i <= paras; i++) all += length(text[i])
  kept = all
  for (cut = paras; prose && cut > 0 && (kept > 0.98 * all || is_title[cut]); cut--)
    kept -= length(text[cut]) # a title goes with what it stands above
  print write(1, cut, train) + 0, kept, write(cut + 1, paras, valid) + 0, all - kept
}
