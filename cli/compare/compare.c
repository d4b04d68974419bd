/* attend compare: one model, one text, several forms of attention.
 *
 * compare_run.c measures; here are options and printing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/generate.h"
#include "attend/json.h"
#include "attend/problem.h"
#include "compare/compare.h"
#include "input.h"
#include "table.h"

enum { MOST_FORMS = 64, LIMIT = 512, ANSWER = 32, REPEAT = 3 };

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

enum {
  KEY_TEXT = 1300,
  KEY_FILE,
  KEY_IDS,
  KEY_LIMIT,
  KEY_HEADS,
  KEY_NO_ATTENTION
};

static const struct argp_option list[] = {
    {"form", 'f', "FORM", 0,
     "A form to compare with the first; may be repeated (default: "
     "softmax, and favor, fourier, elu, poly and argmax against it)",
     0},
    {"text", KEY_TEXT, "TEXT", 0, "The text (default: the standard input)", 0},
    {"file", KEY_FILE, "FILE", 0, "The text is in a file; - is the input", 0},
    {"ids", KEY_IDS, "IDS", 0, "Token ids in place of a text: \"1 5 7\"", 0},
    {"limit", KEY_LIMIT, "N", 0,
     "Compare over the first N tokens (default: 512, or the model's positions)",
     0},
    {"heads", KEY_HEADS, 0, 0,
     "Show the attention difference of every layer and head", 0},
    {"no-attention", KEY_NO_ATTENTION, 0, 0,
     "Do not compare weights, which takes layers x heads x tokens^2 floats", 0},
    {0}};

static void add_form(compare_options *o, struct argp_state *state,
                     const char *form) {
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
        argp_error(state, "one model at a time: leave \"%s\" away",
                   o->model.words[0]);
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
  char *text =
      input_all(f, named ? o->file : "the standard input", length, &code);
  if (named) fclose(f);
  if (code) free(text);
  return code ? NULL : text;
}

static int take_ids(comparison *c, const int32_t *ids, size_t count) {
  size_t most = count < (size_t)c->n ? count : (size_t)c->n;
  if (most < 2) {
    complain("the text has %zu tokens: give it at least two", count);
    return EXIT_USAGE;
  }
  if (most < count)
    fprintf(stderr, "attend: comparing over the first %zu of %zu tokens\n",
            most, count);
  c->n = (int)most;
  c->ids = need(most, sizeof *c->ids);
  c->targets = need(most, sizeof *c->targets);
  memcpy(c->ids, ids, most * sizeof *ids);
  for (size_t i = 0; i < most; i++)
    c->targets[i] = i + 1 < most ? ids[i + 1] : -1;
  return EXIT_OK;
}

static int encode_text(comparison *c, const char *text, size_t length) {
  attend_encoding *e = NULL;
  attend_status status = attend_encoding_create(c->opened.tokenizer, &e);
  if (!status) status = attend_encode(e, text, length, NULL);
  int code = status ? complain_status(c->opened.ctx, status)
                    : take_ids(c, e->id, e->count);
  attend_encoding_free(e);
  return code;
}

static int read_numbers(comparison *c, const char *text) {
  id_list ids = {0};
  int code = input_ids(text, &ids);
  if (!code) code = take_ids(c, ids.id, (size_t)ids.count);
  free(ids.id);
  return code;
}

static int find_ids(comparison *c, const compare_options *o) {
  size_t length;
  if (o->ids) return read_numbers(c, o->ids);
  char *text = read_text(o, &length);
  if (!text) return EXIT_FAILED;
  int code = encode_text(c, text, length);
  free(text);
  return code;
}

/* An encoder-decoder is fed what it would say by itself. */
static int find_answer(comparison *c) {
  attend_generate_options o = attend_generate_defaults();
  attend_prompt prompt = {c->ids, c->n};
  attend_generation *g;
  if (c->config->parts != ATTEND_BOTH) return EXIT_OK;
  o.max_new = ANSWER;
  attend_status status = attend_generate(c->opened.model, 1, &prompt, &o, &g);
  if (status) {
    attend_generation_free(g);
    return complain_status(c->opened.ctx, status);
  }
  const attend_continuation *said = attend_generation_get(g, 0);
  int most = c->config->positions; /* the last word is told, not read again */
  c->n_answer = most && said->count >= most ? most : said->count + 1;
  c->answer = need((size_t)c->n_answer, sizeof *c->answer);
  c->answer[0] = c->config->decoder_start;
  memcpy(c->answer + 1, said->ids,
         (size_t)(c->n_answer - 1) * sizeof *said->ids);
  attend_generation_free(g);
  return EXIT_OK;
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

static cell known(double x) {
  return isfinite(x) ? cell_number(x) : cell_none();
}

static void add_row(table *t, const form_result *f) {
  cell row[] = {cell_text(f->name),
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

static void put_maps(attend_json_writer *w, const comparison *c,
                     const char *name, const double *heads) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int l = 0; l < compare_layers(c); l++) {
    attend_json_open(w, '[');
    for (int h = 0; h < compare_heads(c); h++)
      attend_json_put_number(w, heads[l * compare_heads(c) + h]);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static void put_form(attend_json_writer *w, const comparison *c,
                     const form_result *f) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"agreement", f->agreement},
                 {"loss", f->loss},
                 {"perplexity", exp(f->loss)},
                 {"drift", f->drift},
                 {"hidden", f->hidden},
                 {"direct", f->direct},
                 {"attention", f->attention},
                 {"read_s", f->read_s},
                 {"token_s", f->token_s},
                 {"cache_bytes", (double)f->cache_bytes},
                 {"work_bytes", (double)f->work_bytes}};
  attend_json_open(w, '{');
  attend_json_member(w, "form");
  attend_json_put_string(w, f->name);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    attend_json_member(w, numbers[i].name);
    attend_json_put_number(w, numbers[i].value);
  }
  if (c->attention) {
    put_maps(w, c, "attention_heads", f->heads);
    put_maps(w, c, "direct_heads", f->direct_heads);
  }
  attend_json_close(w, '}');
}

static int print_json(const comparison *c) {
  attend_json_writer w = attend_json_writer_file(c->opened.ctx, stdout);
  attend_json_open(&w, '[');
  for (int i = 0; i < c->count; i++) put_form(&w, c, &c->forms[i]);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(c->opened.ctx, status) : EXIT_OK;
}

/* Nine steps from nothing to all. */
static void print_shade(double share, bool colour) {
  static const char marks[] = " .:-=+*#@";
  int step = isnan(share) ? 0 : (int)fmin(8, fmax(0, share * 9));
  if (colour)
    printf("\033[48;5;%dm  \033[0m",
           232 + (isnan(share) ? 0 : (int)(fmin(1, share) * 23)));
  else
    printf("%c%c", marks[step], marks[step]);
}

static void print_map(const comparison *c, const form_result *f) {
  bool colour = is_colourful(stdout);
  printf("\n%s: attention difference, layers down, heads across\n", f->name);
  for (int l = 0; l < compare_layers(c); l++) {
    printf("%4d ", l);
    for (int h = 0; h < compare_heads(c); h++)
      print_shade(f->heads[l * compare_heads(c) + h], colour);
    double sum = 0;
    for (int h = 0; h < compare_heads(c); h++)
      sum += f->heads[l * compare_heads(c) + h];
    printf(" %.3f\n", sum / compare_heads(c));
  }
}

static int print_tables(const comparison *c, bool heads) {
  table t = table_start(columns);
  for (int i = 0; i < c->count; i++) add_row(&t, &c->forms[i]);
  int code = table_print(&t, stdout);
  table_free(&t);
  for (int i = 1; heads && c->attention && i < c->count; i++)
    print_map(c, &c->forms[i]);
  return code ? code : check_written(stdout, "the answer");
}

/* ---- the verb --------------------------------------------------------------------------------- */

static const char *const usual[] = {
    "softmax",        "favor(m=64)", "favor(m=256)", "favor(m=1024)",
    "fourier(m=256)", "elu",         "poly(p=2)",    "argmax"};

static int read_forms(comparison *c, compare_options *o) {
  if (o->n_forms == 0)
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
      o->forms[o->n_forms++] = usual[i];
  c->count = o->n_forms;
  c->forms = need((size_t)c->count, sizeof *c->forms);
  for (int i = 0; i < c->count; i++) {
    c->forms[i].name = o->forms[i];
    attend_status status =
        attend_form_parse(c->opened.ctx, o->forms[i], &c->forms[i].form);
    if (status) return complain_status(c->opened.ctx, status);
  }
  return EXIT_OK;
}

static int prepare(comparison *c, compare_options *o) {
  c->config = attend_model_config(c->opened.model);
  c->n = o->limit ? o->limit : LIMIT;
  if (c->config->positions && c->n > c->config->positions)
    c->n = c->config->positions;
  c->repeat = o->common.repeat ? o->common.repeat : REPEAT;
  int code = read_forms(c, o);
  if (!code) code = find_ids(c, o);
  if (!code) code = find_answer(c);
  c->attention = !o->no_attention;
  if (!code && c->attention && compare_bytes(c) > 4e9) {
    complain(
        "comparing the weights of %d tokens would take %.1f GB: lower "
        "--limit or leave them out with --no-attention",
        c->n, compare_bytes(c) / 1e9);
    code = EXIT_USAGE;
  }
  return code;
}

static void free_comparison(comparison *c) {
  for (int i = 0; i < c->count; i++) {
    free(c->forms[i].heads);
    free(c->forms[i].direct_heads);
  }
  free(c->forms);
  free(c->ids);
  free(c->targets);
  free(c->answer);
  model_close(&c->opened);
}

int cmd_compare(int argc, char **argv) {
  compare_options o = {0};
  comparison c = {0};
  if (is_compare_runs(argc, argv)) return compare_runs(argc, argv);
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  o.model.text = !o.ids;
  o.model.attention = o.n_forms ? o.forms[0] : usual[0];
  int code = model_open(&o.common, &o.model, &c.opened);
  if (!code) code = prepare(&c, &o);
  if (!code) code = compare_run(&c);
  if (!code) code = o.common.json ? print_json(&c) : print_tables(&c, o.heads);
  free_comparison(&c);
  return code;
}
