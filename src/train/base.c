/* The base of a training run: config.json and the tokenizer's files, which every checkpoint
 * includes; from a model, or of a new one. */
#include <string.h>
#include <sys/stat.h>

#include "attend/train.h"
#include "base/files.h"
#include "base/options.h"
#include "model/config.h"

typedef struct {
  attend_context *ctx;
  attend_base_options o;
  attend_architecture made;
  folder_draft draft;
} base;

static bool is_listed(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name)) names++;
  return *names;
}

static attend_status copy_file(base *b, const char *from, const char *name) {
  char path[LONGEST_PATH], *bytes;
  size_t length;
  ATTEND_TRY(file_read(b->ctx, from, &bytes, &length));
  attend_status status = path_inside(b->ctx, b->draft.draft, name, path);
  if (!status) status = attend_file_write(b->ctx, path, bytes, length);
  ctx_free(b->ctx, bytes);
  return status;
}

static attend_status copy_files(base *b, const char *from, const char *const *names) {
  char path[LONGEST_PATH];
  for (; *names; names++)
    if (file_beside(from, *names, path, sizeof path)) ATTEND_TRY(copy_file(b, path, *names));
  return ATTEND_OK;
}

/* ---- the tokenizer ---------------------------------------------------------------- */

/* The folder of a tokenizer: it, or that of one of its files. */
static attend_status find_folder(base *b, const char *path, char folder[LONGEST_PATH]) {
  struct stat info;
  const char *slash = strrchr(path, '/');
  bool file = !stat(path, &info) && S_ISREG(info.st_mode);
  bool part = file && is_listed(tokenizer_files, slash ? slash + 1 : path);
  ATTEND_CHECK(b->ctx, strlen(path) < LONGEST_PATH, "the path of the tokenizer is too long");
  ATTEND_CHECK(b->ctx, !file || part, "%.300s is no folder: a tokenizer's files lie in one", path);
  if (!part)
    strcpy(folder, path);
  else
    snprintf(folder, LONGEST_PATH, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  return ATTEND_OK;
}

/* Loaded here once, so that errors name the original path. */
static attend_status copy_tokenizer(base *b, attend_tokenizer **tokenizer) {
  const char *given = b->o.tokenizer;
  char folder[LONGEST_PATH], why[1024];
  *tokenizer = NULL;
  ATTEND_CHECK(b->ctx, given || b->o.model, "a new model needs a tokenizer");
  ATTEND_TRY(find_folder(b, given ? given : b->o.model, folder));
  attend_status status = attend_tokenizer_load(b->ctx, folder, tokenizer);
  if (!status) return copy_files(b, folder, tokenizer_files);
  snprintf(why, sizeof why, "%s", attend_message(b->ctx));
  return fail(b->ctx, status == ATTEND_NO_MEMORY ? status : ATTEND_IO, "%s%s", why,
              given ? "" : ": name a tokenizer");
}

/* ---- config.json ------------------------------------------------------------------- */

static int special(const attend_tokenizer *t, attend_special which, attend_special otherwise) {
  int id = attend_tokenizer_special(t, which);
  return id >= 0 ? id : attend_tokenizer_special(t, otherwise);
}

/* Positions that are never trained would be noise: no more than are used. */
static attend_status write_config(base *b, const attend_tokenizer *t) {
  char path[LONGEST_PATH];
  attend_architecture a = b->made;
  a.size = sizeof a;
  const int bos = special(t, ATTEND_SPECIAL_BOS, ATTEND_SPECIAL_CLS);
  const int eos = special(t, ATTEND_SPECIAL_EOS, ATTEND_SPECIAL_SEP);
  const int pad = attend_tokenizer_special(t, ATTEND_SPECIAL_PAD);
  a.vocab = attend_tokenizer_count(t);
  a.bos = &bos;
  a.eos = &eos;
  a.pad = pad < 0 ? &eos : &pad;
  if (!a.positions) a.positions = 256;
  ATTEND_TRY(path_inside(b->ctx, b->draft.draft, "config.json", path));
  return attend_config_write(b->ctx, path, &a);
}

static void put_config(json_writer *w, const attend_json *config, const attend_architecture *made) {
  static const char form[] = "attend_attention", where[] = "attend_attention_roles";
  char text[ATTEND_ROLES_TEXT];
  json_indent(w, true);
  json_open(w, '{');
  for (size_t i = 0; i < attend_json_count(config); i++) {
    const attend_json *one = attend_json_at(config, i);
    const char *name = attend_json_name(one, NULL);
    if (!name || !strcmp(name, form) || !strcmp(name, where)) continue;
    json_member(w, name);
    json_put_value(w, one);
  }
  json_member_string(w, form, made->attention);
  if (made->roles) json_member_string(w, where, attend_roles_text(made->roles, text));
  json_close(w, '}');
}

/* Weights trained further with another form need that form: config.json names it. */
static attend_status set_attention(base *b) {
  char path[LONGEST_PATH];
  attend_json *config;
  ATTEND_TRY(path_inside(b->ctx, b->draft.draft, "config.json", path));
  ATTEND_TRY(json_read(b->ctx, path, &config));
  json_writer w = json_writer_text(b->ctx);
  put_config(&w, config, &b->made);
  attend_status status = json_write(&w, path);
  attend_json_free(config);
  return status;
}

/* config.json names one form: a model cannot keep its own where another is not. */
static attend_status check_roles(base *b) {
  const unsigned roles = b->made.roles;
  attend_config c;
  ATTEND_TRY(config_read(b->ctx, b->o.model, &c));
  bool covered = c.roles && !(c.roles & ~roles);
  ATTEND_CHECK(b->ctx, !roles || c.form.kind == ATTEND_SOFTMAX || covered,
               "%.300s was trained with %s, and a model has one form beside softmax: name no "
               "roles, or its roles too",
               b->o.model, c.attention);
  return ATTEND_OK;
}

/* ---- all of it ---------------------------------------------------------------------- */

static attend_status fill(base *b, attend_tokenizer **tokenizer) {
  const attend_base_options *o = &b->o;
  *tokenizer = NULL;
  if (o->model) ATTEND_TRY(check_roles(b));
  ATTEND_TRY(copy_tokenizer(b, tokenizer));
  if (!o->model) return write_config(b, *tokenizer);
  ATTEND_TRY(copy_files(b, o->model, settings_files));
  return b->made.attention ? set_attention(b) : ATTEND_OK;
}

attend_status attend_base_create(attend_context *ctx, const char *folder,
                                 const attend_base_options *options) {
  base b = {.ctx = ctx};
  attend_tokenizer *tokenizer;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_base_options, options, &b.o));
  ATTEND_TRY(OPTIONS_READ(ctx, attend_architecture, b.o.made, &b.made));
  ATTEND_TRY(folder_draft_open(ctx, folder, &b.draft));
  attend_status status = fill(&b, &tokenizer);
  attend_tokenizer_free(tokenizer);
  if (!status) return folder_draft_keep(&b.draft);
  folder_draft_drop(&b.draft);
  return status;
}
