/* The changes that the options name, and the texts and vectors that they take values from. */
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "intervene/intervene.h"

enum { MOST_CHANGES = 256, MOST_TEXTS = 256, CORPUS_TOKENS = 128 };

attend_change_kind kind_of_mode(int mode) {
  return mode == MODE_MEAN       ? ATTEND_CHANGE_MEAN
         : mode == MODE_RESAMPLE ? ATTEND_CHANGE_PATCH
                                 : ATTEND_CHANGE_ZERO;
}

/* ---- places -------------------------------------------------------------------------------- */

static int add_change(const model_opened *m, change_list *list, attend_change_kind kind,
                      const char *name, const char *place) {
  if (list->n == MOST_CHANGES) {
    complain("more than %d changes: write ranges, such as 0-3.*", MOST_CHANGES);
    return EXIT_USAGE;
  }
  attend_status status = attend_change_parse(m->ctx, kind, place, &list->change[list->n]);
  if (status) return complain_status(m->ctx, status);
  list->kind[list->n] = name;
  list->place[list->n++] = need_copy(place);
  return EXIT_OK;
}

/* Places between commas. */
static int add_places(const model_opened *m, change_list *list, attend_change_kind kind,
                      const char *name, const char *text) {
  int code = EXIT_OK;
  char *copy = need_copy(text), *rest = copy, *place;
  while (!code && (place = strsep(&rest, ", ")))
    if (*place) code = add_change(m, list, kind, name, place);
  free(copy);
  return code;
}

static int add_all(const model_opened *m, change_list *list, attend_change_kind kind,
                   const char *name, const text_list *given) {
  int code = EXIT_OK;
  for (size_t i = 0; i < given->count && !code; i++)
    code = add_places(m, list, kind, name, given->text[i]);
  return code;
}

/* ---- other texts ---------------------------------------------------------------------------- */

/* A line of the corpus; an encoder-decoder's is two texts with a tab between them. */
static int add_text(const model_opened *m, change_list *list, const char *line, size_t length) {
  char *text = text_copy(line, length), *tab = strchr(text, '\t');
  const bool both = attend_config_parts(attend_model_config(m->model)) == ATTEND_BOTH;
  token_text *t = &list->corpus[list->n_corpus];
  int code = EXIT_OK;
  if (both && tab) *tab++ = 0;
  if (both && !tab) {
    complain("--corpus: each line has two texts for an encoder-decoder, with a tab between them");
    code = EXIT_USAGE;
  }
  if (!code) code = token_text_read(m, &(token_source){text, both ? tab : NULL, NULL, NULL}, t);
  if (!code && t->tokens.n > CORPUS_TOKENS) t->tokens.n = CORPUS_TOKENS;
  if (!code) list->corpus_tokens[list->n_corpus] = t->tokens;
  list->n_corpus++;
  free(text);
  return code;
}

static int read_corpus(const model_opened *m, const char *path, change_list *list) {
  size_t length;
  char *text = input_file(path, &length);
  int code = EXIT_OK;
  if (!text) return EXIT_FAILED;
  list->corpus = need(MOST_TEXTS, sizeof *list->corpus);
  list->corpus_tokens = need(MOST_TEXTS, sizeof *list->corpus_tokens);
  for (size_t at = 0, n; at < length && list->n_corpus < MOST_TEXTS && !code; at += n + 1) {
    const char *end = memchr(text + at, '\n', length - at);
    n = end ? (size_t)(end - text) - at : length - at;
    if (n && strspn(text + at, " \t\r") < n) code = add_text(m, list, text + at, n);
  }
  free(text);
  if (!code && !list->n_corpus) {
    complain("--corpus %s has no texts: write one on each line", path);
    code = EXIT_USAGE;
  }
  return code;
}

static int read_sources(const model_opened *m, const intervene_options *o, change_list *list) {
  int code = EXIT_OK;
  if (o->from.text || o->from.ids) code = token_text_read(m, &o->from, &list->from);
  if (!code && o->corpus) code = read_corpus(m, o->corpus, list);
  return code;
}

void change_sources(const change_list *list, attend_change *c) {
  if (c->kind == ATTEND_CHANGE_PATCH && list->from.tokens.n) {
    c->from = &list->from.tokens;
    c->n_from = 1;
  }
  if (c->kind == ATTEND_CHANGE_MEAN && list->n_corpus) {
    c->from = list->corpus_tokens;
    c->n_from = list->n_corpus;
  }
}

/* ---- steering vectors -------------------------------------------------------------------------- */

/* "..*2": cuts the factor off; a * that stands for all layers or heads is none. */
static float cut_factor(char *text) {
  char *star = strrchr(text, '*'), *end;
  if (!star || star == text || star[-1] == ':' || star[-1] == '.') return 1;
  float factor = strtof(star + 1, &end);
  if (end == star + 1 || *end) return 1;
  *star = 0;
  return factor;
}

static int convert(const attend_tensor *t, float *to) {
  const attend_dtype type = t->stored == ATTEND_STORED_F16    ? ATTEND_F16
                            : t->stored == ATTEND_STORED_BF16 ? ATTEND_BF16
                                                              : ATTEND_F32;
  if (t->stored != ATTEND_STORED_F32 && type == ATTEND_F32) {
    complain("--steer: %s is stored as %s: store it as F32, F16 or BF16", t->name, t->dtype);
    return EXIT_USAGE;
  }
  void *aligned = need(t->bytes, 1);
  memcpy(aligned, t->data, t->bytes);
  attend_convert_to_f32(type, aligned, (size_t)t->count, to);
  free(aligned);
  return EXIT_OK;
}

/* FILE:NAME, a tensor with as many numbers as the point is wide. */
static int read_vector(const model_opened *m, char *from, int width, float *vector) {
  char *name = strrchr(from, ':');
  attend_tensor_file *file;
  if (name) *name++ = 0;
  if (!name || !*from) {
    complain("--steer: name a tensor of a file, as in residual:6=vectors.safetensors:love");
    return EXIT_USAGE;
  }
  attend_status status = attend_tensor_file_open(m->ctx, from, &file);
  if (status) return complain_status(m->ctx, status);
  const attend_tensor *t = attend_tensor_file_find(file, name);
  int code = EXIT_OK;
  if (!t || t->count != width) {
    complain(t ? "--steer: %s of %s has %lld numbers, and a row there has %d"
               : "--steer: there is no tensor %s in %s",
             name, from, t ? (long long)t->count : 0, width);
    code = EXIT_USAGE;
  } else {
    code = convert(t, vector);
  }
  attend_tensor_file_free(file);
  return code;
}

static int text_vector(const model_opened *m, const intervene_options *o, const attend_change *c,
                       float *vector) {
  token_text plus = {0}, minus = {0};
  int code = token_text_read(m, &(token_source){.text = o->steer_from}, &plus);
  if (!code && o->minus) code = token_text_read(m, &(token_source){.text = o->minus}, &minus);
  attend_status status = ATTEND_OK;
  if (!code)
    status =
        attend_steering_vector(m->model, c, &plus.tokens, o->minus ? &minus.tokens : NULL, vector);
  token_text_free(&plus);
  token_text_free(&minus);
  return status ? complain_status(m->ctx, status) : code;
}

/* PLACE=FILE:NAME*FACTOR, or with --steer-from PLACE*FACTOR. */
static int add_steering(const model_opened *m, const intervene_options *o, const char *given,
                        change_list *list) {
  char *text = need_copy(given), *file = strchr(text, '=');
  int width = 0;
  if (file) *file++ = 0;
  const float factor = cut_factor(file ? file : text);
  int code = add_change(m, list, ATTEND_CHANGE_ADD, "steer", text);
  if (!code && !file && !o->steer_from) {
    complain("--steer %s: add =FILE.safetensors:NAME, or name texts with --steer-from", given);
    code = EXIT_USAGE;
  }
  if (!code) {
    attend_change *c = &list->change[list->n - 1];
    attend_status status = attend_change_shape(m->model, c, NULL, NULL, &width);
    if (status) code = complain_status(m->ctx, status);
    c->vector = list->vectors[list->n - 1] = need((size_t)width, sizeof(float));
    c->factor = zero_or(factor);
    if (!code)
      code = file ? read_vector(m, file, width, list->vectors[list->n - 1])
                  : text_vector(m, o, c, list->vectors[list->n - 1]);
  }
  free(text);
  return code;
}

/* ---- all of them -------------------------------------------------------------------------------- */

static const char *name_of_mode(int mode) {
  return mode == MODE_MEAN ? "mean" : mode == MODE_RESAMPLE ? "resample" : "ablate";
}

int changes_read(const model_opened *m, const intervene_options *o, change_list *list) {
  list->change = need(MOST_CHANGES, sizeof *list->change);
  list->kind = need(MOST_CHANGES, sizeof *list->kind);
  list->place = need(MOST_CHANGES, sizeof *list->place);
  list->vectors = need(MOST_CHANGES, sizeof *list->vectors);
  int code = read_sources(m, o, list);
  if (!code) code = add_all(m, list, kind_of_mode(o->mode), name_of_mode(o->mode), &o->ablate);
  if (!code) code = add_all(m, list, ATTEND_CHANGE_PATCH, "patch", &o->patch);
  if (!code) code = add_all(m, list, ATTEND_CHANGE_PIN, "pin", &o->pin);
  for (size_t i = 0; i < o->steer.count && !code; i++)
    code = add_steering(m, o, o->steer.text[i], list);
  for (int i = 0; i < list->n; i++) change_sources(list, &list->change[i]);
  return code;
}

void changes_free(change_list *list) {
  for (int i = 0; i < list->n; i++) {
    free((char *)list->place[i]);
    free(list->vectors[i]);
  }
  for (int i = 0; i < list->n_corpus; i++) token_text_free(&list->corpus[i]);
  token_text_free(&list->from);
  free(list->corpus);
  free(list->corpus_tokens);
  free(list->change);
  free(list->kind);
  free(list->place);
  free(list->vectors);
  *list = (change_list){0};
}
