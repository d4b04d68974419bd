/* The tokens of a text as a model reads it, for interventions and attributions. */
#include "attend/generate.h"
#include "attend/intervene.h"
#include "base/options.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

enum { WRITTEN = 32 /* tokens that an encoder-decoder writes */ };

struct attend_text_tokens {
  attend_context *ctx;
  attend_tokens tokens;
  int mask;
  int32_t *ids, *types, *decoder;
};

typedef struct {
  attend_model *model;
  const attend_tokenizer *tokenizer;
  attend_encoding *encoding;
  attend_text_tokens *to;
} reader;

static attend_status copy_ids(const reader *r, const int32_t *from, size_t n, size_t more,
                              int32_t **to) {
  ATTEND_TRY(ctx_alloc(r->to->ctx, (n + more + 1) * sizeof **to, "tokens", to));
  if (n) memcpy(*to + more, from, n * sizeof **to);
  return ATTEND_OK;
}

/* The text with its masks spelled as the tokenizer does. */
static attend_status spell_masks(const reader *r, const char *text, char **spelled) {
  const int32_t id = attend_tokenizer_special(r->tokenizer, ATTEND_SPECIAL_MASK);
  const char *own = id < 0 ? NULL : attend_tokenizer_piece(r->tokenizer, id, NULL);
  const size_t length = strlen(text), wide = own ? strlen(own) : 0;
  char *to;
  ATTEND_TRY(
      ctx_alloc(r->to->ctx, size_add(size_times(length, wide + 1), 1), "a masked text", &to));
  *spelled = to;
  for (size_t at = 0; at < length;) {
    const size_t n = own ? mask_at(text + at, length - at, own) : 0;
    if (n) memcpy(to, own, wide);
    if (!n) *to = text[at];
    to += n ? wide : 1, at += n ? n : 1;
  }
  *to = 0;
  return ATTEND_OK;
}

static attend_status encoded(const reader *r, attend_status status) {
  return status ? encoding_failed(r->to->ctx, status, r->encoding) : ATTEND_OK;
}

static attend_status read_encoder(const reader *r, const char *text, const char *pair) {
  attend_text_tokens *to = r->to;
  attend_encode_options how = {ATTEND_INIT(attend_encode_options), .pair = pair,
                               .pair_length = pair ? strlen(pair) : 0};
  char *spelled = NULL;
  attend_status status = spell_masks(r, text, &spelled);
  if (!status) status = encoded(r, attend_encode(r->encoding, spelled, strlen(spelled), &how));
  ctx_free(to->ctx, spelled);
  ATTEND_TRY(status);
  to->tokens.n = (int)r->encoding->count;
  ATTEND_TRY(copy_ids(r, r->encoding->id, r->encoding->count, 0, &to->ids));
  return copy_ids(r, r->encoding->type, r->encoding->count, 0, &to->types);
}

/* A prompt has no end token behind it. */
static attend_status read_prompt(const reader *r, const char *text) {
  attend_text_tokens *to = r->to;
  attend_prompt p;
  ATTEND_TRY(encoded(r, attend_prompt_encode(r->model, r->encoding, text, strlen(text), &p)));
  to->tokens.n = p.count;
  return copy_ids(r, p.ids, (size_t)p.count, 0, &to->ids);
}

/* What the model itself writes, less its last token, which is then predicted. */
static attend_status write_second(const reader *r) {
  attend_text_tokens *to = r->to;
  attend_generate_options how = {ATTEND_INIT(attend_generate_options), .max_new = WRITTEN,
                                 .no_repeat = 3}; /* greedy summaries repeat themselves */
  attend_generation *g;
  attend_status status =
      attend_generate(r->model, 1, &(attend_prompt){to->ids, to->tokens.n}, &how, &g);
  const attend_continuation *c = status ? NULL : attend_generation_get(g, 0);
  int n = c ? c->count - (c->end == ATTEND_FINISH_TOKEN) : 0;
  n = n > 1 ? n - 1 : 0;
  if (!status) status = copy_ids(r, c ? c->ids : NULL, (size_t)n, 1, &to->decoder);
  to->tokens.n_decoder = 1 + n;
  if (status && g) fail(to->ctx, status, "%s", attend_generation_message(g));
  attend_generation_free(g);
  return status;
}

static attend_status read_second(const reader *r, const char *second) {
  attend_text_tokens *to = r->to;
  attend_encode_options how = {ATTEND_INIT(attend_encode_options), .no_special = true};
  if (second) {
    ATTEND_TRY(encoded(r, attend_encode(r->encoding, second, strlen(second), &how)));
    to->tokens.n_decoder = 1 + (int)r->encoding->count;
    ATTEND_TRY(copy_ids(r, r->encoding->id, r->encoding->count, 1, &to->decoder));
  } else {
    ATTEND_TRY(write_second(r));
  }
  to->decoder[0] = attend_config_get(&r->model->config, ATTEND_CONFIG_DECODER_START);
  return ATTEND_OK;
}

static attend_status read_all(const reader *r, const char *text, const char *second) {
  const attend_parts parts = r->model->config.parts;
  attend_text_tokens *to = r->to;
  ATTEND_CHECK(to->ctx, parts != ATTEND_DECODER || !second,
               "%s reads one text: leave \"%.80s\" away, or put quotes around the whole text",
               r->model->config.family, second);
  if (parts == ATTEND_DECODER)
    ATTEND_TRY(read_prompt(r, text));
  else
    ATTEND_TRY(read_encoder(r, text, parts == ATTEND_BOTH ? NULL : second));
  ATTEND_CHECK(to->ctx, to->tokens.n > 0, "the text has no tokens: write a longer one");
  return parts == ATTEND_BOTH ? read_second(r, second) : ATTEND_OK;
}

static void complete(const reader *r) {
  attend_text_tokens *to = r->to;
  const int32_t mask =
      r->tokenizer ? attend_tokenizer_special(r->tokenizer, ATTEND_SPECIAL_MASK) : -1;
  for (int i = to->tokens.n - 1; mask >= 0 && i >= 0; i--)
    if (to->ids[i] == mask) to->mask = i;
  to->tokens.ids = to->ids, to->tokens.types = to->types, to->tokens.decoder_ids = to->decoder;
}

static attend_status check_ids(const attend_model *m, int n, const int32_t *ids) {
  for (int i = 0; i < n; i++)
    ATTEND_CHECK(m->ctx, ids[i] >= 0 && ids[i] < m->config.vocab,
                 "there is no token %d: the model knows 0 to %d", (int)ids[i], m->config.vocab - 1);
  return ATTEND_OK;
}

static attend_status read_ids(const reader *r, const attend_tokens *x) {
  attend_text_tokens *to = r->to;
  ATTEND_CHECK(to->ctx, x->n > 0, "the text has no tokens: write a longer one");
  ATTEND_TRY(check_ids(r->model, x->n, x->ids));
  ATTEND_TRY(check_ids(r->model, x->n_decoder, x->decoder_ids));
  to->tokens.n = x->n;
  ATTEND_TRY(copy_ids(r, x->ids, (size_t)x->n, 0, &to->ids));
  if (r->model->config.parts != ATTEND_BOTH) return ATTEND_OK;
  if (!x->decoder_ids) return read_second(r, NULL);
  to->tokens.n_decoder = x->n_decoder;
  return copy_ids(r, x->decoder_ids, (size_t)x->n_decoder, 0, &to->decoder);
}

static attend_status open_reader(reader *r) {
  attend_context *ctx = r->model->ctx;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r->to, "the tokens of a text", &r->to));
  *r->to = (attend_text_tokens){.ctx = ctx, .tokens = {ATTEND_INIT(attend_tokens)}, .mask = -1};
  return ATTEND_OK;
}

static attend_status close_reader(reader *r, attend_status status, attend_text_tokens **out) {
  attend_encoding_free(r->encoding);
  if (!status) complete(r);
  if (status)
    attend_text_tokens_free(r->to);
  else
    *out = r->to;
  return status;
}

attend_status attend_text_tokens_create(attend_model *model, const attend_tokenizer *tokenizer,
                                        const char *text, const char *second,
                                        attend_text_tokens **out) {
  reader r = {.model = model, .tokenizer = tokenizer};
  *out = NULL;
  ATTEND_TRY(open_reader(&r));
  attend_status status = encoded(&r, attend_encoding_create(tokenizer, &r.encoding));
  if (!status) status = read_all(&r, text, second);
  return close_reader(&r, status, out);
}

attend_status attend_text_tokens_of_ids(attend_model *model, const attend_tokenizer *tokenizer,
                                        const attend_tokens *ids, attend_text_tokens **out) {
  reader r = {.model = model, .tokenizer = tokenizer};
  attend_tokens x;
  *out = NULL;
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_tokens, ids, &x));
  ATTEND_TRY(open_reader(&r));
  return close_reader(&r, read_ids(&r, &x), out);
}

void attend_text_tokens_free(attend_text_tokens *t) {
  if (!t) return;
  ctx_free(t->ctx, t->ids);
  ctx_free(t->ctx, t->types);
  ctx_free(t->ctx, t->decoder);
  ctx_free(t->ctx, t);
}

const attend_tokens *attend_text_tokens_get(const attend_text_tokens *t) { return &t->tokens; }
int attend_text_tokens_mask(const attend_text_tokens *t) { return t->mask; }
