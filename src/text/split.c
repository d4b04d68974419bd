/* Pre-tokenizers: where a text is split before the model sees it.
 *
 * Each step splits the spans of the step before further. Byte-level and Metaspace
 * also insert marks, and so write a new text.
 */
#include "text/loader.h"

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
  ATTEND_TRY(grow(p->s->ctx, &p->s->spans[to], &p->s->span_capacity[to], p->out + 1, sizeof(span),
                  "words"));
  p->s->spans[to][p->out++] = (span){(uint32_t)start, (uint32_t)end};
  return ATTEND_OK;
}

/* ---- from matches to spans --------------------------------------------------------- */

static attend_status put_cut(splitting *p, size_t *count, size_t start, size_t end, bool match) {
  scratch *s = p->s;
  if (start == end) return ATTEND_OK;
  ATTEND_TRY(grow(p->s->ctx, &s->cuts, &s->cut_capacity, *count + 1, sizeof *s->cuts, "words"));
  s->cuts[(*count)++] = (cut){(uint32_t)start, (uint32_t)end, match};
  return ATTEND_OK;
}

/* Whether cut i joins the one before it. */
static bool joins(const cut *c, size_t i, cut_behaviour how) {
  if (how == CUT_CONTIGUOUS) return c[i].match == c[i - 1].match;
  if (how == CUT_WITH_PREVIOUS) return c[i].match && !c[i - 1].match;
  return false;
}

/* CUT_WITH_NEXT: a match joins what follows; of consecutive matches only the last
 * does. */
static attend_status put_with_next(splitting *p, size_t count) {
  const cut *c = p->s->cuts;
  for (size_t i = 0; i < count; i++) {
    bool join = c[i].match && i + 1 < count && !c[i + 1].match;
    ATTEND_TRY(put_span(p, c[i].start, c[i + join].end));
    i += join;
  }
  return ATTEND_OK;
}

static attend_status put_cuts(splitting *p, size_t count, cut_behaviour how, bool invert) {
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

static attend_status cut_chars(splitting *p, span in, char_test test, size_t *count) {
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

static attend_status split_chars(splitting *p, span in, char_test test, cut_behaviour how) {
  size_t count;
  ATTEND_TRY(cut_chars(p, in, test, &count));
  return put_cuts(p, count, how, false);
}

/* Removes spaces and isolates punctuation. */
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

/* Cuts before each mark that follows something else, and between letters that no
 * piece has side by side: the model gives the same ids for the parts as for the
 * whole. */
static attend_status split_at_marks(splitting *p, const step *st, span in) {
  const char *s = p->v->bytes;
  const size_t width = st->text.length;
  size_t start = in.start, marks = in.start; /* marks: the end of a run of them */
  unsigned char before = 0x80;
  for (size_t i = in.start, n; i < in.end; i += n) {
    unsigned char c = (unsigned char)s[i];
    bool mark =
        s[i] == st->text.bytes[0] && in.end - i >= width && !memcmp(s + i, st->text.bytes, width);
    bool apart = !mark && st->joins && (c | before) < 0x80 && !may_join(st->joins, before, c);
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
  bool marked = *s == ' ' || (n >= st->text.length && !memcmp(s, st->text.bytes, st->text.length));
  if (marked || st->prepend == PREPEND_NEVER) return false;
  return st->prepend == PREPEND_ALWAYS || view_from(v, in.start) == 0;
}

static attend_status write_span(splitting *p, const step *st, span in, aligned_text *out) {
  const view *v = p->v;
  bool meta = st->kind == STEP_METASPACE;
  const char *mark = meta ? st->text.bytes : " ";
  size_t width = meta ? st->text.length : 1;
  uint32_t from = view_from(v, in.start);
  if (wants_prefix(p, st, in)) ATTEND_TRY(aligned_put(p->s->ctx, out, mark, width, from, from));
  if (!meta) return aligned_copy(p->s->ctx, out, v, in.start, in.end);
  for (size_t i = in.start, end; i < in.end; i = end) {
    const char *space = memchr(v->bytes + i, ' ', in.end - i);
    end = space ? (size_t)(space - v->bytes) : in.end;
    ATTEND_TRY(aligned_copy(p->s->ctx, out, v, i, end));
    if (!space) break;
    ATTEND_TRY(aligned_put(p->s->ctx, out, mark, width, view_from(v, end), view_to(v, end)));
    end++;
  }
  return ATTEND_OK;
}

/* Writes the spans one after the other. Two buffers alternate; neither belongs to the
 * normalizers, whose text may be needed again. */
static attend_status rewrite(splitting *p, const step *st) {
  aligned_text *out = &p->s->text[2 + (p->rewrites++ & 1)];
  const span *in = p->s->spans[p->turn];
  out->length = 0;
  out->max = p->v->length + p->s->capacity;
  p->out = 0;
  for (size_t i = 0; i < p->count; i++) {
    size_t start = out->length;
    ATTEND_TRY(write_span(p, st, in[i], out));
    ATTEND_TRY(put_span(p, start, out->length));
  }
  *p->v = aligned_view(out);
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
      return split_chars(p, in, is_number, st->each ? CUT_ISOLATED : CUT_CONTIGUOUS);
    case STEP_PUNCTUATION:
      return split_chars(p, in, is_punctuation, st->behaviour);
    case STEP_AT_MARKS:
      return split_at_marks(p, st, in);
    default: /* SPLIT, METASPACE */
      return split_pattern(p, st, in);
  }
}

static bool puts_marks(const step *st) {
  return st->kind == STEP_METASPACE || (st->kind == STEP_BYTE_LEVEL && st->prefix);
}

static attend_status split_step(splitting *p, const step *st) {
  if (puts_marks(st)) ATTEND_TRY(rewrite(p, st));
  if (st->kind == STEP_METASPACE && !st->cut) return ATTEND_OK;
  p->out = 0;
  for (size_t i = 0; i < p->count; i++) ATTEND_TRY(split_span(p, st, p->s->spans[p->turn][i]));
  p->turn = !p->turn;
  p->count = p->out;
  return ATTEND_OK;
}

attend_status split_text(const attend_tokenizer *t, scratch *s, view *v, span **spans,
                         size_t *count) {
  splitting p = {.t = t, .s = s, .v = v, .turn = 1};
  ATTEND_TRY(put_span(&p, 0, v->length));
  p.turn = 0;
  p.count = p.out;
  for (size_t i = 0; i < t->splitters.count; i++) ATTEND_TRY(split_step(&p, &t->splitters.step[i]));
  *spans = s->spans[p.turn];
  *count = p.count;
  return ATTEND_OK;
}

/* ---- cuts at marks ------------------------------------------------------- */

/* Where a text may be split into words although the file has no pre-tokenizer:
 * SentencePiece models, and a tokenizer.json without pre-tokenizers.
 *
 * Each merge makes a piece, which contains both of its parts. So no merge crosses a
 * position whose two letters are side by side in no piece, and splitting there keeps
 * the ids. Short words repeat and hit the cache. Computed while loading. */

enum { JOINS = 128 * 128 / 8 };

static bool crosses(chars key, chars mark) {
  for (size_t i = 1; i + mark.length <= key.length; i++) {
    if (memcmp(key.bytes + i, mark.bytes, mark.length)) continue;
    if (i < mark.length || memcmp(key.bytes + i - mark.length, mark.bytes, mark.length))
      return true;
  }
  return false;
}

/* ---- letters side by side --------------------------------------------------------- */

static void put_join(unsigned char *joins, unsigned char a, unsigned char b) {
  joins[a << 4 | b >> 3] |= (unsigned char)(1 << (b & 7));
}

/* Whether some merge uses the piece of a single byte. */
static bool merges_bytes(const attend_tokenizer *t) {
  const model *m = &t->model;
  for (size_t i = 0; m->merge_mask && i <= m->merge_mask; i++) {
    if (m->merges[i].left < 0) continue;
    const chars *a = &t->vocab.piece[m->merges[i].left].name;
    const chars *b = &t->vocab.piece[m->merges[i].right].name;
    if (byte_piece(a->bytes, a->length) >= 0 || byte_piece(b->bytes, b->length) >= 0) return true;
  }
  return false;
}

/* An unknown character may fuse with its neighbour into one token. */
static void put_unknowns(const attend_tokenizer *t, unsigned char *joins) {
  bool bytes = t->model.byte_fallback && !merges_bytes(t);
  for (int c = 0; c < 128; c++) {
    char letter = (char)c;
    if (vocab_key(&t->vocab, &letter, 1) >= 0) continue;
    if (bytes && t->vocab.byte[c] >= 0) continue;
    for (int other = 0; other < 128; other++) {
      put_join(joins, (unsigned char)c, (unsigned char)other);
      put_join(joins, (unsigned char)other, (unsigned char)c);
    }
  }
}

static attend_status find_joins(attend_tokenizer *t, const unsigned char **kept) {
  unsigned char joins[JOINS] = {0};
  const char *copy;
  for (size_t id = 0; id < t->vocab.count; id++) {
    const piece *p = &t->vocab.piece[id];
    if (p->kind != PIECE_NORMAL) continue;
    for (size_t i = 1; i < p->key.length; i++) {
      unsigned char a = (unsigned char)p->key.bytes[i - 1];
      unsigned char b = (unsigned char)p->key.bytes[i];
      if ((a | b) < 0x80) put_join(joins, a, b);
    }
  }
  put_unknowns(t, joins);
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, (const char *)joins, JOINS, &copy));
  *kept = (const unsigned char *)copy;
  return ATTEND_OK;
}

/* ---- the step --------------------------------------------------------------------- */

/* Unigram models are cut at marks only: across a cut the score must be carried. */
attend_status cut_at_marks(attend_tokenizer *t, const char *mark) {
  step st = {.kind = STEP_AT_MARKS, .text = {mark, strlen(mark)}};
  if (vocab_key(&t->vocab, mark, st.text.length) < 0) return ATTEND_OK;
  for (size_t i = 0; i < t->vocab.count; i++)
    if (t->vocab.piece[i].kind == PIECE_NORMAL && crosses(t->vocab.piece[i].key, st.text))
      return ATTEND_OK;
  if (t->model.kind == MODEL_BPE) ATTEND_TRY(find_joins(t, &st.joins));
  return step_add(t, &t->splitters, st);
}
