/* Results of designs: lines, tables, JSON, pictures and pages; --out FILE (the format by its
 * ending), --terminal, --open.
 */
#include <stdlib.h>
#include <string.h>

#include "attend/plot.h"
#include "design/show.h"
#include "folders.h"
#include "pictures/pictures.h"
#include "table.h"
#include "view/view.h"

/* ---- paragraphs ------------------------------------------------------------------------ */

/* Breaks a text into lines of at most 78 characters behind an indent. */
static void print_wrapped(FILE *out, const char *indent, const char *text) {
  size_t max = 78 - strlen(indent);
  while (*text) {
    size_t n = strlen(text), cut = n;
    if (n > max)
      for (cut = max; cut > 0 && text[cut] != ' ';) cut--;
    if (!cut) cut = n < max ? n : max;
    fprintf(out, "%s%.*s\n", indent, (int)cut, text);
    text += cut;
    text += strspn(text, " ");
  }
}

void design_print_list(FILE *out) {
  design_spec s;
  attend_context *ctx = NULL;
  options_reader(&ctx);
  for (int i = 0; design_spec_get(i, &s); i++) {
    attend_design *d;
    fprintf(out, "%s\n", s.name);
    if (attend_design_read(ctx, s.name, s.text, s.length, &d)) continue;
    print_wrapped(out, "  ", attend_design_about(d)->about);
    attend_design_free(d);
  }
  attend_context_free(ctx);
}

static void print_verdict(const char *title, const attend_verdict *v, FILE *out) {
  if (v->ok)
    fprintf(out, "%-10s right for all %llu inputs (%llu answers), lead %.3g\n", title,
            (unsigned long long)v->inputs, (unsigned long long)v->places, v->margin);
  else
    fprintf(out,
            "%-10s WRONG for %llu of %llu inputs, first \"%s\": place %d should give \"%s\", gives "
            "%s%s%s\n",
            title, (unsigned long long)v->wrong, (unsigned long long)v->inputs, v->input, v->place,
            v->expected, v->predicted ? "\"" : "", v->predicted ? v->predicted : "no answer",
            v->predicted ? "\"" : "");
}

static void print_least(const attend_least *l, FILE *out) {
  if (!l->found)
    fprintf(out, "%-10s softmax does not pass up to %g\n", "sharpness", l->highest);
  else if (l->any)
    fprintf(out, "%-10s softmax passes at any (from %.3g on)\n", "sharpness", l->sharpness);
  else
    fprintf(out, "%-10s softmax passes from %.5g on (fails at %.5g; %d tried%s)\n", "sharpness",
            l->sharpness, l->fails, l->tried,
            l->monotone ? "" : "; some above it fail: not monotone");
}

static void print_learned(const designed *g, FILE *out) {
  if (g->r.trained)
    fprintf(out, "%-10s %d steps in %.1f s, seed %llu: loss %.4f to %.2g, accuracy %.4f\n",
            "learned", g->r.curve.steps, g->r.seconds, (unsigned long long)g->r.seed,
            g->r.curve.loss[0], g->r.curve.last, g->r.learned.accuracy);
  print_verdict(g->r.trained ? "" : "learned", &g->r.learned, out);
}

void design_print(const designed *g, FILE *out) {
  const attend_design_facts *f = &g->facts;
  static const char *const positions[] = {"no positions", "positions concatenated",
                                          "positions added"};
  char variant[64];
  char text[ATTEND_DESIGN_PARAGRAPH];
  size_t count;
  attend_design_weights(g->d, ATTEND_DESIGNED, &count);
  fprintf(out, "%s\n", f->name);
  print_wrapped(out, "  ", f->about);
  fprintf(out, "%-10s %s\n", "task", f->task);
  fprintf(
      out,
      "%-10s %d letters, %d to %d of them; %s%s; %d layer%s, %d head%s, %d features, %zu weights\n",
      "shape", f->letters, f->shortest, f->longest, positions[f->positions],
      f->causal ? ", causal" : "", f->layers, f->layers == 1 ? "" : "s", f->heads,
      f->heads == 1 ? "" : "s", f->features, count);
  print_verdict(attend_design_variant_text(g->r.variant, variant), &g->r.verdict, out);
  if (g->r.has_least) print_least(&g->r.min, out);
  if (!g->r.has_learned) return;
  print_learned(g, out);
  for (int i = 0; attend_design_paragraph(g->d, &g->r, i, text); i++) {
    fputc('\n', out);
    print_wrapped(out, "", text);
  }
}

/* ---- rows --------------------------------------------------------------------------------- */

static const column row_columns[] = {{"design", "design", CELL_TEXT},
                                     {"ok", "ok", CELL_OK},
                                     {"way", NULL, CELL_TEXT},
                                     {"inputs", "inputs", CELL_COUNT},
                                     {"places", NULL, CELL_COUNT},
                                     {"wrong", NULL, CELL_COUNT},
                                     {"margin", "lead", CELL_RATIO},
                                     {"counterexample", "counterexample", CELL_TEXT},
                                     {"counterexample_place", NULL, CELL_COUNT},
                                     {"expected", NULL, CELL_TEXT},
                                     {"predicted", NULL, CELL_TEXT},
                                     {"least_sharpness", NULL, CELL_NUMBER},
                                     {"least", "least sharpness", CELL_TEXT},
                                     {"least_fails", NULL, CELL_NUMBER},
                                     {"monotone", NULL, CELL_OK},
                                     {"learned_ok", "learned", CELL_OK},
                                     {"learned_accuracy", "accuracy", CELL_RATIO},
                                     {"learned_loss", "loss", CELL_SMALL},
                                     {"learned_seed", NULL, CELL_COUNT},
                                     {"learned_steps", "steps", CELL_COUNT},
                                     {"learned_s", "took", CELL_SECONDS},
                                     {0}};
enum { COLUMNS = sizeof row_columns / sizeof *row_columns, FIRST_LEARNED = 15 };

static cell text_if(bool there, const char *text) {
  return there && text ? cell_text(text) : cell_none();
}
static cell number_if(bool there, double x) { return there ? cell_number(x) : cell_none(); }

static void add_row(table *t, const designed *g) {
  const attend_verdict *v = &g->r.verdict;
  const attend_least *l = &g->r.min;
  bool min = g->r.has_least && l->found;
  char variant[64], text[32] = "any";
  if (!l->any) snprintf(text, sizeof text, "%.4g", l->sharpness);
  table_add(t, (cell[]){cell_text(g->facts.name),
                        cell_number(v->ok),
                        cell_text(attend_design_variant_text(g->r.variant, variant)),
                        cell_number((double)v->inputs),
                        cell_number((double)v->places),
                        cell_number((double)v->wrong),
                        cell_number(v->margin),
                        text_if(!v->ok, v->input),
                        number_if(!v->ok, v->place),
                        text_if(!v->ok, v->expected),
                        text_if(!v->ok, v->predicted),
                        number_if(min, l->any ? 0 : l->sharpness),
                        text_if(min, text),
                        number_if(min && !l->any, l->fails),
                        number_if(min, l->monotone),
                        number_if(g->r.has_learned, g->r.learned.ok),
                        number_if(g->r.has_learned, g->r.learned.accuracy),
                        number_if(g->r.trained, g->r.curve.last),
                        number_if(g->r.trained, (double)g->r.seed),
                        number_if(g->r.trained, g->r.curve.steps),
                        number_if(g->r.trained, g->r.seconds)});
}

int design_print_rows(const designed *all, int n, bool json, FILE *out) {
  bool learned = false;
  for (int i = 0; i < n; i++) learned |= all[i].r.has_learned;
  column shown[COLUMNS]; /* without twins JSON alone has their columns */
  memcpy(shown, row_columns, sizeof row_columns);
  for (int i = FIRST_LEARNED; i < COLUMNS && !learned; i++) shown[i].title = NULL;
  table t = table_start(shown);
  for (int i = 0; i < n; i++) add_row(&t, &all[i]);
  int code = json ? table_print_json(&t, all[0].ctx, out) : table_print(&t, out);
  table_free(&t);
  return code;
}

/* ---- one input ------------------------------------------------------------------------------ */

static const column run_columns[] = {{"place", "place", CELL_COUNT},
                                     {"token", "token", CELL_TEXT},
                                     {"expected", "expected", CELL_TEXT},
                                     {"predicted", "predicted", CELL_TEXT},
                                     {"learned", "learned", CELL_TEXT},
                                     {"ok", "ok", CELL_OK},
                                     {NULL, NULL, CELL_TEXT}};

static cell answer_cell(const designed *g, int32_t answer) {
  if (answer == ATTEND_UNDECIDED) return cell_text("?");
  return answer < 0 ? cell_none() : cell_text(attend_design_answer(g->d, answer));
}

static bool add_places(const designed *g, attend_design_run *const run[2], table *t) {
  const attend_design_result *r = attend_design_run_result(run[0]);
  bool ok = true;
  for (int i = 0; i < r->length; i++) {
    bool asked = r->expected[i] >= 0, right = r->predicted[i] == r->expected[i];
    cell learned = cell_none();
    if (run[1]) learned = answer_cell(g, attend_design_run_result(run[1])->predicted[i]);
    table_add(t, (cell[]){cell_number(i), cell_text(attend_design_token(g->d, r->tokens[i])),
                          answer_cell(g, r->expected[i]), answer_cell(g, r->predicted[i]), learned,
                          number_if(asked, right)});
    ok &= !asked || right;
  }
  return ok;
}

int design_print_run(const designed *g, const design_options *o, FILE *out) {
  attend_design_variant ways[2] = {{ATTEND_DESIGNED, o->sharpness}, {ATTEND_LEARNED, 1}};
  attend_design_run *run[2] = {NULL, NULL};
  table t = table_start(run_columns);
  int code = EXIT_OK;
  for (int i = 0; i <= g->r.has_learned && !code; i++) {
    attend_status status = attend_design_run_create(g->d, ways[i], o->input, &run[i]);
    if (status) code = complain_status(g->ctx, status);
  }
  if (!code) {
    bool ok = add_places(g, run, &t);
    code = o->common.json ? table_print_json(&t, g->ctx, out) : table_print(&t, out);
    if (!code && !ok) code = EXIT_FAILED;
  }
  table_free(&t);
  attend_design_run_free(run[0]);
  attend_design_run_free(run[1]);
  return code;
}

/* ---- the eight maps ---------------------------------------------------------------------- */

enum { MAPS_NAMES = 6 * ATTEND_DESIGN_HEADS + 8, WORDS_MOST = ATTEND_DESIGN_HEADS + 2 };

typedef struct { /* a picture's data, and what holds them */
  picture_design_data data;
  picture_design_head heads[ATTEND_DESIGN_HEADS + 1]; /* and the readout */
  attend_design_run *run[ATTEND_TWINS];
  const char **names[MAPS_NAMES]; /* of rows and columns */
  int n_names;
  char head_name[ATTEND_DESIGN_HEADS + 1][64];
  char title[128];
  char *words[WORDS_MOST];
} design_maps;

typedef struct {
  const designed *g;
  design_maps *m;
  const char *const *features, *const *tokens, *const *answers;
} making;

static const char **name_list(design_maps *m, int n) {
  const char **list = need((size_t)n, sizeof *list);
  m->names[m->n_names++] = list;
  return list;
}

static const float *part(const designed *g, attend_twin twin, int i, int *columns) {
  attend_design_part p;
  attend_design_part_get(g->d, i, &p);
  *columns = p.columns;
  return attend_design_weights(g->d, twin, NULL) + p.at;
}

static void name_axes(making *k) {
  const designed *g = k->g;
  const attend_design_result *r = attend_design_run_result(k->m->run[0]);
  const char **features = name_list(k->m, g->facts.features), **tokens = name_list(k->m, r->length),
             **answers = name_list(k->m, g->facts.answers);
  for (int i = 0; i < g->facts.features; i++) features[i] = attend_design_feature(g->d, i);
  for (int i = 0; i < r->length; i++) tokens[i] = attend_design_token(g->d, r->tokens[i]);
  for (int i = 0; i < g->facts.answers; i++) answers[i] = attend_design_answer(g->d, i);
  k->features = features;
  k->tokens = tokens;
  k->answers = answers;
}

static const char *const *column_names(making *k, int head, int dim) {
  const char **list = name_list(k->m, dim);
  for (int i = 0; i < dim; i++) {
    list[i] = attend_design_column(k->g->d, head, i);
    if (!*list[i]) list[i] = "·";
  }
  return list;
}

/* What the head's slot holds: "A" of "same=A", "depth". */
static const char *const *slot_names(making *k, const attend_design_head *h) {
  const char **list = name_list(k->m, h->dim_v);
  for (int i = 0; i < h->dim_v; i++) {
    list[i] = attend_design_feature(k->g->d, h->slot + i);
    const char *value = strchr(list[i], '=');
    if (value && value[1]) list[i] = value + 1;
  }
  return list;
}

static void head_maps(making *k, int index) {
  const designed *g = k->g;
  picture_design_head *to = &k->m->heads[index];
  attend_design_head h;
  attend_design_head_get(g->d, index, &h);
  int T = attend_design_run_result(k->m->run[0])->length, c;
  const char *const *columns = column_names(k, index, h.dim), *const *slot = slot_names(k, &h);
  snprintf(k->m->head_name[index], sizeof k->m->head_name[0], "layer %d, head \"%s\"", h.layer,
           h.name);
  *to = (picture_design_head){k->m->head_name[index], 8, 1 + g->r.has_learned, {{{0}}}};
  for (int t = 0; t < to->twins; t++) {
    const attend_design_inside *in = attend_design_run_head(k->m->run[t], index);
    const char *const *dims = t ? NULL : columns, *const *out = t ? NULL : slot;
    const float *qm = part(g, (attend_twin)t, 3 * index, &c),
                *km = part(g, (attend_twin)t, 3 * index + 1, &c),
                *vm = part(g, (attend_twin)t, 3 * index + 2, &c);
    picture_grid grids[8] = {{"Km", h.reads, h.dim, km, k->features, dims, false},
                             {"Qm", h.reads, h.dim, qm, k->features, dims, false},
                             {"Vm", h.reads, h.dim_v, vm, k->features, out, false},
                             {"K", T, h.dim, in->k, k->tokens, dims, false},
                             {"Q", T, h.dim, in->q, k->tokens, dims, false},
                             {"V", T, h.dim_v, in->v, k->tokens, out, false},
                             {"attention", T, T, in->attention, k->tokens, k->tokens, true},
                             {"output", T, h.dim_v, in->out, k->tokens, out, false}};
    memcpy(to->grid[t], grids, sizeof grids);
  }
}

static void readout_maps(making *k, int index) {
  const designed *g = k->g;
  picture_design_head *to = &k->m->heads[index];
  int T = attend_design_run_result(k->m->run[0])->length, c;
  *to = (picture_design_head){"readout", 2, 1 + g->r.has_learned, {{{0}}}};
  for (int t = 0; t < to->twins; t++) {
    const attend_design_result *r = attend_design_run_result(k->m->run[t]);
    picture_grid grids[2] = {
        {"Wo", g->facts.features, g->facts.answers, part(g, (attend_twin)t, 3 * g->facts.heads, &c),
         k->features, k->answers, false},
        {"logits", T, g->facts.answers, r->logits, k->tokens, k->answers, false}};
    memcpy(to->grid[t], grids, sizeof grids);
  }
}

static int maps_make(const designed *g, design_maps *m) {
  making k = {.g = g, .m = m};
  attend_design_variant ways[2] = {g->r.variant, {ATTEND_LEARNED, 1}};
  char variant[64], text[ATTEND_DESIGN_PARAGRAPH];
  *m = (design_maps){0};
  const char *input = g->facts.example;
  for (int t = 0; t <= g->r.has_learned; t++) {
    attend_status status = attend_design_run_create(g->d, ways[t], input, &m->run[t]);
    if (status) return complain_status(g->ctx, status);
  }
  name_axes(&k);
  for (int i = 0; i < g->facts.heads; i++) head_maps(&k, i);
  readout_maps(&k, g->facts.heads);
  snprintf(m->title, sizeof m->title, "%.40s on %.40s, %s%s", g->facts.name,
           *input ? input : "nothing", attend_design_variant_text(g->r.variant, variant),
           g->r.has_learned ? ": designed above learned" : "");
  m->data = (picture_design_data){.title = m->title,
                                  .sentences = (const char *const *)m->words,
                                  .head = m->heads,
                                  .heads = g->facts.heads + 1};
  while (attend_design_paragraph(g->d, &g->r, m->data.n_sentences, text))
    m->words[m->data.n_sentences++] = need_copy(text);
  return EXIT_OK;
}

static void maps_free(design_maps *m) {
  for (int t = 0; t < ATTEND_TWINS; t++) attend_design_run_free(m->run[t]);
  for (int i = 0; i < m->n_names; i++) free(m->names[i]);
  for (int i = 0; i < WORDS_MOST; i++) free(m->words[i]);
}

int design_draw_terminal(const designed *g, const design_options *o, FILE *out) {
  terminal_look look = terminal_look_of(out);
  design_maps m;
  if (o->dark) look.dark = true;
  int code = maps_make(g, &m);
  if (!code) terminal_design(out, &m.data, &look);
  maps_free(&m);
  return code ? code : check_written(out, "the drawing");
}

/* ---- pictures ---------------------------------------------------------------------- */

#ifdef ATTEND_HAVE_PICTURES
static int put_picture(attend_context *ctx, const drawing *d, const char *path, bool svg) {
  void *bytes = NULL;
  size_t length = 0;
  attend_status status =
      svg ? draw_svg(d, (char **)&bytes, &length) : draw_png(d, 2, &bytes, &length);
  if (status) {
    complain("%s", draw_message(status));
    return EXIT_FAILED;
  }
  int code = view_write_bytes(ctx, path, bytes, length);
  free(bytes);
  return code;
}

static int write_picture(const designed *g, const design_options *o, bool svg) {
  picture_look look = {o->width, o->dark};
  design_maps m;
  drawing d = {0};
  int code = maps_make(g, &m);
  const char *why = code ? NULL : picture_design(&m.data, &look, &d);
  if (why) {
    complain("%s", why);
    code = EXIT_FAILED;
  }
  if (!code) code = put_picture(g->ctx, &d, o->out, svg);
  drawing_free(&d);
  maps_free(&m);
  return code;
}
#else
static int write_picture(const designed *g, const design_options *o, bool svg) {
  (void)g;
  (void)o;
  (void)svg;
  complain("this build draws no pictures: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif

/* ---- JSON and pages ---------------------------------------------------------------- */

static attend_status put_design(json_writer *w, const designed *g) {
  char *json;
  size_t length;
  attend_status status = attend_design_json(g->ctx, g->d, &g->r, &json, &length);
  if (!status) json_put_json(w, json, length);
  attend_plot_free(g->ctx, json);
  return status;
}

static int put_json(json_writer *w, const designed *all, int n) {
  attend_status status = ATTEND_OK;
  json_open(w, '{');
  json_member_string(w, "version", attend_version());
  json_member(w, "designs");
  json_open(w, '[');
  for (int i = 0; i < n && !status; i++) status = put_design(w, &all[i]);
  json_close(w, ']');
  json_close(w, '}');
  if (!status) status = json_finish(w);
  return status ? complain_status(all[0].ctx, status) : EXIT_OK;
}

static int write_json(const designed *all, int n, const char *path, bool page) {
  json_writer w = json_writer_text(all[0].ctx);
  int code = put_json(&w, all, n);
  if (!code)
    code = page ? view_write_page(all[0].ctx, path, "design", w.text, w.length)
                : view_write_bytes(all[0].ctx, path, w.text, w.length);
  json_writer_free(&w);
  return code;
}

static int write_weights(const designed *g, const char *path) {
  attend_status status = attend_design_save(g->d, path);
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

static int write_as(const designed *all, int n, const design_options *o, const char *as) {
  if (!strcmp(as, "html")) return write_json(all, n, o->out, true);
  if (!strcmp(as, "json")) return write_json(all, n, o->out, false);
  if (n > 1) {
    complain("several designs go into .html or .json, not \"%s\"", o->out);
    return EXIT_USAGE;
  }
  if (!strcmp(as, "svg") || !strcmp(as, "png")) return write_picture(all, o, *as == 's');
  if (!strcmp(as, "safetensors")) return write_weights(all, o->out);
  complain("--out takes a name that ends in .safetensors, .svg, .png, .html or .json, not \"%s\"",
           o->out);
  return EXIT_USAGE;
}

int design_write(const designed *all, int n, const design_options *o) {
  int code = write_as(all, n, o, path_ending(o->out));
  if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
  return code;
}

/* The page is whole: it stays in a file of its own until the browser has it. */
int design_open_page(const designed *all, int n) {
  char *path = browser_file("design");
  int code = path ? write_json(all, n, path, true) : EXIT_FAILED;
  if (!code) {
    fprintf(stderr, "attend: wrote %s\n", path);
    browser_open(path);
  }
  free(path);
  return code;
}
