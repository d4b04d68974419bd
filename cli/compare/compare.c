/* attend compare: one model, one text, several forms of attention
 * (attend/compare.h). runs.c has --runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/compare.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"
#include "text.h"

enum { LIMIT = 512 /* tokens */ };

typedef struct {
  options common;
  model_options model;
  text_list forms;
  const char *text, *file, *ids;
  int limit;
  bool heads, no_attention;
} compare_options;

/* ---- options ------------------------------------------------------------------------- */

static const option_row own[] = {
    {"form", "FORM",
     "A form to compare with the first; may be repeated (default: softmax, and favor, fourier, "
     "elu, poly and argmax against it)",
     LIST(compare_options, forms), .letter = 'f'},
    {"text", "TEXT", "The text, in place of the argument (default: the standard input)",
     TEXT(compare_options, text)},
    {"file", "FILE", "The text is in a file; - is the input", TEXT(compare_options, file)},
    {"ids", "IDS", "Token ids in place of a text: \"1 5 7\"", TEXT(compare_options, ids)},
    {"limit", "N", "Compare over the first N tokens (default: 512, or the model's positions)",
     NUMBER(compare_options, limit, 2, 1 << 20)},
    {"heads", NULL, "Show the attention difference of every layer and head",
     FLAG(compare_options, heads)},
    {"no-attention", NULL, "Do not compare weights, which takes layers x heads x tokens^2 floats",
     FLAG(compare_options, no_attention)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(compare_options, common)},
                                    {option_rows_run, offsetof(compare_options, common)},
                                    {option_rows_repeat, offsetof(compare_options, common)},
                                    {option_rows_model_name, offsetof(compare_options, model)},
                                    {option_rows_model, offsetof(compare_options, model)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  compare_options *o = input;
  const bool given = o->text || o->file || o->ids;
  if (given) o->model.takes = MODEL_TAKES_NOTHING;
  model_words(state, words, count, &o->model);
  if (o->model.count > !given)
    argp_error(state,
               "one model and one text at a time: leave \"%s\" away, or put quotes around "
               "the text",
               o->model.words[!given]);
  if (o->model.count) o->text = o->model.words[0];
  if (o->text && text_check("the text", o->text, strlen(o->text))) exit(EXIT_USAGE);
  if ((o->text != NULL) + (o->file != NULL) + (o->ids != NULL) > 1)
    argp_error(state, "give one of --text, --file and --ids");
  if (o->model.attention) argp_error(state, "name forms with --form: the first is compared with");
  o->model.text = !o->ids;
  o->model.attention = o->forms.count ? o->forms.text[0] : "softmax";
}

static const verb_options verb_compare = {
    parts, "[MODEL] [TEXT]",
    "Runs a model (default: attend:gutenberg) on one text under several forms of attention and "
    "compares them: predicted "
    "tokens, perplexity, hidden states, the attention of each head, time and memory.\vagree: share "
    "of tokens for which the form predicts the same token as the first form. drift: 1 - cosine of "
    "the pooled hidden states. direct: distance of the form's weights from the first form's, on "
    "the same queries and keys; attention: the same in the model run with the form, where the "
    "inputs of each layer differ too (0: equal, 1: disjoint).\n\nattend compare --runs compares "
    "training runs: see attend compare --runs --help.",
    finish};

/* ---- the text --------------------------------------------------------------------------- */

static char *read_text(const compare_options *o, size_t *length, int *code) {
  if (!o->text) return input_named(o->file ? o->file : "-", length, code);
  *length = strlen(o->text);
  *code = EXIT_OK;
  return need_copy(o->text);
}

static int find_ids(const model_opened *m, const compare_options *o, id_list *ids) {
  attend_encoding *e = NULL;
  size_t length;
  int code;
  if (o->ids) return input_ids(o->ids, ids);
  char *text = read_text(o, &length, &code);
  if (!text) return code;
  attend_status status = attend_encoding_create(m->tokenizer, &e);
  if (!status) status = attend_encode(e, text, length, NULL);
  for (size_t i = 0; !status && i < e->count; i++) id_list_add(ids, e->id[i]);
  attend_encoding_free(e);
  free(text);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

/* At most --limit tokens, and no more than the model has positions for. */
static void cut_ids(const model_opened *m, int limit, id_list *ids) {
  int positions = attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_POSITIONS);
  int max = limit ? limit : LIMIT;
  if (positions && max > positions) max = positions;
  if (ids->count <= max) return;
  fprintf(stderr, "attend: comparing over the first %d of %d tokens\n", max, (int)ids->count);
  ids->count = max;
}

/* ---- printing ------------------------------------------------------------------------------ */

static const column columns[] = {{"form", "form", CELL_TEXT},
                                 {"agreement", "agree", CELL_RATIO},
                                 {"loss", "loss", CELL_RATIO},
                                 {"perplexity", "perplexity", CELL_NUMBER},
                                 {"drift", "drift", CELL_SMALL},
                                 {"hidden", NULL, CELL_SMALL},
                                 {"direct", "direct", CELL_RATIO},
                                 {"attention", "attention", CELL_RATIO},
                                 {"read_s", "read", CELL_SECONDS},
                                 {"token_s", "token", CELL_SECONDS},
                                 {"cache_bytes", "cache", CELL_BYTES},
                                 {"work_bytes", "work", CELL_BYTES},
                                 {NULL, NULL, CELL_TEXT}};

static cell known(double x) { return isfinite(x) ? cell_number(x) : cell_none(); }

static void add_row(table *t, const attend_form_result *f) {
  cell row[] = {cell_text(f->form),
                known(f->agreement),
                known(f->loss),
                known(exp(f->loss)),
                known(f->drift),
                known(f->hidden),
                known(f->direct),
                known(f->attention),
                known(f->read_s),
                known(f->token_s),
                cell_number((double)f->cache_bytes),
                cell_number((double)f->work_bytes)};
  table_add(t, row);
}

static void put_heads(json_writer *w, const attend_comparison *c, const char *name,
                      const double *values) {
  int layers, heads;
  attend_comparison_shape(c, &layers, &heads);
  json_member(w, name);
  json_open(w, '[');
  for (int l = 0; l < layers; l++) {
    json_open(w, '[');
    for (int h = 0; h < heads; h++) json_put_number(w, values[l * heads + h]);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static int print_json(const table *t, attend_context *ctx, const attend_comparison *c) {
  json_writer w = json_rows_open(ctx);
  const attend_form_result *f;
  for (int i = 0; (f = attend_comparison_get(c, i)); i++) {
    json_row_open(&w);
    table_put_members(t, (size_t)i, &w);
    if (f->attention_heads) {
      put_heads(&w, c, "attention_heads", f->attention_heads);
      put_heads(&w, c, "direct_heads", f->direct_heads);
    }
    json_close(&w, '}');
  }
  return json_rows_close(&w, ctx);
}

/* Nine steps from nothing to all. */
static void print_shade(double share, bool colour) {
  static const char marks[] = " .:-=+*#@";
  int step = isnan(share) ? 0 : (int)fmin(8, fmax(0, share * 9));
  if (colour)
    printf("\033[48;5;%dm  \033[0m", 232 + (isnan(share) ? 0 : (int)(fmin(1, share) * 23)));
  else
    printf("%c%c", marks[step], marks[step]);
}

static void print_map(const attend_comparison *c, const attend_form_result *f) {
  bool colour = is_colourful(stdout);
  int layers, heads;
  attend_comparison_shape(c, &layers, &heads);
  printf("\n%s: attention difference, layers down, heads across\n", f->form);
  for (int l = 0; l < layers; l++) {
    const double *row = f->attention_heads + l * heads;
    double sum = 0;
    printf("%4d ", l);
    for (int h = 0; h < heads; h++) {
      print_shade(row[h], colour);
      sum += row[h];
    }
    printf(" %.3f\n", sum / heads);
  }
}

static int print(const attend_comparison *c, const compare_options *o, attend_context *ctx) {
  table t = table_start(columns);
  const attend_form_result *f;
  for (int i = 0; (f = attend_comparison_get(c, i)); i++) add_row(&t, f);
  int code = o->common.json ? print_json(&t, ctx, c) : table_print(&t, stdout);
  table_free(&t);
  for (int i = 1; o->heads && !o->common.json && (f = attend_comparison_get(c, i)); i++)
    if (f->attention_heads) print_map(c, f);
  return code ? code : check_written(stdout, "the answer");
}

/* ---- the verb --------------------------------------------------------------------------------- */

static int compare(const model_opened *m, const compare_options *o, const id_list *ids) {
  attend_compare_options how = {ATTEND_INIT(attend_compare_options)};
  attend_comparison *c;
  double bytes = attend_comparison_bytes(m->model, ids->count);
  if (!o->no_attention && bytes > 4e9) {
    complain(
        "comparing the weights of %d tokens would take %.1f GB: lower "
        "--limit or leave them out with --no-attention",
        (int)ids->count, bytes / 1e9);
    return EXIT_USAGE;
  }
  how.roles = m->roles;
  how.repeat = o->common.repeat;
  how.no_attention = o->no_attention;
  how.progress = progress_report;
  progress_start("comparing", 1);
  attend_status status = attend_comparison_create(m->model, (int)ids->count, ids->id,
                                                  (int)o->forms.count, o->forms.text, &how, &c);
  progress_end();
  if (status) return complain_status(m->ctx, status);
  int code = print(c, o, m->ctx);
  attend_comparison_free(c);
  return code;
}

int cmd_compare(int argc, char **argv) {
  compare_options o = {.model.file = true};
  model_opened m = {0};
  id_list ids = {0};
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--runs")) return cmd_compare_runs(argc, argv);
  options_read(&verb_compare, argc, argv, &o);
  int code = model_open(&o.common, &o.model, &m);
  if (!code) code = find_ids(&m, &o, &ids);
  if (!code) {
    cut_ids(&m, o.limit, &ids);
    code = compare(&m, &o, &ids);
  }
  free(ids.id);
  free(o.forms.text);
  model_close(&m);
  return code;
}
