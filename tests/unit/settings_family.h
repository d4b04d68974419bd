/* A test family whose config.json has every setting of the forward pass;
 * tests/golden/make_settings.py is the reference implementation. */
#ifndef TESTS_SETTINGS_FAMILY_H
#define TESTS_SETTINGS_FAMILY_H

#include "model/checkpoint.h"

/* ---- the family ------------------------------------------------------------------ */

static inline int toy_choice(config_reader *r, const char *name, const char *const names[]) {
  const char *text = read_text_of(r, r->json, name, names[0]);
  for (int i = 0; !r->status && names[i]; i++)
    if (!strcmp(text, names[i])) return i;
  if (!r->status)
    r->status = fail(r->ctx, ATTEND_IO, "%s: %s cannot be \"%s\"", r->path, name, text);
  return 0;
}

static inline double toy_number(config_reader *r, const char *name) {
  return read_real_of(r, r->json, name, 0, 1e6, 0);
}

static inline void toy_sizes(config_reader *r, attend_config *c) {
  attend_stack *s = &c->decoder;
  c->parts = ATTEND_DECODER;
  s->layers = read_size(r, "layers", -1);
  s->width = read_size(r, "width", -1);
  s->heads = read_size(r, "heads", -1);
  s->kv_heads = read_size(r, "kv_heads", -1);
  s->dim = read_size(r, "dim", -1);
  s->mlp = read_size(r, "mlp", -1);
  complete_stack(r, s);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "max_positions", -1);
}

static inline void toy_attention(config_reader *r, attend_config *c) {
  c->rotary = (int)toy_number(r, "rotary_dim");
  if (c->rotary) c->position = ATTEND_POSITIONS_ROTARY;
  c->rope.theta = toy_number(r, "rope_theta");
  c->rope_sliding.theta = toy_number(r, "rope_theta_local");
  c->score_factor = (float)toy_number(r, "query_scale");
  c->score_cap = (float)toy_number(r, "score_cap");
  c->window = (int)toy_number(r, "sliding_window");
  const attend_json *types = read_tree(r, "layer_types", ATTEND_JSON_ARRAY);
  c->some_slide = 1;
  for (size_t i = 0; i < attend_json_count(types); i++)
    if (!strcmp(attend_json_string(attend_json_at(types, i), NULL), "sliding"))
      c->slides[i / 8] |= (unsigned char)(1 << i % 8);
}

/* All but norms of queries and keys. */
static inline void toy_configure(config_reader *r, attend_config *c) {
  static const char *const norms[] = {"before", "sum", "after", "both", "none", NULL};
  static const char *const parallel[] = {"none", "shared", "separate", NULL};
  toy_sizes(r, c);
  toy_attention(r, c);
  c->norms = (attend_norms)toy_choice(r, "norm", norms);
  c->parallel = (attend_parallel)toy_choice(r, "parallel", parallel);
  c->rms = read_switch(r, "rms", false);
  c->norm_eps = read_epsilon(r, "norm_eps", 1);
  c->final_norm = read_switch(r, "final_norm", false);
  c->logit_cap = (float)toy_number(r, "logit_cap");
  c->embed_factor = (float)toy_number(r, "embed_scale");
  c->layer_groups = (int)toy_number(r, "layer_groups");
  c->embed_width = (int)toy_number(r, "embed_width");
  c->gated = read_switch(r, "gated", false);
  c->activation = read_activation(r, "activation", "none");
  c->tied = read_switch(r, "tied", false);
  c->transform = c->tied && c->embed_width;
}

#define IN 0 /* of either side: a toy has one */
enum { ANY = BIASED | MAY_LACK };

#define TOY_LINES                                                                               \
  {TOKENS, 0, "embed", "VD", 0}, {PROJECTION, IN, "embed_projection", "FD", BIASED},            \
      {SELF_NORM, IN, "layers.%d.attn_norm", "F", ANY}, {SELF_Q, IN, "layers.%d.q", "QF", ANY}, \
      {SELF_K, IN, "layers.%d.k", "KF", ANY}, {SELF_V, IN, "layers.%d.v", "WF", ANY},           \
      {SELF_O, IN, "layers.%d.o", "FO", ANY},                                                   \
      {SELF_AFTER_NORM, IN, "layers.%d.attn_after_norm", "F", ANY},                             \
      {MLP_NORM, IN, "layers.%d.mlp_norm", "F", ANY},                                           \
      {MLP_GATE, IN, "layers.%d.gate", "IF", ANY | IF_GATED},                                   \
      {MLP_UP, IN, "layers.%d.up", "IF", ANY}, {MLP_DOWN, IN, "layers.%d.down", "FI", ANY},     \
      {MLP_AFTER_NORM, IN, "layers.%d.mlp_after_norm", "F", ANY},                               \
      {FINAL_NORM, IN, "final_norm", "F", ANY}, {TRANSFORM, 0, "transform", "DF", ANY}, {       \
    HEAD, 0, "head", "VF", ANY | OUTSIDE                                                        \
  }

static const line toy_lines[] = {TOY_LINES, {.name = NULL}};
static const family toy = {{"toy"}, "", toy_configure, toy_lines};

/* ---- and with norms of queries and keys: two lines and a setting ------------------- */

static inline void toy_configure_qk(config_reader *r, attend_config *c) {
  static const char *const kinds[] = {"none", "head", "all", NULL};
  c->qk_norm = (attend_qk_norm)toy_choice(r, "qk_norm", kinds);
  toy_configure(r, c);
}

static const line toy_head_lines[] = {TOY_LINES,
                                      {Q_NORM, IN, "layers.%d.q_norm", "N", ANY},
                                      {K_NORM, IN, "layers.%d.k_norm", "N", ANY},
                                      {.name = NULL}};
static const line toy_all_lines[] = {TOY_LINES,
                                     {Q_NORM, IN, "layers.%d.q_norm", "Q", ANY},
                                     {K_NORM, IN, "layers.%d.k_norm", "K", ANY},
                                     {.name = NULL}};
static const family toy_qk_head = {{"toy"}, "", toy_configure_qk, toy_head_lines};
static const family toy_qk_all = {{"toy"}, "", toy_configure_qk, toy_all_lines};

#endif
