/* Reading config.json: what the families share. Each family reads its own members
 * through the functions here.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/problem.h"
#include "base/files.h"
#include "model/family.h"

const char *const settings_files[] = {"config.json", "generation_config.json", NULL};
const char *const tokenizer_files[] = {"tokenizer.json",
                                       "vocab.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "merges.txt",
                                       "vocab.txt",
                                       "tokenizer.model",
                                       "spiece.model",
                                       "sentencepiece.bpe.model",
                                       "tokenizer.bin",
                                       "tok512.bin",
                                       NULL};

enum { LARGEST_SIZE = 1 << 28 };

static const family *const families[] = {
    &family_gpt2,    &family_llama, &family_bert, &family_distilbert,
    &family_roberta, &family_bart,  &family_t5,   NULL};

static const family *family_of(const char *type) {
  for (int i = 0; families[i]; i++)
    for (int j = 0; families[i]->types[j]; j++)
      if (!strcmp(families[i]->types[j], type)) return families[i];
  return NULL;
}

/* ---- one value ------------------------------------------------------------------- */

int64_t read_integer(config_reader *r, const char *name, int64_t low, int64_t high,
                     int64_t otherwise) {
  int64_t n = otherwise;
  if (!r->status)
    r->status = attend_json_read_integer(r->ctx, r->path, r->json, name, low, high, &n);
  return n;
}

int read_size(config_reader *r, const char *name, int otherwise) {
  int64_t n = read_integer(r, name, 1, LARGEST_SIZE, otherwise);
  if (n < 0) REFUSE(r, ATTEND_IO, "%s has no %s", r->path, name);
  return r->status ? 1 : (int)n;
}

int read_copy(config_reader *r) {
  return (int)read_integer(r, "attend_copy_width", 0, LARGEST_SIZE, 0);
}

double read_real_of(config_reader *r, const attend_json *object, const char *name, double low,
                    double high, double otherwise) {
  double x = otherwise;
  if (!r->status) r->status = attend_json_read_number(r->ctx, r->path, object, name, low, high, &x);
  return x;
}

/* Added to a variance that may be 0: must be positive in f32. */
float read_epsilon(config_reader *r, const char *name, double otherwise) {
  return (float)read_real_of(r, r->json, name, 1e-30, 1, otherwise);
}

bool read_switch(config_reader *r, const char *name, bool otherwise) {
  bool truth = otherwise;
  if (!r->status) r->status = attend_json_read_boolean(r->ctx, r->path, r->json, name, &truth);
  return truth;
}

const char *read_text_of(config_reader *r, const attend_json *object, const char *name,
                         const char *otherwise) {
  const char *text = otherwise;
  if (!r->status) r->status = attend_json_read_string(r->ctx, r->path, object, name, &text);
  return text;
}

const attend_json *read_tree(config_reader *r, const char *name, attend_json_kind kind) {
  const attend_json *tree = NULL;
  if (!r->status) r->status = attend_json_read_tree(r->ctx, r->path, r->json, name, kind, &tree);
  return tree;
}

void refuse_switch(config_reader *r, const char *name, const char *why) {
  if (read_switch(r, name, false))
    REFUSE(r, ATTEND_UNSUPPORTED, "%s: %s is not supported: %s", r->path, name, why);
}

attend_activation activation_called(config_reader *r, const char *text) {
  static const struct {
    const char *name;
    attend_activation is;
  } known[] = {{"relu", ATTEND_RELU},           {"gelu", ATTEND_GELU},
               {"gelu_new", ATTEND_GELU_TANH},  {"gelu_pytorch_tanh", ATTEND_GELU_TANH},
               {"gelu_fast", ATTEND_GELU_TANH}, {"gelu_python", ATTEND_GELU},
               {"silu", ATTEND_SILU},           {"swish", ATTEND_SILU},
               {"tanh", ATTEND_TANH},           {"linear", ATTEND_IDENTITY}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(text, known[i].name)) return known[i].is;
  REFUSE(r, ATTEND_UNSUPPORTED,
         "%s: the activation \"%.40s\" is not supported: use relu, gelu, gelu_new, silu or tanh",
         r->path, text);
  return ATTEND_IDENTITY;
}

attend_activation read_activation(config_reader *r, const char *name, const char *otherwise) {
  return activation_called(r, read_text_of(r, r->json, name, otherwise));
}

void complete_stack(config_reader *r, attend_stack *s) {
  if (s->kv_heads == 0) s->kv_heads = s->heads;
  if (s->dim == 0 && s->width % s->heads)
    REFUSE(r, ATTEND_IO, "%s: a width of %d cannot be cut into %d heads", r->path, s->width,
           s->heads);
  if (s->dim == 0) s->dim = s->width / s->heads;
  if (s->dim_v == 0) s->dim_v = read_size(r, "v_head_dim", s->dim);
  if (s->heads % s->kv_heads)
    REFUSE(r, ATTEND_IO, "%s: %d heads cannot share %d key-value heads", r->path, s->heads,
           s->kv_heads);
  if ((int64_t)s->heads * (s->dim + 2 * s->dim_v) > LARGEST_SIZE || s->layers > ATTEND_MOST_LAYERS)
    REFUSE(r, ATTEND_IO, "%s: %d layers of %d heads of %d are too many", r->path, s->layers,
           s->heads, s->dim);
}

/* ---- rotary positions ------------------------------------------------------------------ */

static double yarn_stretch(double factor, double by) {
  return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* All positive where given. */
static const double MOST_ROPE = 1e12;

static double rope_number(config_reader *r, const attend_json *rope, const char *name,
                          double otherwise) {
  return read_real_of(r, rope, name, 1e-12, MOST_ROPE, otherwise);
}

static void read_yarn(config_reader *r, const attend_json *rope, attend_rope *p) {
  p->low = rope_number(r, rope, "beta_slow", 1);
  p->high = rope_number(r, rope, "beta_fast", 32);
  p->attention_factor = read_real_of(r, rope, "attention_factor", 0, MOST_ROPE, 0);
  double over = read_real_of(r, rope, "mscale", 0, MOST_ROPE, 0);
  double under = read_real_of(r, rope, "mscale_all_dim", 0, MOST_ROPE, 0);
  if (p->attention_factor == 0 && over != 0 && under != 0)
    p->attention_factor = yarn_stretch(p->factor, over) / yarn_stretch(p->factor, under);
}

static void read_scaling(config_reader *r, const attend_json *rope, attend_rope *p) {
  static const char *const types[] = {"default", "linear", "llama3", "yarn"};
  int scaling = ATTEND_ROPE_PLAIN;
  const char *type = read_text_of(r, rope, "type", types[scaling]);
  type = read_text_of(r, rope, "rope_type", type);
  if (r->status) return;
  while (scaling <= ATTEND_ROPE_YARN && strcmp(type, types[scaling])) scaling++;
  if (scaling > ATTEND_ROPE_YARN)
    REFUSE(r, ATTEND_UNSUPPORTED,
           "%s: rotary scaling of type \"%.40s\" is not supported: default, "
           "linear, llama3 and yarn are",
           r->path, type);
  p->scaling = scaling;
  if (scaling == ATTEND_ROPE_LLAMA3) {
    p->low = rope_number(r, rope, "low_freq_factor", 1);
    p->high = rope_number(r, rope, "high_freq_factor", 4);
  }
  if (scaling == ATTEND_ROPE_YARN) read_yarn(r, rope, p);
}

void read_rope(config_reader *r, attend_config *c, int dim) {
  const attend_json *rope = read_tree(r, "rope_parameters", ATTEND_JSON_OBJECT);
  if (!rope) rope = read_tree(r, "rope_scaling", ATTEND_JSON_OBJECT);
  double theta = rope_number(r, r->json, "rope_theta", 10000);
  c->rope.theta = rope_number(r, rope, "rope_theta", theta);
  c->rope.factor = rope_number(r, rope, "factor", 1);
  c->rope.context = rope_number(r, rope, "original_max_position_embeddings", (double)c->positions);
  read_scaling(r, rope, &c->rope);
  bool ordered = c->rope.scaling != ATTEND_ROPE_LLAMA3 || c->rope.high > c->rope.low;
  if (!ordered || dim % 2)
    REFUSE(r, ATTEND_IO,
           "%s: rotary positions need an even head_dim and a high_freq_factor "
           "above low_freq_factor",
           r->path);
}

/* ---- token ids ------------------------------------------------------------------- */

/* Some configurations name ids outside the vocabulary (pad -1). Such an id counts as
 * none and leaves the value read before. */
static void read_id(config_reader *r, const char *name, const attend_config *c, int *id) {
  int64_t n = read_integer(r, name, INT64_MIN, INT64_MAX, -1);
  if (n >= 0 && n < c->vocab) *id = (int)n;
}

/* One id, or an array of them. */
static void read_eos(config_reader *r, attend_config *c) {
  static const char name[] = "eos_token_id";
  const attend_json *value = attend_json_get(r->json, name);
  bool list = attend_json_kind_of(value) == ATTEND_JSON_ARRAY;
  int n = 0;
  for (size_t i = 0; i < (list ? attend_json_count(value) : 1); i++) {
    int64_t id = list ? -1 : read_integer(r, name, INT64_MIN, INT64_MAX, -1);
    if (list && !attend_json_integer(attend_json_at(value, i), &id))
      REFUSE(r, ATTEND_IO,
             "%s: element %zu of %s is not a whole number: expected the ids of tokens", r->path, i,
             name);
    if (id >= 0 && id < c->vocab && n < ATTEND_MOST_EOS) c->eos[n++] = (int)id;
  }
  if (n) c->n_eos = n;
}

static void read_ids(config_reader *r, attend_config *c) {
  read_id(r, "bos_token_id", c, &c->bos);
  read_id(r, "pad_token_id", c, &c->pad);
  read_id(r, "decoder_start_token_id", c, &c->decoder_start);
  read_id(r, "forced_bos_token_id", c, &c->forced_bos);
  read_id(r, "forced_eos_token_id", c, &c->forced_eos);
  read_eos(r, c);
}

/* An extension that Hugging Face's readers ignore: a model trained with another form
 * needs that form. */
static void read_form(config_reader *r, attend_config *c) {
  const char *text = read_text_of(r, r->json, "attend_attention", NULL);
  if (text) snprintf(c->attention, sizeof c->attention, "%s", text);
  if (text && !r->status) r->status = attend_form_parse(r->ctx, text, &c->form);
  text = read_text_of(r, r->json, "attend_attention_roles", NULL);
  if (text && !r->status) r->status = attend_roles_parse(r->ctx, text, &c->roles);
}

/* ---- forms by role --------------------------------------------------------------- */

static const char gaps[] = ", ";

attend_status attend_roles_parse(attend_context *ctx, const char *text, unsigned *roles) {
  *roles = 0;
  for (const char *at = text + strspn(text, gaps); *at; at += strspn(at, gaps)) {
    size_t n = strcspn(at, gaps);
    unsigned found = 0;
    for (int i = 0; i < ATTEND_ROLES; i++) {
      const char *name = attend_role_name((attend_role)i);
      if (strlen(name) == n && !strncmp(name, at, n)) found = 1u << i;
    }
    ATTEND_CHECK(ctx, found, "attention has the roles encoder, decoder and cross, not \"%.*s\"",
                 n < 40 ? (int)n : 40, at);
    *roles |= found;
    at += n;
  }
  ATTEND_CHECK(ctx, *roles, "name a role of attention: encoder, decoder or cross");
  return ATTEND_OK;
}

const char *attend_roles_text(unsigned roles, char text[ATTEND_ROLES_TEXT]) {
  size_t n = 0;
  *text = 0;
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (roles & 1u << i)
      n += (size_t)snprintf(text + n, ATTEND_ROLES_TEXT - n, "%s%s", n ? "," : "",
                            attend_role_name((attend_role)i));
  return text;
}

unsigned roles_of(attend_parts parts) {
  return (parts & ATTEND_ENCODER ? ATTEND_IN_ENCODER : 0u) |
         (parts & ATTEND_DECODER ? ATTEND_IN_DECODER : 0u) |
         (parts == ATTEND_BOTH ? ATTEND_IN_CROSS : 0u);
}

attend_status attend_config_forms(attend_context *ctx, const attend_config *c,
                                  const attend_form *form, unsigned roles,
                                  attend_form forms[ATTEND_ROLES]) {
  char text[ATTEND_ROLES_TEXT];
  ATTEND_CHECK(ctx, form || !roles, "roles of attention say where a form is: name one");
  ATTEND_CHECK(ctx, !roles || roles & roles_of(c->parts), "a %s has no attention of the role %s",
               c->family, attend_roles_text(roles, text));
  for (int i = 0; i < ATTEND_ROLES; i++) {
    bool requested = form && (!roles || roles & 1u << i);
    bool trained = !c->roles || c->roles & 1u << i;
    forms[i] = requested ? *form : trained ? c->form : (attend_form){0};
  }
  return ATTEND_OK;
}

/* ---- the whole ------------------------------------------------------------------- */

static attend_status read_config(attend_context *ctx, const char *path, const attend_json *json,
                                 const family **f, attend_config *c) {
  config_reader r = {ctx, json, path, ATTEND_OK};
  read_tree(&r, NULL, ATTEND_JSON_OBJECT);
  const char *type = read_text_of(&r, json, "model_type", NULL);
  if (r.status) return r.status;
  if (!type) return fail(ctx, ATTEND_IO, "%s has no model_type", path);
  if (!*f) *f = family_of(type);
  if (!*f)
    return fail(ctx, ATTEND_UNSUPPORTED,
                "%s: models of type \"%.40s\" are not supported: gpt2, llama, "
                "mistral, bert, distilbert, roberta, bart and t5 are",
                path, type);
  snprintf(c->family, sizeof c->family, "%s", type);
  c->embed_factor = c->head_factor = 1;
  c->bos = c->pad = c->decoder_start = c->forced_bos = c->forced_eos = -1;
  (*f)->configure(&r, c);
  read_ids(&r, c);
  read_form(&r, c);
  return r.status;
}

/* generation_config.json, if it is beside config.json, takes precedence. */
static attend_status read_generation(attend_context *ctx, const char *folder, attend_config *c) {
  char path[LONGEST_PATH];
  attend_json *json;
  if (!file_beside(folder, "generation_config.json", path, sizeof path)) return ATTEND_OK;
  ATTEND_TRY(json_read(ctx, path, &json));
  config_reader r = {ctx, json, path, ATTEND_OK};
  read_tree(&r, NULL, ATTEND_JSON_OBJECT);
  read_ids(&r, c);
  attend_json_free(json);
  return r.status;
}

/* Common mistakes: files that are models in other formats, not JSON. */
static attend_status refuse_weights(attend_context *ctx, const char *path) {
  unsigned char head[9] = {0};
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  const char *what = NULL;
  if (n >= 4 && !memcmp(head, "GGUF", 4))
    what = "a GGUF file of llama.cpp, which is not read: give";
  if (n >= 4 && !memcmp(head, "PK\3\4", 4)) what = "a PyTorch checkpoint, which is not read: give";
  if (n == sizeof head && head[8] == '{' && !head[5] && !head[6] && !head[7])
    what = "a file of weights (safetensors): give the folder that it is in, or";
  if (!what) return ATTEND_OK;
  return fail(ctx, ATTEND_IO,
              "%s is %s a folder with config.json, model.safetensors and a tokenizer", path, what);
}

attend_status config_read_as(attend_context *ctx, const char *path, const family **f,
                             attend_config *config) {
  char inside[LONGEST_PATH];
  struct stat info;
  attend_json *json;
  bool folder = file_beside(path, "config.json", inside, sizeof inside);
  memset(config, 0, sizeof *config);
  if (!folder && !stat(path, &info) && S_ISDIR(info.st_mode))
    return fail(ctx, ATTEND_IO,
                "%s has no config.json: a model is a folder with config.json, "
                "weights and a tokenizer",
                path);
  if (!folder) ATTEND_TRY(refuse_weights(ctx, path));
  ATTEND_TRY(json_read(ctx, folder ? inside : path, &json));
  attend_status status = read_config(ctx, folder ? inside : path, json, f, config);
  attend_json_free(json);
  if (!status && folder) status = read_generation(ctx, path, config);
  return status;
}

attend_status config_read(attend_context *ctx, const char *path, attend_config *config) {
  const family *f = NULL;
  return config_read_as(ctx, path, &f, config);
}

attend_status attend_config_read(attend_context *ctx, const char *path, attend_config **config) {
  *config = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof **config, "a configuration", config));
  attend_status status = config_read(ctx, path, *config);
  (*config)->ctx = ctx;
  if (!status) return ATTEND_OK;
  attend_config_free(*config);
  *config = NULL;
  return status;
}

attend_status attend_config_of_stacks(attend_context *ctx, const attend_stack *encoder,
                                      const attend_stack *decoder, int vocab,
                                      attend_config **config) {
  attend_config *c;
  *config = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *c, "a configuration", &c));
  c->ctx = ctx;
  snprintf(c->family, sizeof c->family, "tensors");
  c->encoder = *encoder;
  c->decoder = *decoder;
  c->parts = (attend_parts)((encoder->layers ? ATTEND_ENCODER : 0) |
                            (decoder->layers ? ATTEND_DECODER : 0));
  c->vocab = vocab;
  c->position = ATTEND_POSITIONS_SINUSOIDAL;
  c->bos = c->pad = c->decoder_start = c->forced_bos = c->forced_eos = -1;
  *config = c;
  return ATTEND_OK;
}

void attend_config_free(attend_config *config) {
  if (config) ctx_free(config->ctx, config);
}

/* ---- access ---------------------------------------------------------------------- */

const char *attend_config_family(const attend_config *c) { return c->family; }
attend_parts attend_config_parts(const attend_config *c) { return c->parts; }
const attend_stack *attend_config_stack(const attend_config *c, attend_parts side) {
  return side == ATTEND_ENCODER ? &c->encoder : &c->decoder;
}
int attend_config_eos(const attend_config *c, int i) {
  return i >= 0 && i < c->n_eos ? c->eos[i] : -1;
}
double attend_config_norm_eps(const attend_config *c) { return (double)c->norm_eps; }
double attend_config_rope_theta(const attend_config *c) { return c->rope.theta; }
const attend_form *attend_config_form(const attend_config *c) { return &c->form; }
const char *attend_config_attention(const attend_config *c) { return c->attention; }
unsigned attend_config_roles(const attend_config *c) { return c->roles; }

int attend_config_get(const attend_config *c, attend_config_key key) {
  const int numbers[] = {[ATTEND_CONFIG_VOCAB] = c->vocab,
                         [ATTEND_CONFIG_TYPES] = c->types,
                         [ATTEND_CONFIG_POSITIONS] = c->positions,
                         [ATTEND_CONFIG_POSITION] = (int)c->position,
                         [ATTEND_CONFIG_BUCKETS] = c->buckets,
                         [ATTEND_CONFIG_MAX_DISTANCE] = c->max_distance,
                         [ATTEND_CONFIG_NORMS] = (int)c->norms,
                         [ATTEND_CONFIG_RMS] = c->rms,
                         [ATTEND_CONFIG_EMBED_NORM] = c->embed_norm,
                         [ATTEND_CONFIG_FINAL_NORM] = c->final_norm,
                         [ATTEND_CONFIG_ACTIVATION] = (int)c->activation,
                         [ATTEND_CONFIG_GATED] = c->gated,
                         [ATTEND_CONFIG_TRANSFORM] = c->transform,
                         [ATTEND_CONFIG_TIED] = c->tied,
                         [ATTEND_CONFIG_COPY] = c->copy,
                         [ATTEND_CONFIG_BOS] = c->bos,
                         [ATTEND_CONFIG_PAD] = c->pad,
                         [ATTEND_CONFIG_DECODER_START] = c->decoder_start,
                         [ATTEND_CONFIG_FORCED_BOS] = c->forced_bos,
                         [ATTEND_CONFIG_FORCED_EOS] = c->forced_eos};
  return (size_t)key < sizeof numbers / sizeof *numbers ? numbers[key] : 0;
}
