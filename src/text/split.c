/* Pre-tokenizers: where a text is cut before the model sees it.
 *
 * Between the normalizers and the model. Each step takes the spans of the step before
 * and cuts them further; byte-level and metaspace also put marks in, and so write a
 * new text.
 */
#include "text/pattern.h"

typedef struct { /* of one text */
  const attend_tokenizer *t;
  scratch *s;
  view *v;
  int turn; /* spans are read from this one, written to the other */
  size_t count, out;
  int rewrites;
} splitting;

static attend_status put_span(splitting *p, size_t start, size_t end) {
  int to = !p->turn;
  if (start == end) return ATTEND_OK;
  ATTEND_TRY(grow(p->s->ctx, &p->s->spans[to], &p->s->span_capacity[to],
                  p->out + 1, sizeof(span), "words"));
  p->s->spans[to][p->out++] = (span){(uint32_t)start, (uint32_t)end};
  return ATTEND_OK;
}

/* ---- from matches to spans --------------------------------------------------------- */

static attend_status put_cut(splitting *p, size_t *count, size_t start,
                             size_t end, bool match) {
  scratch *s = p->s;
  if (start == end) return ATTEND_OK;
  ATTEND_TRY(grow(p->s->ctx, &s->cuts, &s->cut_capacity, *count + 1,
                  sizeof *s->cuts, "words"));
  s->cuts[(*count)++] = (cut){(uint32_t)start, (uint32_t)end, match};
  return ATTEND_OK;
}

/* Whether cut i joins the one before it. */
static bool joins(const cut *c, size_t i, cut_behaviour how) {
  if (how == CUT_CONTIGUOUS) return c[i].match == c[i - 1].match;
  if (how == CUT_WITH_PREVIOUS) return c[i].match && !c[i - 1].match;
  return false;
}

/* A match goes to what follows it, but of several only the last. */
static attend_status put_with_next(splitting *p, size_t count) {
  const cut *c = p->s->cuts;
  for (size_t i = 0; i < count; i++) {
    bool join = c[i].match && i + 1 < count && !c[i + 1].match;
    ATTEND_TRY(put_span(p, c[i].start, c[i + join].end));
    i += join;
  }
  return ATTEND_OK;
}

static attend_status put_cuts(splitting *p, size_t count, cut_behaviour how,
                              bool invert) {
  const cut *c = p->s->cuts;
  for (size_t i = 0; i < count; i++) p->s->cuts[i].match ^= invert;
  if (how == CUT_WITH_NEXT) return put_with_next(p, count);
  for (size_t i = 0, first; i < count; i++) {
    for (first = i; i + 1 < count && joins(c, i + 1, how);) i++;
    if (how == CUT_REMOVED && c[i].match) continue;
    ATTEND_TRY(put_span(p, c[first].start, c[i].end));
  }
  return ATTEND_OK;
}

/* ---- by characters ------------------------------------------------------------------- */

typedef bool (*char_test)(uint32_t c);

static attend_status cut_chars(splitting *p, span in, char_test test,
                               size_t *count) {
  const char *s = p->v->bytes;
  size_t kept = in.start;
  *count = 0;
  for (size_t i = in.start, n; i < in.end; i += n) {
    uint32_t c;
    n = utf8_next(s + i, in.end - i, &c);
    if (!test(c)) continue;
    ATTEND_TRY(put_cut(p, count, kept, i, false));
    ATTEND_TRY(put_cut(p, count, i, i + n, true));
    kept = i + n;
  }
  return put_cut(p, count, kept, in.end, false);
}

static attend_status split_chars(splitting *p, span in, char_test test,
                                 cut_behaviour how) {
  size_t count;
  ATTEND_TRY(cut_chars(p, in, test, &count));
  return put_cuts(p, count, how, false);
}

/* Spaces go, punctuation stands alone. */
static attend_status split_bert(splitting *p, span in) {
  const char *s = p->v->bytes;
  size_t start = in.start;
  for (size_t i = in.start, n; i < in.end; i += n) {
    uint32_t c;
    n = utf8_next(s + i, in.end - i, &c);
    bool space = is_space(c);
    if (!space && !is_punctuation(c)) continue;
    ATTEND_TRY(put_span(p, start, i));
    if (!space) ATTEND_TRY(put_span(p, i, i + n));
    start = i + n;
  }
  return put_span(p, start, in.end);
}

/* \w+|[^\w\s]+ */
static attend_status split_whitespace(splitting *p, span in) {
  const char *s = p->v->bytes;
  size_t start = in.start;
  int kind = 0;
  for (size_t i = in.start, n; i < in.end; i += n) {
    uint32_t c;
    n = utf8_next(s + i, in.end - i, &c);
    int now = is_space(c) ? 0 : is_word(c) ? 1 : 2;
    if (now == kind) continue;
    if (kind) ATTEND_TRY(put_span(p, start, i));
    start = i;
    kind = now;
  }
  return kind ? put_span(p, start, in.end) : ATTEND_OK;
}

/* ---- by a pattern -------------------------------------------------------------------- */

static attend_status split_gpt2(splitting *p, span in) {
  const char *s = p->v->bytes + in.start;
  size_t n = in.end - in.start;
  for (size_t at = 0, end; at < n; at = end) {
    end = scan_gpt2(s, n, at);
    ATTEND_TRY(put_span(p, in.start + at, in.start + end));
  }
  return ATTEND_OK;
}

static attend_status split_pattern(splitting *p, const step *st, span in) {
  const char *s = p->v->bytes + in.start;
  size_t n = in.end - in.start, at = 0, kept = 0, count = 0;
  while (at <= n) {
    span m;
    bool found;
    ATTEND_TRY(pattern_next(p->s, st->pattern, s, n, at, &m, &found));
    if (!found) break;
    at = m.end;
    if (m.end == m.start) { /* cuts nothing */
      uint32_t c;
      at += at < n ? utf8_next(s + at, n - at, &c) : 1;
      continue;
    }
    ATTEND_TRY(put_cut(p, &count, in.start + kept, in.start + m.start, false));
    ATTEND_TRY(put_cut(p, &count, in.start + m.start, in.start + m.end, true));
    kept = m.end;
  }
  ATTEND_TRY(put_cut(p, &count, in.start + kept, in.end, false));
  return put_cuts(p, count, st->behaviour, st->invert);
}

/* Before each mark that follows something else, and between letters that no
 * piece has side by side: what the model does with the parts is what it does
 * with the whole. */
static attend_status split_at_marks(splitting *p, const step *st, span in) {
  const char *s = p->v->bytes;
  const size_t width = st->text.length;
  size_t start = in.start,
         marks = in.start; /* marks: where a run of them ends */
  unsigned char before = 0x80;
  for (size_t i = in.start, n; i < in.end; i += n) {
    unsigned char c = (unsigned char)s[i];
    bool mark = s[i] == st->text.bytes[0] && in.end - i >= width &&
                !memcmp(s + i, st->text.bytes, width);
    bool apart = !mark && st->joins && (c | before) < 0x80 &&
                 !may_join(st->joins, before, c);
    if (apart || (mark && i != marks)) {
      ATTEND_TRY(put_span(p, start, i));
      start = i;
    }
    n = mark ? width : 1;
    if (mark) marks = i + n;
    before = (unsigned char)s[i + n - 1];
  }
  return put_span(p, start, in.end);
}

/* ---- steps that write a new text ------------------------------------------------------ */

static bool wants_prefix(const splitting *p, const step *st, span in) {
  const view *v = p->v;
  const char *s = v->bytes + in.start;
  size_t n = in.end - in.start;
  if (st->kind == STEP_BYTE_LEVEL) return st->prefix && *s != ' ';
  bool marked = *s == ' ' || (n >= st->text.length &&
                              !memcmp(s, st->text.bytes, st->text.length));
  if (marked || st->prepend == PREPEND_NEVER) return false;
  return st->prepend == PREPEND_ALWAYS || view_from(v, in.start) == 0;
}

static attend_status write_span(splitting *p, const step *st, span in,
                                strand *out) {
  const view *v = p->v;
  bool meta = st->kind == STEP_METASPACE;
  const char *mark = meta ? st->text.bytes : " ";
  size_t width = meta ? st->text.length : 1;
  uint32_t from = view_from(v, in.start);
  if (wants_prefix(p, st, in))
    ATTEND_TRY(strand_put(p->s->ctx, out, mark, width, from, from));
  if (!meta) return strand_copy(p->s->ctx, out, v, in.start, in.end);
  for (size_t i = in.start, end; i < in.end; i = end) {
    const char *space = memchr(v->bytes + i, ' ', in.end - i);
    end = space ? (size_t)(space - v->bytes) : in.end;
    ATTEND_TRY(strand_copy(p->s->ctx, out, v, i, end));
    if (!space) break;
    ATTEND_TRY(strand_put(p->s->ctx, out, mark, width, view_from(v, end),
                          view_to(v, end)));
    end++;
  }
  return ATTEND_OK;
}

/* Writes the spans one behind the other. Two strands take turns, and neither
 * is one of the normalizers': their text may be needed again. */
static attend_status rewrite(splitting *p, const step *st) {
  strand *out = &p->s->text[2 + (p->rewrites++ & 1)];
  const span *in = p->s->spans[p->turn];
  out->length = 0;
  out->most = p->v->length + p->s->room;
  p->out = 0;
  for (size_t i = 0; i < p->count; i++) {
    size_t start = out->length;
    ATTEND_TRY(write_span(p, st, in[i], out));
    ATTEND_TRY(put_span(p, start, out->length));
  }
  *p->v = strand_view(out);
  p->turn = !p->turn;
  p->count = p->out;
  return ATTEND_OK;
}

/* ---- the list -------------------------------------------------------------------------- */

static attend_status split_span(splitting *p, const step *st, span in) {
  switch (st->kind) {
    case STEP_BYTE_LEVEL:
      return st->cut ? split_gpt2(p, in) : put_span(p, in.start, in.end);
    case STEP_WHITESPACE:
      return split_whitespace(p, in);
    case STEP_WHITESPACE_SPLIT:
      return split_chars(p, in, is_space, CUT_REMOVED);
    case STEP_BERT_SPLIT:
      return split_bert(p, in);
    case STEP_DIGITS:
      return split_chars(p, in, is_number,
                         st->each ? CUT_ISOLATED : CUT_CONTIGUOUS);
    case STEP_PUNCTUATION:
      return split_chars(p, in, is_punctuation, st->behaviour);
    case STEP_AT_MARKS:
      return split_at_marks(p, st, in);
    default: /* SPLIT, METASPACE */
      return split_pattern(p, st, in);
  }
}

static bool puts_marks(const step *st) {
  return st->kind == STEP_METASPACE ||
         (st->kind == STEP_BYTE_LEVEL && st->prefix);
}

static attend_status split_step(splitting *p, const step *st) {
  if (puts_marks(st)) ATTEND_TRY(rewrite(p, st));
  if (st->kind == STEP_METASPACE && !st->cut) return ATTEND_OK;
  p->out = 0;
  for (size_t i = 0; i < p->count; i++)
    ATTEND_TRY(split_span(p, st, p->s->spans[p->turn][i]));
  p->turn = !p->turn;
  p->count = p->out;
  return ATTEND_OK;
}

attend_status split_text(const attend_tokenizer *t, scratch *s, view *v,
                         span **spans, size_t *count) {
  splitting p = {.t = t, .s = s, .v = v, .turn = 1};
  ATTEND_TRY(put_span(&p, 0, v->length));
  p.turn = 0;
  p.count = p.out;
  for (size_t i = 0; i < t->splitters.count; i++)
    ATTEND_TRY(split_step(&p, &t->splitters.step[i]));
  *spans = s->spans[p.turn];
  *count = p.count;
  return ATTEND_OK;
}
