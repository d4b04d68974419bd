/* base/: the files that every saved step includes beside its weights.
 *
 * config.json and the tokenizer's files, from a model, from a tokenizer, or new; written
 * as a whole or not at all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "folders.h"
#include "model_open.h"
#include "table.h"
#include "text.h"
#include "train/train.h"

/* ---- copying ---------------------------------------------------------------------- */

static char *read_one(const char *path, size_t *length, int *code) {
  FILE *in = file_bytes(path) >= 0 ? fopen(path, "rb") : NULL;
  char *text = in ? input_all(in, path, length, code) : NULL;
  if (in) fclose(in);
  return text;
}

static int copy_one(train_run *run, const char *from, const char *to, const char *name) {
  char *a = path_of("%s/%s", from, name), *b = path_of("%s/%s", to, name);
  int code = EXIT_OK;
  size_t length;
  char *text = read_one(a, &length, &code);
  if (text && !code && attend_file_write(run->ctx, b, text, length))
    code = complain_status(run->ctx, ATTEND_IO);
  free(text);
  free(a);
  free(b);
  return code;
}

static int copy_all(train_run *run, const char *from, const char *to, const char *const *files) {
  int code = EXIT_OK;
  for (int i = 0; !code && files[i]; i++) code = copy_one(run, from, to, files[i]);
  return code;
}

/* ---- tokenizers -------------------------------------------------------------------- */

/* The folder that a tokenizer lies in: it, or that of one of its files. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (int i = 0; file_bytes(path) >= 0 && tokenizer_files[i]; i++)
    if (!strcmp(name, tokenizer_files[i]))
      return slash ? path_of("%.*s", (int)(slash - path), path) : need_copy(".");
  return need_copy(path);
}

/* Loads it once, so that errors name the original path. */
static int check_tokenizer(const train_run *run, const char *path, const char *remedy) {
  attend_tokenizer *t;
  attend_status status = attend_tokenizer_load(run->ctx, path, &t);
  attend_tokenizer_free(t);
  if (!status) return EXIT_OK;
  complain("%s%s", attend_message(run->ctx), remedy);
  return EXIT_FAILED;
}

static int take_tokenizer(train_run *run, const char *folder) {
  int code;
  char *path = model_path(run->s->tokenizer, &code);
  if (code) return code;
  char *from = folder_of(path);
  if (!is_folder(from)) {
    complain("%s is no folder: a tokenizer's files lie in one", path);
    code = EXIT_USAGE;
  }
  if (!code) code = check_tokenizer(run, from, "");
  if (!code) code = copy_all(run, from, folder, tokenizer_files);
  free(from);
  free(path);
  return code;
}

/* ---- config.json ---------------------------------------------------------------------- */

int train_special(const train_run *run, attend_special which, attend_special otherwise) {
  int id = attend_tokenizer_special(run->tokenizer, which);
  return id >= 0 ? id : attend_tokenizer_special(run->tokenizer, otherwise);
}

/* Positions that are never trained would be noise: no more than are used. */
static int write_config(train_run *run, const char *folder) {
  attend_architecture a = run->s->made;
  a.roles = run->roles;
  a.vocab = attend_tokenizer_count(run->tokenizer);
  const int bos = train_special(run, ATTEND_SPECIAL_BOS, ATTEND_SPECIAL_CLS);
  const int eos = train_special(run, ATTEND_SPECIAL_EOS, ATTEND_SPECIAL_SEP);
  const int pad = train_special(run, ATTEND_SPECIAL_PAD, ATTEND_SPECIAL_PAD);
  a.bos = &bos;
  a.eos = &eos;
  a.pad = pad < 0 ? &eos : &pad;
  if (!a.positions) a.positions = run->s->length ? run->s->length : 256;
  char *path = path_of("%s/config.json", folder);
  attend_status status = attend_config_write(run->ctx, path, &a);
  free(path);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static void put_config(attend_json_writer *w, const attend_json *config, const char *attention,
                       unsigned roles) {
  static const char member[] = "attend_attention";
  static const char where[] = "attend_attention_roles";
  char text[ATTEND_ROLES_TEXT];
  attend_json_indent(w, true);
  attend_json_open(w, '{');
  for (size_t i = 0; i < attend_json_count(config); i++) {
    const attend_json *one = attend_json_at(config, i);
    const char *name = attend_json_name(one, NULL);
    if (!name || !strcmp(name, member) || !strcmp(name, where)) continue;
    attend_json_member(w, name);
    json_tree(w, one);
  }
  json_text(w, member, attention);
  if (roles) json_text(w, where, attend_roles_text(roles, text));
  attend_json_close(w, '}');
}

static attend_status rewrite_config(train_run *run, const char *path, const char *text,
                                    size_t length) {
  attend_json *config;
  attend_json_writer w = attend_json_writer_text(run->ctx);
  attend_status status = attend_json_parse(run->ctx, path, text, length, &config);
  if (status) return status;
  put_config(&w, config, run->s->made.attention, run->roles);
  status = attend_json_finish(&w);
  if (!status) status = attend_file_write(run->ctx, path, w.text, w.length);
  attend_json_writer_free(&w);
  attend_json_free(config);
  return status;
}

/* Weights trained further with another form need that form: config.json names it. */
static int set_attention(train_run *run, const char *folder) {
  char *path = path_of("%s/config.json", folder);
  int code = EXIT_OK;
  size_t length = 0;
  char *text = read_one(path, &length, &code);
  if (text && !code && rewrite_config(run, path, text, length))
    code = complain_status(run->ctx, ATTEND_IO);
  free(text);
  free(path);
  return code;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* config.json names one form: a model cannot keep its own where another is not. */
static int check_roles(const train_run *run, const char *path, const attend_config *c) {
  bool covered = c->roles && !(c->roles & ~run->roles);
  if (!run->roles || c->form.kind == ATTEND_SOFTMAX || covered) return EXIT_OK;
  complain(
      "%s learnt with %s, and a model has one form beside softmax: leave "
      "--attention-roles away, or name its roles too",
      path, c->attention);
  return EXIT_USAGE;
}

static int from_model(train_run *run, const char *path, const char *folder) {
  const train_settings *s = run->s;
  attend_config config;
  attend_status status = attend_config_read(run->ctx, path, &config);
  if (status) return complain_status(run->ctx, status);
  int code = check_roles(run, path, &config);
  if (code) return code;
  code = s->tokenizer ? take_tokenizer(run, folder)
                      : check_tokenizer(run, path, ": say --tokenizer PATH");
  if (!code && !s->tokenizer) code = copy_all(run, path, folder, tokenizer_files);
  if (!code) code = copy_all(run, path, folder, settings_files);
  if (!code && s->made.attention) code = set_attention(run, folder);
  return code;
}

static int from_nothing(train_run *run, const char *folder) {
  int code = run->s->tokenizer ? take_tokenizer(run, folder) : learn_tokenizer(run, folder);
  if (code) return code;
  attend_status status = attend_tokenizer_load(run->ctx, folder, &run->tokenizer);
  if (status) return complain_status(run->ctx, status);
  code = write_config(run, folder);
  attend_tokenizer_free(run->tokenizer); /* config.json says more of it */
  run->tokenizer = NULL;
  return code;
}

static int fill_base(train_run *run, const char *folder) {
  int code = EXIT_OK;
  if (!run->s->model) return from_nothing(run, folder);
  char *path = model_path(run->s->model, &code);
  if (!code) code = from_model(run, path, folder);
  free(path);
  return code;
}

static int make_base(train_run *run) {
  char *draft = path_of("%s/.base.part", run->s->out);
  remove_folder(draft);
  int code = make_folder(draft) ? fill_base(run, draft) : EXIT_FAILED;
  if (!code && rename(draft, run->base)) {
    complain("%s cannot be made: %s", run->base, strerror(errno));
    code = EXIT_FAILED;
  }
  if (code) remove_folder(draft);
  free(draft);
  return code;
}

/* A run without a checkpoint begins anew: its options may have changed. */
int train_base(train_run *run) {
  int code = EXIT_OK;
  run->base = path_of("%s/base", run->s->out);
  if (!run->resumes) remove_folder(run->base);
  if (!is_folder(run->base)) code = make_base(run);
  if (code) return code;
  attend_status status = attend_tokenizer_load(run->ctx, run->base, &run->tokenizer);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}
