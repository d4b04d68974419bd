/* Reading the post-processor and the decoder from a tokenizer.json. */
#include "text/loader.h"

/* ---- what goes around a text ------------------------------------------------------------- */

static void put(template *to, int32_t id, int32_t type) {
  if (id == -1 - TEMPLATE_MOST) return;
  to->id[to->count] = id;
  to->type[to->count++] = type;
  to->specials += id >= 0;
  to->times[0] += id == TEMPLATE_A;
  to->times[1] += id == TEMPLATE_B;
}

static attend_status template_put(attend_tokenizer *t, const char *what,
                                  template *to, int64_t id, int64_t type) {
  if (to->count == TEMPLATE_MOST)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the template has more than %d entries", what,
                TEMPLATE_MOST);
  if (id >= (int64_t)t->vocab.count || type < 0 || type > INT32_MAX ||
      (id >= 0 && !t->vocab.piece[id].kind))
    return fail(t->ctx, ATTEND_IO,
                "%s: the template names the id %lld, which has no piece", what,
                (long long)id);
  put(to, (int32_t)id, (int32_t)type);
  return ATTEND_OK;
}

static attend_status put_special(attend_tokenizer *t, const char *what,
                                 const attend_json *specials,
                                 const attend_json *item, int64_t type,
                                 template *to) {
  const char *name = attend_json_string(attend_json_get(item, "id"), NULL);
  const attend_json *ids =
      name ? attend_json_get(attend_json_get(specials, name), "ids") : NULL;
  for (size_t i = 0; i < attend_json_count(ids); i++) {
    int64_t id;
    if (!attend_json_integer(attend_json_at(ids, i), &id) || id < 0)
      return fail(t->ctx, ATTEND_IO, "%s: a special token has a bad id", what);
    ATTEND_TRY(template_put(t, what, to, id, type));
  }
  if (attend_json_count(ids)) return ATTEND_OK;
  return fail(t->ctx, ATTEND_IO,
              "%s: the template's special token \"%.40s\" has no ids", what,
              name ? name : "");
}

static attend_status read_template(attend_tokenizer *t, const char *what,
                                   const attend_json *list,
                                   const attend_json *specials, template *to) {
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *entry = attend_json_at(list, i);
    const attend_json *special = attend_json_get(entry, "SpecialToken");
    const attend_json *sequence = attend_json_get(entry, "Sequence");
    int64_t type = 0;
    attend_json_integer(
        attend_json_get(special ? special : sequence, "type_id"), &type);
    const char *id = attend_json_string(attend_json_get(sequence, "id"), NULL);
    if (special)
      ATTEND_TRY(put_special(t, what, specials, special, type, to));
    else if (id && (!strcmp(id, "A") || !strcmp(id, "B")))
      ATTEND_TRY(template_put(t, what, to, *id == 'A' ? TEMPLATE_A : TEMPLATE_B,
                              type));
    else
      return fail(t->ctx, ATTEND_IO,
                  "%s: entry %zu of a template is not understood", what, i);
  }
  return ATTEND_OK;
}

/* before A after [middle] B after; -1 leaves out. */
void template_around(attend_tokenizer *t, int32_t before, int32_t after,
                     int32_t middle, int32_t type_b) {
  enum { NOTHING = -1 - TEMPLATE_MOST };
  int32_t b = before < 0 ? NOTHING : before, a = after < 0 ? NOTHING : after;
  template *two[] = {&t->single, &t->pair};
  for (int i = 0; i < 2; i++) {
    *two[i] = (template){0};
    put(two[i], b, 0);
    put(two[i], TEMPLATE_A, 0);
    put(two[i], a, 0);
  }
  if (middle >= 0) put(&t->pair, middle, 0);
  put(&t->pair, TEMPLATE_B, type_b);
  put(&t->pair, a, type_b);
}

/* ["[SEP]", 102] */
static attend_status pair_id(attend_tokenizer *t, const char *what,
                             const attend_json *j, const char *name,
                             int32_t *id) {
  int64_t n;
  if (!attend_json_integer(attend_json_at(attend_json_get(j, name), 1), &n) ||
      n < 0 || n >= (int64_t)t->vocab.count || !t->vocab.piece[n].kind)
    return fail(t->ctx, ATTEND_IO, "%s: %s has no \"%s\" with an id", what,
                step_type(j), name);
  *id = (int32_t)n;
  return ATTEND_OK;
}

static attend_status read_cls_sep(attend_tokenizer *t, const char *what,
                                  const attend_json *j, bool roberta) {
  int32_t cls = -1, sep = -1;
  ATTEND_TRY(pair_id(t, what, j, "cls", &cls));
  ATTEND_TRY(pair_id(t, what, j, "sep", &sep));
  template_around(t, cls, sep, roberta ? sep : -1, roberta ? 0 : 1);
  if (roberta)
    t->trim = attend_json_boolean(attend_json_get(j, "trim_offsets"), true);
  return ATTEND_OK;
}

attend_status load_template(attend_tokenizer *t, const char *what,
                            const attend_json *j) {
  const char *type = step_type(j);
  if (json_is_none(j)) return ATTEND_OK;
  if (!strcmp(type, "Sequence")) {
    const attend_json *list = attend_json_get(j, "processors");
    for (size_t i = 0; i < attend_json_count(list); i++)
      ATTEND_TRY(load_template(t, what, attend_json_at(list, i)));
    return ATTEND_OK;
  }
  if (!strcmp(type, "ByteLevel")) {
    t->trim = attend_json_boolean(attend_json_get(j, "trim_offsets"), true);
    return ATTEND_OK;
  }
  /* Hugging Face hands the parts that the first has made to the second as
   * texts of their own, and fails on all but one or two. */
  if (t->single.count || t->pair.count)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: more than one post-processor puts special tokens around a "
                "text: leave one",
                what);
  if (!strcmp(type, "TemplateProcessing")) {
    const attend_json *specials = attend_json_get(j, "special_tokens");
    ATTEND_TRY(read_template(t, what, attend_json_get(j, "single"), specials,
                             &t->single));
    return read_template(t, what, attend_json_get(j, "pair"), specials,
                         &t->pair);
  }
  if (!strcmp(type, "BertProcessing")) return read_cls_sep(t, what, j, false);
  if (!strcmp(type, "RobertaProcessing")) return read_cls_sep(t, what, j, true);
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: the post-processor \"%.40s\" is not known here", what, type);
}

/* ---- the decoder --------------------------------------------------------------------------- */

static attend_status keep(attend_tokenizer *t, const attend_json *j,
                          const char *otherwise, chars *kept) {
  size_t length = strlen(otherwise);
  const char *text = attend_json_string(j, &length);
  if (!text) {
    text = otherwise;
    length = strlen(otherwise);
  }
  return text_keep(t, text, length, kept);
}

static attend_status read_strip(attend_tokenizer *t, const char *what,
                                const attend_json *j, decode_step *st) {
  int64_t start = 0, stop = 0;
  attend_json_integer(attend_json_get(j, "start"), &start);
  attend_json_integer(attend_json_get(j, "stop"), &stop);
  bool fused = false;
  for (int i = 0; i < t->decodes; i++)
    fused |= t->decode[i].kind == DECODE_FUSE;
  if (start < 0 || stop < 0 || start > 1 << 20 || stop > 1 << 20 ||
      (fused && stop))
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the decoder strips the end of a text, which cannot be "
                "done token by token",
                what);
  st->start = (int)start;
  st->stop = (int)stop;
  return keep(t, attend_json_get(j, "content"), " ", &st->text);
}

static attend_status read_replace(attend_tokenizer *t, const char *what,
                                  const attend_json *j, decode_step *st) {
  const attend_json *from = attend_json_get(j, "pattern");
  const attend_json *text = attend_json_kind_of(from) == ATTEND_JSON_STRING
                                ? from
                                : attend_json_get(from, "String");
  if (!text)
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the decoder replaces a regular expression: only strings "
                "are known here",
                what);
  ATTEND_TRY(keep(t, text, "", &st->text));
  return keep(t, attend_json_get(j, "content"), "", &st->with);
}

static attend_status read_metaspace(attend_tokenizer *t, const attend_json *j,
                                    decode_step *st) {
  const char *scheme =
      attend_json_string(attend_json_get(j, "prepend_scheme"), NULL);
  st->prepend = scheme ? strcmp(scheme, "never") != 0
                       : attend_json_boolean(
                             attend_json_get(j, "add_prefix_space"), true);
  return keep(t, attend_json_get(j, "replacement"), "\xe2\x96\x81", &st->text);
}

static attend_status read_members(attend_tokenizer *t, const char *what,
                                  const attend_json *j, decode_step *st) {
  switch (st->kind) {
    case DECODE_STRIP:
      return read_strip(t, what, j, st);
    case DECODE_REPLACE:
      return read_replace(t, what, j, st);
    case DECODE_METASPACE:
      return read_metaspace(t, j, st);
    case DECODE_WORDPIECE:
      st->cleanup = attend_json_boolean(attend_json_get(j, "cleanup"), true);
      return keep(t, attend_json_get(j, "prefix"), "##", &st->text);
    case DECODE_SUFFIX:
      return keep(t, attend_json_get(j, "suffix"), "</w>", &st->text);
    default:
      return ATTEND_OK;
  }
}

attend_status load_decoder(attend_tokenizer *t, const char *what,
                           const attend_json *j) {
  static const char *const names[] = {[DECODE_REPLACE] = "Replace",
                                      [DECODE_BYTES] = "ByteFallback",
                                      [DECODE_FUSE] = "Fuse",
                                      [DECODE_STRIP] = "Strip",
                                      [DECODE_WORDPIECE] = "WordPiece",
                                      [DECODE_METASPACE] = "Metaspace",
                                      [DECODE_BYTE_LEVEL] = "ByteLevel",
                                      [DECODE_SUFFIX] = "BPEDecoder"};
  const char *type = step_type(j);
  if (json_is_none(j)) return ATTEND_OK;
  if (!strcmp(type, "Sequence")) {
    const attend_json *list = attend_json_get(j, "decoders");
    for (size_t i = 0; i < attend_json_count(list); i++)
      ATTEND_TRY(load_decoder(t, what, attend_json_at(list, i)));
    return ATTEND_OK;
  }
  for (int kind = 0; kind <= DECODE_SUFFIX; kind++) {
    decode_step st = {.kind = (decode_kind)kind};
    if (strcmp(names[kind], type)) continue;
    ATTEND_TRY(read_members(t, what, j, &st));
    return decode_add(t, st);
  }
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: the decoder \"%.40s\" is not known here", what, type);
}
