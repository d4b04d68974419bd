/* Reading SentencePiece models (Kudo and Richardson 2018), and llama2.c's vocabularies
 * made from them.
 *
 * Both are lists of pieces with scores; there are no merges, and no steps except
 * SentencePiece's own.
 */
#include <math.h>
#include <string.h>

#include "text/loader.h"

/* ---- protocol buffers -------------------------------------------------------------- */

/* A message is a list of tagged fields: varints, 4 or 8 bytes, or a length and that
 * many bytes. Read field by field; nothing is copied. */

typedef struct {
  const unsigned char *at, *end;
  bool bad; /* a length or a number that does not end where it must */
} protobuf;

typedef struct {
  uint32_t number;
  uint64_t value;            /* of a varint, or 4 or 8 raw bytes */
  const unsigned char *data; /* of a string or a message, else NULL */
  size_t length;
} protobuf_field;

static bool read_varint(protobuf *p, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
    unsigned char byte = *p->at++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static bool read_fixed(protobuf *p, protobuf_field *f, size_t bytes) {
  if ((size_t)(p->end - p->at) < bytes) return false;
  for (size_t i = 0; i < bytes; i++) f->value |= (uint64_t)p->at[i] << (8 * i);
  p->at += bytes;
  return true;
}

static bool read_data(protobuf *p, protobuf_field *f) {
  uint64_t length;
  if (!read_varint(p, &length) || length > (uint64_t)(p->end - p->at)) return false;
  f->data = p->at;
  f->length = (size_t)length;
  p->at += length;
  return true;
}

static bool read_value(protobuf *p, protobuf_field *f, unsigned wire) {
  switch (wire) {
    case 0:
      return read_varint(p, &f->value);
    case 1:
      return read_fixed(p, f, 8);
    case 2:
      return read_data(p, f);
    case 5:
      return read_fixed(p, f, 4);
    default:
      return false;
  }
}

/* The next field; false at the end, or if the message is malformed. */
static bool protobuf_next(protobuf *p, protobuf_field *field) {
  uint64_t tag;
  *field = (protobuf_field){0};
  if (p->bad || p->at == p->end) return false;
  p->bad = !read_varint(p, &tag) || !(tag >> 3) || tag >> 3 > UINT32_MAX;
  if (p->bad) return false;
  field->number = (uint32_t)(tag >> 3);
  p->bad = !read_value(p, field, (unsigned)(tag & 7));
  return !p->bad;
}

static float protobuf_float(const protobuf_field *field) {
  uint32_t bits = (uint32_t)field->value;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* ---- models -------------------------------------------------------------- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE };

static const char MARK[] = "\xe2\x96\x81";

typedef struct {
  attend_tokenizer *t;
  const char *path;
  int64_t count;
  float min, max;
  int64_t model, unk, bos, eos, pad;
  bool byte_fallback, suffix;
  bool fairseq; /* ids as XLM-R counts them */
  bool prefix, squeeze, escape;
  protobuf_field charsmap, unk_surface;
} sp_model;

static attend_status truncated(const sp_model *s) {
  return fail(s->t->ctx, ATTEND_IO, "%s is not a SentencePiece model, or is damaged: get it anew",
              s->path);
}

/* ---- the messages ------------------------------------------------------------------------ */

/* fairseq has <s>, <pad>, </s>, <unk> first, and the others one later than the
 * file, which starts with <unk>, <s>, </s>. */
static int64_t id_of_piece(const sp_model *s) {
  static const int64_t first[] = {3, 0, 2};
  if (!s->fairseq) return s->count;
  return s->count < 3 ? first[s->count] : s->count + 1;
}

static attend_status keep_piece(sp_model *s, const char *name, size_t length, float score,
                                int type) {
  attend_tokenizer *t = s->t;
  int64_t id = id_of_piece(s);
  bool normal = type == NORMAL || type == USER_DEFINED;
  if (!isfinite(score) || !length || !utf8_is_valid(name, length))
    return fail(t->ctx, ATTEND_IO, "%s: piece %lld has no letters or no finite score", s->path,
                (long long)s->count);
  if (type == NORMAL && score < s->min) s->min = score;
  if (type == NORMAL && score > s->max) s->max = score;
  ATTEND_TRY(vocab_put(t, id, name, length, score, normal ? PIECE_NORMAL : PIECE_HIDDEN));
  t->vocab.piece[id].special = type == CONTROL;
  if (type == UNKNOWN) t->model.unk = (int32_t)id;
  s->count++;
  if (type != USER_DEFINED) return ATTEND_OK;
  added_token a = {.content = {name, length}, .id = (int32_t)id, .normalized = true};
  ATTEND_TRY(text_keep(t, name, length, &a.match));
  return added_put(t, &a);
}

static attend_status read_piece(sp_model *s, protobuf p) {
  protobuf_field f;
  const unsigned char *name = NULL;
  size_t length = 0;
  float score = 0;
  int type = NORMAL;
  while (protobuf_next(&p, &f)) {
    if (f.number == 1 && f.data) {
      name = f.data;
      length = f.length;
    }
    if (f.number == 2) score = protobuf_float(&f);
    if (f.number == 3) type = (int)f.value;
  }
  if (p.bad || !name) return truncated(s);
  return keep_piece(s, (const char *)name, length, score, type);
}

static attend_status read_trainer(sp_model *s, protobuf p) {
  protobuf_field f;
  while (protobuf_next(&p, &f)) {
    if (f.number == 3) s->model = (int64_t)f.value;
    if (f.number == 24) s->suffix = f.value != 0;
    if (f.number == 35) s->byte_fallback = f.value != 0;
    if (f.number == 40) s->unk = (int32_t)f.value;
    if (f.number == 41) s->bos = (int32_t)f.value;
    if (f.number == 42) s->eos = (int32_t)f.value;
    if (f.number == 43) s->pad = (int32_t)f.value;
    if (f.number == 44 && f.data) s->unk_surface = f;
  }
  return p.bad ? truncated(s) : ATTEND_OK;
}

static attend_status read_normalizer(sp_model *s, protobuf p) {
  protobuf_field f;
  while (protobuf_next(&p, &f)) {
    if (f.number == 2 && f.data) s->charsmap = f;
    if (f.number == 3) s->prefix = f.value != 0;
    if (f.number == 4) s->squeeze = f.value != 0;
    if (f.number == 5) s->escape = f.value != 0;
  }
  return p.bad ? truncated(s) : ATTEND_OK;
}

static attend_status read_all(sp_model *s, const char *bytes, size_t length) {
  protobuf p = {(const unsigned char *)bytes, (const unsigned char *)bytes + length, false};
  protobuf_field f;
  while (protobuf_next(&p, &f)) {
    if (f.number > 3 || !f.number) continue;
    if (!f.data) return truncated(s);
    protobuf inner = {f.data, f.data + f.length, false};
    if (f.number == 1) ATTEND_TRY(read_piece(s, inner));
    if (f.number == 2) ATTEND_TRY(read_trainer(s, inner));
    if (f.number == 3) ATTEND_TRY(read_normalizer(s, inner));
  }
  return p.bad || !s->count ? truncated(s) : ATTEND_OK;
}

/* What the file does not have and the model does. */
static attend_status add_fairseq(sp_model *s) {
  static const char *const names[] = {"<unk>", "<s>", "</s>"};
  attend_tokenizer *t = s->t;
  int64_t mask = s->count + 1;
  for (int64_t i = 0; i < 3; i++) {
    int64_t id = i == 0 ? 3 : i == 1 ? 0 : 2;
    if (s->count <= i || strcmp(t->vocab.piece[id].name.bytes, names[i]))
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "%s: piece %lld is not %s, as it is in the models of XLM-R", s->path,
                  (long long)i, names[i]);
  }
  ATTEND_TRY(vocab_put(t, 1, "<pad>", 5, 0, PIECE_HIDDEN));
  ATTEND_TRY(vocab_put(t, mask, "<mask>", 6, 0, PIECE_HIDDEN));
  t->vocab.piece[1].special = t->vocab.piece[mask].special = true;
  t->special[ATTEND_SPECIAL_CLS] = s->bos = 0;
  t->special[ATTEND_SPECIAL_SEP] = s->eos = 2;
  t->special[ATTEND_SPECIAL_MASK] = (int32_t)mask;
  s->pad = 1;
  return added_put(
      t, &(added_token){
             .content = {"<mask>", 6}, .id = (int32_t)mask, .lstrip = true, .special = true});
}

/* ---- from there to a tokenizer -------------------------------------------------------------- */

static attend_status add_steps(sp_model *s) {
  attend_tokenizer *t = s->t;
  step map = {.kind = STEP_CHARSMAP};
  step spaces = {
      .kind = STEP_SP_SPACES, .prefix = s->prefix, .squeeze = s->squeeze, .escape = s->escape};
  chars kept;
  if (s->charsmap.length) {
    ATTEND_TRY(text_keep(t, (const char *)s->charsmap.data, s->charsmap.length, &kept));
    ATTEND_TRY(charsmap_check(t->ctx, s->path, kept.bytes, kept.length, &map.map));
    ATTEND_TRY(step_add(t, &t->normalizers, map));
  }
  ATTEND_TRY(step_add(t, &t->normalizers, spaces));
  return s->escape ? cut_at_marks(t, MARK) : ATTEND_OK;
}

static attend_status add_decoder(attend_tokenizer *t, const char *mark, bool prefix) {
  decode_step replace = {.kind = DECODE_REPLACE, .text = {mark, strlen(mark)}, .with = {" ", 1}};
  decode_step strip = {.kind = DECODE_STRIP, .text = {" ", 1}, .start = 1};
  if (*mark) ATTEND_TRY(decode_add(t, replace));
  ATTEND_TRY(decode_add(t, (decode_step){.kind = DECODE_BYTES}));
  ATTEND_TRY(decode_add(t, (decode_step){.kind = DECODE_FUSE}));
  return prefix ? decode_add(t, strip) : ATTEND_OK;
}

static int32_t id_or_none(const sp_model *s, int64_t id) {
  return id >= 0 && id < s->count ? (int32_t)id : -1;
}

static attend_status finish_model(sp_model *s) {
  attend_tokenizer *t = s->t;
  model *m = &t->model;
  if (s->suffix || (s->model != UNIGRAM && s->model != BPE))
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: only SentencePiece models of the kinds bpe and unigram, "
                "with spaces in front of words, are known here",
                s->path);
  m->kind = s->model == BPE ? MODEL_BPE : MODEL_UNIGRAM;
  t->kind = s->model == BPE ? "BPE" : "unigram";
  m->byte_fallback = s->byte_fallback;
  m->fuse_unk = true;
  m->single = true;
  m->unk_score = s->min - 10;
  ATTEND_TRY(vocab_index(t));
  t->special[ATTEND_SPECIAL_UNK] = m->unk;
  t->special[ATTEND_SPECIAL_BOS] = id_or_none(s, s->bos);
  t->special[ATTEND_SPECIAL_EOS] = id_or_none(s, s->eos);
  t->special[ATTEND_SPECIAL_PAD] = id_or_none(s, s->pad);
  m->from_scores = s->model == BPE;
  return m->from_scores ? ATTEND_OK : build_trie(t);
}

static attend_status check_twins(const sp_model *s) {
  const vocab *v = &s->t->vocab;
  for (size_t i = 0; i < v->count; i++) {
    const chars *name = &v->piece[i].name;
    if (vocab_name(v, name->bytes, name->length) != (int32_t)i)
      return fail(s->t->ctx, ATTEND_IO, "%s: the piece \"%.60s\" comes twice", s->path,
                  name->bytes);
  }
  return ATTEND_OK;
}

attend_status load_sentencepiece(attend_tokenizer *t, const char *path, const char *folder) {
  static const char unknown[] = " \xe2\x81\x87 ";
  sp_model s = {.t = t,
                .path = path,
                .model = UNIGRAM,
                .bos = 1,
                .eos = 2,
                .pad = -1,
                .prefix = true,
                .squeeze = true,
                .escape = true};
  char *bytes;
  size_t length;
  ATTEND_TRY(settings_fairseq(t->ctx, folder, &s.fairseq));
  ATTEND_TRY(file_read(t->ctx, path, &bytes, &length));
  attend_status status = read_all(&s, bytes, length);
  if (!status && s.fairseq) status = add_fairseq(&s);
  if (!status) status = finish_model(&s);
  if (!status) status = check_twins(&s);
  if (!status) status = add_steps(&s);
  if (!status && s.unk_surface.data)
    status = text_keep(t, (const char *)s.unk_surface.data, s.unk_surface.length, &t->unk_surface);
  else
    t->unk_surface = (chars){unknown, sizeof unknown - 1};
  ctx_free(t->ctx, bytes);
  ATTEND_TRY(status);
  return add_decoder(t, s.escape ? MARK : "", s.prefix);
}

/* ---- llama2.c -------------------------------------------------------------------------------- */

static attend_status read_records(sp_model *s, const char *bytes, size_t length) {
  int32_t longest, n;
  float score;
  if (length < 4) goto malformed;
  memcpy(&longest, bytes, 4);
  for (size_t at = 4; at < length; at += (size_t)n) {
    if (length - at < 8) goto malformed;
    memcpy(&score, bytes + at, 4);
    memcpy(&n, bytes + at + 4, 4);
    at += 8;
    if (n < 0 || (size_t)n > length - at) goto malformed;
    bool hidden = s->count < 3 || byte_piece(bytes + at, (size_t)n) >= 0;
    int type = s->count == 0 ? UNKNOWN : s->count < 3 ? CONTROL : BYTE;
    ATTEND_TRY(keep_piece(s, bytes + at, (size_t)n, score, hidden ? type : NORMAL));
  }
  if (longest > 0 && s->count > 3) return ATTEND_OK;
malformed:
  return fail(s->t->ctx, ATTEND_IO,
              "%s is not a llama2.c vocabulary: its records do not end where "
              "the file ends",
              s->path);
}

attend_status load_llama2c(attend_tokenizer *t, const char *path) {
  sp_model s = {.t = t,
                .path = path,
                .model = BPE,
                .bos = 1,
                .eos = 2,
                .pad = -1,
                .prefix = true,
                .byte_fallback = true};
  char *bytes;
  size_t length;
  ATTEND_TRY(file_read(t->ctx, path, &bytes, &length));
  attend_status status = read_records(&s, bytes, length);
  ctx_free(t->ctx, bytes);
  ATTEND_TRY(status);
  ATTEND_TRY(finish_model(&s));
  ATTEND_TRY(add_steps(&s));
  ATTEND_TRY(cut_at_marks(t, " "));
  return add_decoder(t, "", true);
}
