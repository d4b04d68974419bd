/* attend compare: one model, one text, several forms of attention
 * (attend/compare.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/compare.h"
#include "compare/runs.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"
#include "text.h"

enum { MOST_FORMS = 64, LIMIT = 512 /* tokens */ };

typedef struct {
  options common;
  model_options model;
  const char *forms[MOST_FORMS];
  int n_forms;
  const char *text, *file, *ids;
  int limit;
  bool heads, no_attention;
} compare_options;

/* ---- options ------------------------------------------------------------------------- */

enum { KEY_TEXT = 1300, KEY_FILE, KEY_IDS, KEY_LIMIT, KEY_HEADS, KEY_NO_ATTENTION };

static const struct argp_option list[] = {
    {"form", 'f', "FORM", 0,
     "A form to compare with the first; may be repeated (default: "
     "softmax, and favor, fourier, elu, poly and argmax against it)",
     0},
    {"text", KEY_TEXT, "TEXT", 0, "The text (default: the standard input)", 0},
    {"file", KEY_FILE, "FILE", 0, "The text is in a file; - is the input", 0},
    {"ids", KEY_IDS, "IDS", 0, "Token ids in place of a text: \"1 5 7\"", 0},
    {"limit", KEY_LIMIT, "N", 0,
     "Compare over the first N tokens (default: 512, or the model's positions)", 0},
    {"heads", KEY_HEADS, 0, 0, "Show the attention difference of every layer and head", 0},
    {"no-attention", KEY_NO_ATTENTION, 0, 0,
     "Do not compare weights, which takes layers x heads x tokens^2 floats", 0},
    {0}};

static void add_form(compare_options *o, struct argp_state *state, const char *form) {
  if (o->n_forms == MOST_FORMS)
    argp_error(state, "--form may be given %d times at most", MOST_FORMS);
  o->forms[o->n_forms++] = form;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  compare_options *o = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      state->child_inputs[3] = o; /* --repeat */
      return model_parse(key, state, &o->model);
    case 'f':
      add_form(o, state, arg);
      return 0;
    case KEY_TEXT:
      o->text = arg;
      return 0;
    case KEY_FILE:
      o->file = arg;
      return 0;
    case KEY_IDS:
      o->ids = arg;
      return 0;
    case KEY_LIMIT:
      o->limit = (int)options_number(state, "--limit", arg, 2, 1 << 20);
      return 0;
    case KEY_HEADS:
      o->heads = true;
      return 0;
    case KEY_NO_ATTENTION:
      o->no_attention = true;
      return 0;
    case ARGP_KEY_END:
      if (o->model.count)
        argp_error(state, "one model at a time: leave \"%s\" away", o->model.words[0]);
      if ((o->text != NULL) + (o->file != NULL) + (o->ids != NULL) > 1)
        argp_error(state, "give one of --text, --file and --ids");
      if (o->model.attention)
        argp_error(state, "name forms with --form: the first is compared with");
      return 0;
    default:
      return model_parse(key, state, &o->model);
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 0},
                                             {&options_run, 0, NULL, 0},
                                             {&options_model, 0, NULL, 0},
                                             {&options_repeat, 0, NULL, 0},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL",
    .doc =
        "Runs a model on one text under several forms of attention and says "
        "what each changes: the tokens it would choose, the perplexity, the "
        "hidden states, the attention of each head, time and memory."
        "\vagree: share of tokens that the form would choose as the first "
        "form does. drift: 1 - cosine of the pooled hidden states. direct: how "
        "far the form's weights are from the first form's, given the same "
        "queries and keys; attention: the same in the running model, whose "
        "layers have drifted apart (0 the same, 1 disjoint).\n\n"
        "attend compare --runs sets trainings side by side: see attend compare "
        "--runs --help.",
    .children = children};

/* ---- the text --------------------------------------------------------------------------- */

static char *read_text(const compare_options *o, size_t *length) {
  if (o->text) {
    *length = strlen(o->text);
    return need_copy(o->text);
  }
  bool named = o->file && strcmp(o->file, "-");
  FILE *f = named ? fopen(o->file, "rb") : stdin;
  if (!f) {
    complain("%s cannot be opened: name a file that can be read", o->file);
    return NULL;
  }
  int code = EXIT_OK;
  char *text = input_all(f, named ? o->file : "the standard input", length, &code);
  if (named) fclose(f);
  if (code) free(text);
  return code ? NULL : text;
}

static void copy_ids(id_list *to, const int32_t *ids, size_t count) {
  to->id = need(count, sizeof *to->id);
  to->count = (int)count;
  memcpy(to->id, ids, count * sizeof *ids);
}

static int encode_text(const model_opened *m, const char *text, size_t length, id_list *ids) {
  attend_encoding *e = NULL;
  attend_status status = attend_encoding_create(m->tokenizer, &e);
  if (!status) status = attend_encode(e, text, length, NULL);
  if (!status) copy_ids(ids, e->id, e->count);
  attend_encoding_free(e);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

static int find_ids(const model_opened *m, const compare_options *o, id_list *ids) {
  size_t length;
  if (o->ids) return input_ids(o->ids, ids);
  char *text = read_text(o, &length);
  if (!text) return EXIT_FAILED;
  int code = encode_text(m, text, length, ids);
  free(text);
  return code;
}

/* At most --limit tokens, and no more than the model has positions for. */
static void cut_ids(const model_opened *m, int limit, id_list *ids) {
  int positions = attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_POSITIONS);
  int most = limit ? limit : LIMIT;
  if (positions && most > positions) most = positions;
  if (ids->count <= most) return;
  fprintf(stderr, "attend: comparing over the first %d of %d tokens\n", most, (int)ids->count);
  ids->count = most;
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

static void put_heads(attend_json_writer *w, const attend_comparison *c, const char *name,
                      const double *values) {
  int layers, heads;
  attend_comparison_shape(c, &layers, &heads);
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int l = 0; l < layers; l++) {
    attend_json_open(w, '[');
    for (int h = 0; h < heads; h++) attend_json_put_number(w, values[l * heads + h]);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static void put_form(attend_json_writer *w, const attend_comparison *c,
                     const attend_form_result *f) {
  attend_json_open(w, '{');
  json_text(w, "form", f->form);
  json_number(w, "agreement", f->agreement);
  json_number(w, "loss", f->loss);
  json_number(w, "perplexity", exp(f->loss));
  json_number(w, "drift", f->drift);
  json_number(w, "hidden", f->hidden);
  json_number(w, "direct", f->direct);
  json_number(w, "attention", f->attention);
  json_number(w, "read_s", f->read_s);
  json_number(w, "token_s", f->token_s);
  json_number(w, "cache_bytes", (double)f->cache_bytes);
  json_number(w, "work_bytes", (double)f->work_bytes);
  if (f->attention_heads) {
    put_heads(w, c, "attention_heads", f->attention_heads);
    put_heads(w, c, "direct_heads", f->direct_heads);
  }
  attend_json_close(w, '}');
}

static int print_json(attend_context *ctx, const attend_comparison *c) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  const attend_form_result *f;
  attend_json_open(&w, '[');
  for (int i = 0; (f = attend_comparison_get(c, i)); i++) put_form(&w, c, f);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
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

static int print_tables(const attend_comparison *c, bool heads) {
  table t = table_start(columns);
  const attend_form_result *f;
  for (int i = 0; (f = attend_comparison_get(c, i)); i++) add_row(&t, f);
  int code = table_print(&t, stdout);
  table_free(&t);
  for (int i = 1; heads && (f = attend_comparison_get(c, i)); i++)
    if (f->attention_heads) print_map(c, f);
  return code ? code : check_written(stdout, "the answer");
}

/* ---- the verb --------------------------------------------------------------------------------- */

static int show_progress(double done, void *user) {
  const compare_options *o = user;
  int count = o->n_forms ? o->n_forms : 1, i = (int)(done * count);
  progress_share(done, o->n_forms && i < count ? o->forms[i] : "forms");
  return 0;
}

static int compare(const model_opened *m, compare_options *o, const id_list *ids) {
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
  how.progress = show_progress;
  how.user = o;
  progress_start("comparing", 1);
  attend_status status =
      attend_comparison_create(m->model, (int)ids->count, ids->id, o->n_forms, o->forms, &how, &c);
  progress_end();
  if (status) return complain_status(m->ctx, status);
  int code = o->common.json ? print_json(m->ctx, c) : print_tables(c, o->heads);
  attend_comparison_free(c);
  return code;
}

int cmd_compare(int argc, char **argv) {
  compare_options o = {0};
  model_opened m = {0};
  id_list ids = {0};
  if (is_compare_runs(argc, argv)) return compare_runs(argc, argv);
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  o.model.text = !o.ids;
  o.model.attention = o.n_forms ? o.forms[0] : "softmax";
  int code = model_open(&o.common, &o.model, &m);
  if (!code) code = find_ids(&m, &o, &ids);
  if (!code) {
    cut_ids(&m, o.limit, &ids);
    code = compare(&m, &o, &ids);
  }
  free(ids.id);
  model_close(&m);
  return code;
}
