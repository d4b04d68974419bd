/* The files beside the main one: special tokens, added tokens, template.
 *
 * A tokenizer.json is complete; the settings only say which of its tokens are bos,
 * eos and so on. The other formats also get their added tokens and template from
 * here.
 */
#include "text/loader.h"

#include <stdlib.h>

typedef struct {
  attend_json *config, *map, *added, *model; /* each may be NULL */
} settings;

const char *const special_names[ATTEND_SPECIALS] = {
    "bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"};

/* Default names; the first that exists is used. */
static const char *const usual[ATTEND_SPECIALS][4] = {
    {"<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"},
    {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"},
    {"<unk>", "[UNK]", "<|endoftext|>", NULL},
    {"<pad>", "[PAD]", NULL, NULL},
    {"[CLS]", "<cls>", NULL, NULL},
    {"[SEP]", "<sep>", NULL, NULL},
    {"[MASK]", "<mask>", NULL, NULL}};

static attend_status read_one(attend_context *ctx, const char *folder, const char *name,
                              attend_json **root) {
  char path[4096];
  if (!file_beside(folder, name, path, sizeof path)) return ATTEND_OK;
  return json_read(ctx, path, root);
}

static attend_status open_all(attend_context *ctx, const char *folder, settings *s) {
  if (!folder) return ATTEND_OK;
  ATTEND_TRY(read_one(ctx, folder, "tokenizer_config.json", &s->config));
  ATTEND_TRY(read_one(ctx, folder, "special_tokens_map.json", &s->map));
  ATTEND_TRY(read_one(ctx, folder, "added_tokens.json", &s->added));
  return read_one(ctx, folder, "config.json", &s->model);
}

static void close_all(const settings *s) {
  attend_json_free(s->config);
  attend_json_free(s->map);
  attend_json_free(s->added);
  attend_json_free(s->model);
}

static bool names(const char *text, const char *const list[]) {
  for (int i = 0; text && list[i]; i++)
    if (strstr(text, list[i])) return true;
  return false;
}

static bool is_one_of(const settings *s, const char *const classes[]) {
  return names(attend_json_string(attend_json_get(s->config, "tokenizer_class"), NULL), classes) ||
         names(attend_json_string(attend_json_get(s->model, "model_type"), NULL), classes);
}

static const char *const fairseq_models[] = {"XLMRoberta", "xlm-roberta", NULL};

attend_status settings_fairseq(attend_context *ctx, const char *folder, bool *fairseq) {
  settings s = {0};
  attend_status status = open_all(ctx, folder, &s);
  *fairseq = !status && is_one_of(&s, fairseq_models);
  close_all(&s);
  return status;
}

/* ---- added tokens ------------------------------------------------------------------------ */

static bool flag(const attend_json *j, const char *name) {
  return attend_json_boolean(attend_json_get(j, name), false);
}

/* tokenizer_config.json: {"id": {"content": .., "special": ..}} */
static attend_status add_from_config(attend_tokenizer *t, const settings *s) {
  const attend_json *list = attend_json_get(s->config, "added_tokens_decoder");
  t->vocab.listed += attend_json_count(list);
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *j = attend_json_at(list, i);
    const char *name = attend_json_name(j, NULL);
    char *end = NULL;
    long long id = name ? strtoll(name, &end, 10) : -1;
    added_token a = {.lstrip = flag(j, "lstrip"),
                     .rstrip = flag(j, "rstrip"),
                     .single_word = flag(j, "single_word"),
                     .normalized = flag(j, "normalized") && !t->model.single,
                     .special = flag(j, "special")};
    a.content.bytes = attend_json_string(attend_json_get(j, "content"), &a.content.length);
    if (!a.content.bytes || !a.content.length || id < 0 || !end || *end)
      return fail(t->ctx, ATTEND_IO,
                  "tokenizer_config.json: an entry of added_tokens_decoder has "
                  "no content or no id");
    ATTEND_TRY(put_added(t, "tokenizer_config.json", id, a));
  }
  return ATTEND_OK;
}

/* added_tokens.json: {"content": id} */
static attend_status add_from_list(attend_tokenizer *t, const settings *s) {
  t->vocab.listed += attend_json_count(s->added);
  for (size_t i = 0; i < attend_json_count(s->added); i++) {
    const attend_json *j = attend_json_at(s->added, i);
    added_token a = {0};
    int64_t id;
    a.content.bytes = attend_json_name(j, &a.content.length);
    if (!a.content.bytes || !a.content.length || !attend_json_integer(j, &id))
      return fail(t->ctx, ATTEND_IO, "added_tokens.json is not an object of tokens and ids");
    ATTEND_TRY(put_added(t, "added_tokens.json", id, a));
  }
  return ATTEND_OK;
}

/* ---- special tokens ---------------------------------------------------------------------- */

/* A string, or an object with content. */
static int32_t id_of(const attend_tokenizer *t, const attend_json *j) {
  size_t length;
  const char *text = attend_json_string(j, &length);
  if (!text) text = attend_json_string(attend_json_get(j, "content"), &length);
  return text ? vocab_name(&t->vocab, text, length) : -1;
}

static int32_t usual_id(const attend_tokenizer *t, int which) {
  for (int i = 0; i < 4 && usual[which][i]; i++) {
    const char *name = usual[which][i];
    int32_t id = vocab_name(&t->vocab, name, strlen(name));
    if (id >= 0) return id;
  }
  return -1;
}

/* A special token in a text is matched as that token, as in Hugging Face; not in
 * SentencePiece models, where it is plain text, except XLM-R's. */
static attend_status mark_special(attend_tokenizer *t, int32_t id) {
  piece *p = &t->vocab.piece[id];
  added_token a = {.content = p->name, .id = id, .special = true};
  p->special = true;
  for (size_t i = 0; i < t->added.count; i++)
    if (t->added.token[i].id == id) return ATTEND_OK;
  return added_put(t, &a);
}

static attend_status find_specials(attend_tokenizer *t, const settings *s, bool whole) {
  bool plain = t->model.single && !is_one_of(s, fairseq_models);
  for (int i = 0; i < ATTEND_SPECIALS; i++) {
    int32_t id = id_of(t, attend_json_get(s->config, special_names[i]));
    if (id < 0) id = id_of(t, attend_json_get(s->map, special_names[i]));
    if (id < 0) id = t->special[i];
    if (id < 0 && i == ATTEND_SPECIAL_UNK) id = t->model.unk;
    if (id < 0) id = usual_id(t, i);
    t->special[i] = id;
    if (id >= 0 && !whole && !plain) ATTEND_TRY(mark_special(t, id));
  }
  return ATTEND_OK;
}

/* ---- templates: special tokens around a text ----------------------------------------------- */

static void surround_sentencepiece(attend_tokenizer *t, const settings *s) {
  static const char *const encoders[] = {"T5", "t5", "Pegasus", "pegasus", NULL};
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  bool ends = is_one_of(s, encoders) || bos < 0;
  bool before = attend_json_boolean(attend_json_get(s->config, "add_bos_token"), !ends);
  bool after = attend_json_boolean(attend_json_get(s->config, "add_eos_token"), ends);
  template_around(t, before ? bos : -1, after ? eos : -1, -1, 0);
}

/* RoBERTa's template; or, for newer models, a begin token and no end. */
static void surround_bytes(attend_tokenizer *t, const settings *s) {
  static const char *const roberta[] = {"Roberta",    "roberta", "Bart", "bart",
                                        "Longformer", "LED",     NULL};
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  bool masks = t->special[ATTEND_SPECIAL_MASK] >= 0;
  bool both = bos >= 0 && eos >= 0 && bos != eos;
  bool first = bos >= 0 && flag(s->config, "add_bos_token");
  if (both && (is_one_of(s, roberta) || (masks && !first)))
    template_around(t, bos, eos, eos, 0);
  else if (first)
    template_around(t, bos, -1, bos, 1);
}

static void surround(attend_tokenizer *t, const settings *s) {
  int32_t cls = t->special[ATTEND_SPECIAL_CLS];
  int32_t sep = t->special[ATTEND_SPECIAL_SEP];
  int32_t bos = t->special[ATTEND_SPECIAL_BOS];
  int32_t eos = t->special[ATTEND_SPECIAL_EOS];
  if (t->model.single && is_one_of(s, fairseq_models)) {
    template_around(t, bos, eos, eos, 0);
  } else if (t->model.kind == MODEL_WORDPIECE && cls >= 0 && sep >= 0) {
    template_around(t, cls, sep, -1, 1);
  } else if (t->model.byte_level) {
    surround_bytes(t, s);
  } else if (t->model.single && cls >= 0 && sep >= 0) {
    template_around(t, cls, sep, -1, 1);
  } else if (t->model.single) {
    surround_sentencepiece(t, s);
  }
}

static attend_status apply(attend_tokenizer *t, const settings *s, bool whole) {
  if (!whole) ATTEND_TRY(add_from_list(t, s));
  if (!whole) ATTEND_TRY(add_from_config(t, s));
  ATTEND_TRY(vocab_index(t));
  ATTEND_TRY(find_specials(t, s, whole));
  if (!whole) surround(t, s);
  if (!whole && t->model.byte_level && flag(s->config, "add_prefix_space"))
    t->splitters.step[0].prefix = true;
  return ATTEND_OK;
}

attend_status read_settings(attend_tokenizer *t, const char *folder, bool whole) {
  settings s = {0};
  attend_status status = open_all(t->ctx, folder, &s);
  if (!status) status = apply(t, &s, whole);
  close_all(&s);
  return status;
}
