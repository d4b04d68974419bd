/* Reading normalizers and pre-tokenizers from a tokenizer.json.
 *
 * Sequences are laid out flat. What is not known is refused by name: a step left out
 * would give other ids without a word.
 */
#include "text/loader.h"
#include "text/pattern.h"

static bool flag(const attend_json *j, const char *name, bool otherwise) {
  return attend_json_boolean(attend_json_get(j, name), otherwise);
}

static attend_status keep_text(attend_tokenizer *t, const char *what,
                               const attend_json *j, const char *name,
                               chars *kept) {
  size_t length;
  const char *text = attend_json_string(attend_json_get(j, name), &length);
  if (text) return text_keep(t, text, length, kept);
  return fail(t->ctx, ATTEND_IO, "%s: %s has no \"%s\"", what, step_type(j),
              name);
}

/* {"String": ..}, {"Regex": ..}, or a string. */
static attend_status read_pattern(attend_tokenizer *t, const char *what,
                                  const attend_json *j, pattern **p) {
  const attend_json *from = attend_json_get(j, "pattern");
  size_t length;
  const char *text = attend_json_string(from, &length);
  *p = NULL;
  if (!text)
    text = attend_json_string(attend_json_get(from, "String"), &length);
  if (text) return pattern_string(t, text, length, p);
  text = attend_json_string(attend_json_get(from, "Regex"), &length);
  if (text) return pattern_regex(t, text, length, p);
  return fail(t->ctx, ATTEND_IO, "%s: %s has no pattern", what, step_type(j));
}

/* ---- normalizers ------------------------------------------------------------------------ */

static int base64_digit(char c) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *found = c ? strchr(digits, c) : NULL;
  return found ? (int)(found - digits) : -1;
}

/* In place of `out`, which takes 3/4 of the length. */
static bool base64(const char *text, size_t length, char *out, size_t *n) {
  uint32_t bits = 0;
  int have = 0;
  *n = 0;
  while (length && text[length - 1] == '=') length--;
  for (size_t i = 0; i < length; i++) {
    int digit = base64_digit(text[i]);
    if (digit < 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out[(*n)++] = (char)(bits >> have);
  }
  return true;
}

static attend_status read_charsmap(attend_tokenizer *t, const char *what,
                                   const attend_json *j, step *st) {
  size_t length, n;
  char *raw;
  chars kept = {0};
  const char *text =
      attend_json_string(attend_json_get(j, "precompiled_charsmap"), &length);
  if (!text) return ATTEND_OK; /* null: nothing is replaced */
  ATTEND_TRY(take(t->ctx, length + 1, "a table", &raw));
  bool good = base64(text, length, raw, &n);
  attend_status status = ATTEND_OK;
  if (!good)
    status =
        fail(t->ctx, ATTEND_IO, "%s: precompiled_charsmap is not base64", what);
  if (!status) status = text_keep(t, raw, n, &kept);
  give(t->ctx, raw);
  ATTEND_TRY(status);
  return charsmap_check(t->ctx, what, kept.bytes, kept.length, &st->map);
}

static attend_status read_bert(attend_tokenizer *t, const attend_json *j) {
  steps *n = &t->normalizers;
  bool lower = flag(j, "lowercase", true);
  if (flag(j, "clean_text", true))
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CLEAN}));
  if (flag(j, "handle_chinese_chars", true))
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CHINESE}));
  if (flag(j, "strip_accents", lower)) {
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_NFD}));
    ATTEND_TRY(step_add(t, n, (step){.kind = STEP_DROP_NONSPACING}));
  }
  return lower ? step_add(t, n, (step){.kind = STEP_LOWERCASE}) : ATTEND_OK;
}

static const struct {
  const char *type;
  step_kind kind;
} simple[] = {{"NFC", STEP_NFC},
              {"NFD", STEP_NFD},
              {"NFKC", STEP_NFKC},
              {"NFKD", STEP_NFKD},
              {"Lowercase", STEP_LOWERCASE},
              {"StripAccents", STEP_DROP_MARKS},
              {"Nmt", STEP_NMT},
              {"Replace", STEP_REPLACE},
              {"Prepend", STEP_PREPEND},
              {"Strip", STEP_STRIP},
              {"Precompiled", STEP_CHARSMAP},
              {"Whitespace", STEP_WHITESPACE},
              {"WhitespaceSplit", STEP_WHITESPACE_SPLIT},
              {"BertPreTokenizer", STEP_BERT_SPLIT},
              {"ByteLevel", STEP_BYTE_LEVEL},
              {"Metaspace", STEP_METASPACE},
              {"Digits", STEP_DIGITS},
              {"Punctuation", STEP_PUNCTUATION},
              {"Split", STEP_SPLIT},
              {"CharDelimiterSplit", STEP_SPLIT}};

static bool find_kind(const char *type, bool normalizer, step_kind *kind) {
  for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
    bool early = simple[i].kind < STEP_NORMALIZERS;
    if (early != normalizer || strcmp(simple[i].type, type)) continue;
    *kind = simple[i].kind;
    return true;
  }
  return false;
}

/* What a normalizer has besides its name. */
static attend_status read_normalizer_members(attend_tokenizer *t,
                                             const char *what,
                                             const attend_json *j, step *st) {
  if (st->kind == STEP_REPLACE) {
    ATTEND_TRY(keep_text(t, what, j, "content", &st->text));
    return read_pattern(t, what, j, &st->pattern);
  }
  if (st->kind == STEP_PREPEND)
    return keep_text(t, what, j, "prepend", &st->text);
  if (st->kind == STEP_CHARSMAP) return read_charsmap(t, what, j, st);
  st->left = flag(j, "strip_left", true);
  st->right = flag(j, "strip_right", true);
  return ATTEND_OK;
}

attend_status load_normalizer(attend_tokenizer *t, const char *what,
                              const attend_json *j) {
  const char *type = step_type(j);
  step st = {0};
  if (json_is_none(j)) return ATTEND_OK;
  if (!strcmp(type, "Sequence")) {
    const attend_json *list = attend_json_get(j, "normalizers");
    for (size_t i = 0; i < attend_json_count(list); i++)
      ATTEND_TRY(load_normalizer(t, what, attend_json_at(list, i)));
    return ATTEND_OK;
  }
  if (!strcmp(type, "BertNormalizer")) return read_bert(t, j);
  if (!find_kind(type, true, &st.kind))
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the normalizer \"%.40s\" is not known here", what, type);
  attend_status status = read_normalizer_members(t, what, j, &st);
  if (!status) return step_add(t, &t->normalizers, st);
  pattern_free(t->ctx, st.pattern);
  return status;
}

/* ---- pre-tokenizers --------------------------------------------------------------------- */

static attend_status read_behaviour(attend_tokenizer *t, const char *what,
                                    const attend_json *j, cut_behaviour *how) {
  static const char *const names[] = {
      [CUT_REMOVED] = "Removed",
      [CUT_ISOLATED] = "Isolated",
      [CUT_WITH_PREVIOUS] = "MergedWithPrevious",
      [CUT_WITH_NEXT] = "MergedWithNext",
      [CUT_CONTIGUOUS] = "Contiguous"};
  const char *name = attend_json_string(attend_json_get(j, "behavior"), NULL);
  *how = CUT_ISOLATED;
  if (!name) return ATTEND_OK;
  for (int i = 0; i <= CUT_CONTIGUOUS; i++) {
    *how = (cut_behaviour)i;
    if (!strcmp(names[i], name)) return ATTEND_OK;
  }
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "%s: %s has the behavior \"%.40s\", which is not known here",
              what, step_type(j), name);
}

/* Newer files have a scheme, older ones a flag. */
static attend_status read_metaspace(attend_tokenizer *t, const char *what,
                                    const attend_json *j, step *st) {
  const char *scheme =
      attend_json_string(attend_json_get(j, "prepend_scheme"), NULL);
  st->text = (chars){"\xe2\x96\x81", 3};
  if (attend_json_get(j, "replacement"))
    ATTEND_TRY(keep_text(t, what, j, "replacement", &st->text));
  st->prepend =
      flag(j, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
  if (scheme)
    st->prepend = !strcmp(scheme, "always")  ? PREPEND_ALWAYS
                  : !strcmp(scheme, "first") ? PREPEND_FIRST
                                             : PREPEND_NEVER;
  st->cut = flag(j, "split", true);
  st->behaviour = CUT_WITH_NEXT;
  return pattern_string(t, st->text.bytes, st->text.length, &st->pattern);
}

static attend_status read_delimiter(attend_tokenizer *t, const char *what,
                                    const attend_json *j, step *st) {
  ATTEND_TRY(keep_text(t, what, j, "delimiter", &st->text));
  st->behaviour = CUT_REMOVED;
  return pattern_string(t, st->text.bytes, st->text.length, &st->pattern);
}

static attend_status read_splitter_members(attend_tokenizer *t,
                                           const char *what,
                                           const attend_json *j, step *st) {
  if (st->kind == STEP_METASPACE) return read_metaspace(t, what, j, st);
  if (st->kind == STEP_PUNCTUATION)
    return read_behaviour(t, what, j, &st->behaviour);
  if (st->kind == STEP_SPLIT && attend_json_get(j, "delimiter"))
    return read_delimiter(t, what, j, st);
  if (st->kind == STEP_SPLIT) {
    st->invert = flag(j, "invert", false);
    ATTEND_TRY(read_behaviour(t, what, j, &st->behaviour));
    return read_pattern(t, what, j, &st->pattern);
  }
  st->each = flag(j, "individual_digits", false);
  st->prefix = flag(j, "add_prefix_space", true);
  st->cut = flag(j, "use_regex", true);
  return ATTEND_OK;
}

/* Bytes become characters of another alphabet there: what cuts afterwards
 * would see that, and here it does not. */
static attend_status check_order(attend_tokenizer *t, const char *what) {
  const steps *list = &t->splitters;
  for (size_t i = 0; i + 1 < list->count; i++)
    if (list->step[i].kind == STEP_BYTE_LEVEL)
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "%s: a pre-tokenizer follows ByteLevel, which must be the "
                  "last",
                  what);
  t->model.byte_level =
      list->count && list->step[list->count - 1].kind == STEP_BYTE_LEVEL;
  return ATTEND_OK;
}

attend_status load_splitter(attend_tokenizer *t, const char *what,
                            const attend_json *j) {
  const char *type = step_type(j);
  step st = {0};
  if (json_is_none(j)) return ATTEND_OK;
  if (!strcmp(type, "Sequence")) {
    const attend_json *list = attend_json_get(j, "pretokenizers");
    for (size_t i = 0; i < attend_json_count(list); i++)
      ATTEND_TRY(load_splitter(t, what, attend_json_at(list, i)));
    return ATTEND_OK;
  }
  if (!find_kind(type, false, &st.kind))
    return fail(t->ctx, ATTEND_UNSUPPORTED,
                "%s: the pre-tokenizer \"%.40s\" is not known here", what,
                type);
  attend_status status = read_splitter_members(t, what, j, &st);
  if (status) {
    pattern_free(t->ctx, st.pattern);
    return status;
  }
  ATTEND_TRY(step_add(t, &t->splitters, st));
  return check_order(t, what);
}
