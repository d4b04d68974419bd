# A page of docs/book as HTML: awk -f book.awk -v root=PATH -v formulas=FILE PAGE.md
# root is the way from the page's folder to the sources' top folder; FILE has the lines of the
# page's formulas as MathML, in their order.
#
# The part of Markdown that the pages keep to: # headings; paragraphs; lists of
# "- " or "1. " items, whose further lines are indented; fenced blocks, formulas where they
# have no name; tables; a
# line that is nothing but an image is a figure; and in lines `code`, **bold**,
# [text](link). A link to PAGE.md becomes one to PAGE.html, ../../FILE leads to the
# sources.

function escape(s) {
  gsub(/&/, "\\&amp;", s)
  gsub(/</, "\\&lt;", s)
  gsub(/>/, "\\&gt;", s)
  gsub(/"/, "\\&quot;", s)
  return s
}

function address(s) {
  if (s ~ /^[a-z-]+\.md(#|$)/) sub(/\.md/, ".html", s)
  else if (s ~ /^\.\.\/\.\.\//) s = root substr(s, 6)
  else if (s ~ /^\.\.\//) s = root "/docs" substr(s, 3)
  return escape(s)
}

# The first of `code`, **bold** and [text](link), then what follows it.
function line(s,    before, what, to) {
  if (!match(s, /`[^`]+`|\*\*[^*]+\*\*|\[[^]]*\]\([^)]*\)/)) return escape(s)
  before = escape(substr(s, 1, RSTART - 1))
  what = substr(s, RSTART, RLENGTH)
  s = substr(s, RSTART + RLENGTH)
  if (what ~ /^`/)
    what = "<code>" escape(substr(what, 2, length(what) - 2)) "</code>"
  else if (what ~ /^\*/)
    what = "<strong>" line(substr(what, 3, length(what) - 4)) "</strong>"
  else {
    to = what
    sub(/^.*\]\(/, "", to)
    sub(/\]\([^)]*\)$/, "", what)
    what = "<a href=\"" address(substr(to, 1, length(to) - 1)) "\">" \
           line(substr(what, 2)) "</a>"
  }
  return before what line(s)
}

# As the forges name headings: small letters, spaces as dashes.
function anchor(s) {
  s = tolower(s)
  gsub(/[`*().,:;?!'"\/]/, "", s)
  gsub(/ /, "-", s)
  return s
}

# ---- blocks: what is open is ended before another begins -------------------------
function end_block() {
  if (text != "") print open_tag line(text) close_tag
  text = ""
  if (list != "") print "</" list ">"
  list = ""
  if (table) print "</tbody></table></div>"
  table = 0
}

function begin(opens, closes, s) {
  if (text != "") print open_tag line(text) close_tag
  open_tag = opens
  close_tag = closes
  text = s
}

function item(kind, s) {
  if (list != kind) {
    end_block()
    print "<" kind ">"
    list = kind
  }
  begin("<li>", "</li>", s)
}

function row(s, cell,    n, i, part) {
  gsub(/\\\|/, "\001", s)
  sub(/^\| */, "", s)
  sub(/ *\|$/, "", s)
  n = split(s, part, / *\| */)
  printf "<tr>"
  for (i = 1; i <= n; i++) {
    gsub(/\001/, "|", part[i])
    printf "<%s>%s</%s>", cell, line(part[i]), cell
  }
  print "</tr>"
}

function figure(s,    alt, src, study) {
  alt = src = s
  sub(/^!\[/, "", alt)
  sub(/\]\(.*/, "", alt)
  sub(/^.*\]\(/, "", src)
  src = address(substr(src, 1, length(src) - 1))
  study = src
  if (src ~ /^study\//) sub(/[^\/]*$/, "index.html", study)
  print "<figure><a href=\"" study "\"><img src=\"" src "\" alt=\"" \
        escape(alt) "\"></a><figcaption>" line(alt) "</figcaption></figure>"
}

function fence(s,    name) {
  end_block()
  sub(/^``` */, "", s)
  name = s
  if (!sub(/^[a-z]+ +/, "", name)) name = ""
  sub(/ .*/, "", s)
  formula = s == ""
  if (formula) {
    print "<div class=\"formula\">"
    fenced = 1
    return
  }
  if (name != "") print "<p class=\"file\">" escape(name) "</p>"
  printf "<pre%s>", s != "" ? " class=\"" s "\"" : ""
  fenced = 1
  goes_on = 0
}

fenced && /^```/ { print formula ? "</div>" : "</pre>"; fenced = 0; next }
fenced && formula {
  if ((getline mathml < formulas) > 0) print mathml
  next
}
fenced && (/^\$ / || goes_on) { # a command, and its lines after a backslash
  print "<b>" escape($0) "</b>"
  goes_on = /\\$/
  next
}
fenced { print escape($0); next }
/^```/ { fence($0); next }
/^$/ { end_block(); next }
/^#+ / {
  end_block()
  level = index($0, " ") - 1
  $0 = substr($0, level + 2)
  printf "<h%d id=\"%s\">%s</h%d>\n", level, anchor($0), line($0), level
  next
}
/^!\[.*\)$/ { end_block(); figure($0); next }
/^\|[-:| ]*\|$/ { next } # under a table's head
/^\|/ && !table {
  end_block()
  print "<div class=\"wide\"><table><thead>"
  row($0, "th")
  print "</thead><tbody>"
  table = 1
  next
}
/^\|/ { row($0, "td"); next }
/^- / { item("ul", substr($0, 3)); next }
/^[0-9]+\. / { sub(/^[0-9]+\. */, ""); item("ol", $0); next }
{
  sub(/^ +/, "")
  if (text == "") begin("<p>", "</p>", $0)
  else text = text "\n" $0
}
END { end_block() }
