/* A design: read from a spec or a file, written, queried.
 *
 * The first step: names, sizes and the order of things; what is said of heads and
 * readout is read by heads.c, of answers by tasks.c.
 *
 * What is not known is refused by name: a misspelt member would otherwise leave a
 * design that means something else.
 *
 * A file of weights is safetensors: "designed.layers.0.heads.0.query" and so on,
 * "learned." the same if there is such a twin, and the spec as a note. Read again,
 * the spec gives names and task and the file gives the numbers, which anyone may
 * have changed meanwhile.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "design/design.h"

/* ---- what all of the reading shares --------------------------------------------- */

bool spec_check(reading *r, bool ok, const char *sentence, ...) {
  char text[400];
  va_list args;
  if (ok || r->status) return !r->status;
  va_start(args, sentence);
  vsnprintf(text, sizeof text, sentence, args);
  va_end(args);
  r->status = fail(r->d->ctx, ATTEND_INVALID, "%.60s%s%s: %s", r->what, *r->place ? ": " : "",
                   r->place, text);
  return false;
}

bool spec_members(reading *r, const attend_json *object, const char *known) {
  spec_check(r, attend_json_kind_of(object) == ATTEND_JSON_OBJECT,
             "expected an object with some of%s", known);
  for (size_t i = 0; i < attend_json_count(object); i++) {
    char word[NAME + 2];
    const char *name = attend_json_name(attend_json_at(object, i), NULL);
    snprintf(word, sizeof word, " %.28s ", name ? name : "");
    spec_check(r, strstr(known, word), "\"%.40s\" is not known here: there are%s", name, known);
  }
  return !r->status;
}

bool spec_is_list(const attend_json *value, size_t min, size_t max) {
  size_t n = attend_json_count(value);
  return attend_json_kind_of(value) == ATTEND_JSON_ARRAY && n >= min && n <= max;
}

void spec_name(reading *r, const attend_json *value, const char *of, char to[NAME]) {
  size_t length = 0;
  const char *text = attend_json_string(value, &length);
  if (spec_check(r, text && length > 0 && length < NAME && strlen(text) == length,
                 "%s is a string of 1 to %d bytes", of, NAME - 1) &&
      spec_check(r, !strpbrk(text, " \t\r\n"), "%s has no spaces: \"%s\" has", of, text))
    memcpy(to, text, length + 1);
}

int spec_integer(reading *r, const attend_json *object, const char *of, int low, int high,
                 int otherwise) {
  const attend_json *value = attend_json_get(object, of);
  int64_t n = otherwise;
  bool whole = !value || attend_json_integer(value, &n);
  return spec_check(r, !value || (whole && n >= low && n <= high),
                    "\"%s\" is a whole number from %d to %d", of, low, high)
             ? (int)n
             : otherwise;
}

static double spec_number(reading *r, const attend_json *object, const char *of, double high,
                          double otherwise) {
  const attend_json *value = attend_json_get(object, of);
  double x = value ? attend_json_number(value, -1) : otherwise;
  spec_check(r, x >= 0 && x <= high, "\"%s\" is a number from 0 to %g", of, high);
  return x;
}

static void spec_text(reading *r, const attend_json *object, const char *of, char *to,
                      size_t size) {
  const attend_json *value = attend_json_get(object, of);
  size_t length;
  const char *text = attend_json_string(value, &length);
  if (value && spec_check(r, text && length < size && strlen(text) == length,
                          "\"%s\" is a string of less than %zu bytes", of, size))
    memcpy(to, text, length + 1);
}

int spec_word(reading *r, const attend_json *object, const char *of, const char *const *words,
              int otherwise) {
  const attend_json *value = attend_json_get(object, of);
  const char *text = attend_json_string(value, NULL);
  char list[120] = "";
  for (int i = 0; words[i]; i++) {
    if (text && !strcmp(words[i], text)) return i;
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", i ? ", " : "", words[i]);
  }
  spec_check(r, !value, "\"%s\" is one of %s", of, list);
  return otherwise;
}

/* ---- names ------------------------------------------------------------------------ */

int spec_find(const char (*names)[NAME], int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

static int name_list(reading *r, const attend_json *value, const char *of, int max,
                     char (*to)[NAME]) {
  int n = 0;
  spec_check(r, spec_is_list(value, 1, (size_t)max), "\"%s\" is a list of 1 to %d names", of, max);
  for (; !r->status && n < (int)attend_json_count(value); n++) {
    spec_name(r, attend_json_at(value, (size_t)n), of, to[n]);
    spec_check(r, spec_find(to, n, to[n]) < 0, "\"%s\" is in \"%s\" twice", to[n], of);
  }
  return n;
}

/* The token put before or behind every input; -1: none. */
static int around(reading *r, const attend_json *value, const char *of) {
  attend_design *d = r->d;
  char *name = d->token[d->tokens];
  if (!value) return -1;
  spec_name(r, value, of, name);
  spec_check(r, spec_find(d->token, d->tokens, name) < 0,
             "\"%s\" is a token already: \"%s\" is one of its own", name, of);
  return d->tokens++;
}

static void read_tokens(reading *r, const attend_json *root) {
  attend_design *d = r->d;
  const attend_json *answers = attend_json_get(root, "answers");
  d->letters = d->tokens =
      name_list(r, attend_json_get(root, "alphabet"), "alphabet", MOST_TOKENS - 2, d->token);
  memcpy(d->answer, d->token, sizeof d->token);
  d->start = around(r, attend_json_get(root, "start"), "start");
  d->end = around(r, attend_json_get(root, "end"), "end");
  d->answers = answers ? name_list(r, answers, "answers", MOST_ANSWERS, d->answer) : d->letters;
}

static void read_sizes(reading *r, const attend_json *root) {
  static const char *const positions[] = {"none", "concatenated", "added", NULL};
  static const char *const masks[] = {"none", "causal", NULL};
  static const char *const places[] = {"every", "first", "last", NULL};
  attend_design *d = r->d;
  int around = (d->start >= 0) + (d->end >= 0);
  d->longest = spec_integer(r, root, "length", 1, MOST_PLACES - around, 4);
  d->shortest = spec_integer(r, root, "shortest", around ? 0 : 1, d->longest, 1);
  d->positions = (attend_design_positions)spec_word(r, root, "positions", positions, 1);
  d->causal = spec_word(r, root, "mask", masks, 0);
  d->at = (attend_design_readout)spec_word(r, root, "at", places, 0);
  d->places = d->longest + around;
}

static void read_learning(reading *r, const attend_json *learn) {
  attend_design *d = r->d;
  snprintf(r->place, sizeof r->place, "learn");
  if (learn) spec_members(r, learn, " seed steps batch rate decay ");
  d->seed = (uint64_t)spec_integer(r, learn, "seed", 0, INT32_MAX, 1);
  d->steps = spec_integer(r, learn, "steps", 1, MOST_STEPS, 1000);
  d->batch = spec_integer(r, learn, "batch", 1, 4096, 512);
  d->rate = spec_number(r, learn, "rate", 10, 0.01);
  d->decay = spec_number(r, learn, "decay", 10, 0);
  *r->place = 0;
}

/* The token, and the position, are the first variables. */
static void first_variables(attend_design *d) {
  spec_add_variable(d, (variable){"token", KIND_TOKEN, .width = d->tokens, .slot = d->tokens});
  if (d->positions != ATTEND_DESIGN_POSITIONS_NONE)
    spec_add_variable(d,
                      (variable){"position", KIND_POSITION, .width = d->places, .slot = d->places});
  d->embedded = d->features;
}

/* ---- the whole ----------------------------------------------------------------------- */

/* What is looked at must be an input. Without one, the first letters in turn. */
static void read_example(reading *r) {
  attend_design *d = r->d;
  design_input x = {.n = d->longest};
  if (!*d->example) {
    for (int i = 0; i < x.n; i++) x.letter[i] = (int8_t)(i % d->letters);
    design_text(d, &x, d->example);
  }
  spec_input(r, d->example, &x);
}

static const char members[] =
    " name about alphabet start end positions mask length shortest layers "
    "answers at readout task depth examples example learn ";

static void read_root(reading *r, const attend_json *root) {
  attend_design *d = r->d;
  spec_members(r, root, members);
  spec_name(r, attend_json_get(root, "name"), "name", d->name);
  spec_text(r, root, "about", d->about, sizeof d->about);
  spec_text(r, root, "example", d->example, sizeof d->example);
  read_tokens(r, root);
  read_sizes(r, root);
  if (r->status) return;
  first_variables(d);
  spec_heads(r, attend_json_get(root, "layers"));
  spec_readout(r, attend_json_get(root, "readout"));
  spec_task(r, root);
  read_learning(r, attend_json_get(root, "learn"));
  if (!r->status) read_example(r);
}

static attend_design_facts facts_of(const attend_design *d) {
  return (attend_design_facts){.name = d->name,
                               .about = d->about,
                               .task = d->says,
                               .example = d->example,
                               .spec = d->text,
                               .letters = d->letters,
                               .tokens = d->tokens,
                               .starts = d->start >= 0,
                               .ends = d->end >= 0,
                               .answers = d->answers,
                               .shortest = d->shortest,
                               .longest = d->longest,
                               .places = d->places,
                               .features = d->features,
                               .embedded = d->embedded,
                               .layers = d->layers,
                               .heads = d->n_heads,
                               .causal = d->causal,
                               .positions = d->positions,
                               .at = d->at,
                               .inputs = design_inputs(d, d->longest),
                               .examples = d->n_examples,
                               .steps = d->steps,
                               .batch = d->batch,
                               .rate = d->rate,
                               .decay = d->decay,
                               .seed = d->seed};
}

attend_status attend_design_read(attend_context *ctx, const char *what, const char *text,
                                 size_t length, attend_design **design) {
  reading r = {.what = what};
  attend_json *root = NULL;
  *design = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r.d, "a design", &r.d));
  r.d->ctx = ctx;
  r.status = ctx_alloc_zeroed(ctx, length + 1, "a spec", &r.d->text);
  if (!r.status) {
    memcpy(r.d->text, text, length);
    r.status = attend_json_parse(ctx, what, text, length, &root);
  }
  if (!r.status) read_root(&r, root);
  attend_json_free(root);
  ctx_free(ctx, r.c);
  if (r.status) {
    attend_design_free(r.d);
    return r.status;
  }
  r.d->facts = facts_of(r.d);
  *design = r.d;
  return ATTEND_OK;
}

void attend_design_free(attend_design *d) {
  if (!d) return;
  for (int i = 0; i < ATTEND_TWINS; i++) ctx_free(d->ctx, d->weights[i]);
  ctx_free(d->ctx, d->examples);
  ctx_free(d->ctx, d->text);
  ctx_free(d->ctx, d);
}

/* ---- files ------------------------------------------------------------------------- */

static const char *const twin_names[ATTEND_TWINS] = {"designed", "learned"};
typedef struct {
  char text[64];
} tensor_name;

static tensor_name name_of(int twin, const attend_design_part *p) {
  tensor_name name;
  snprintf(name.text, sizeof name.text, "%s.%s", twin_names[twin], p->name);
  return name;
}

attend_status attend_design_save(const attend_design *d, const char *path) {
  attend_tensor tensors[ATTEND_TWINS * DESIGN_PARTS];
  tensor_name names[ATTEND_TWINS * DESIGN_PARTS];
  size_t n = 0;
  memset(tensors, 0, sizeof tensors);
  for (int twin = 0; twin < ATTEND_TWINS; twin++)
    for (int i = 0; i < d->n_parts && d->weights[twin]; i++, n++) {
      const attend_design_part *p = &d->parts[i];
      names[n] = name_of(twin, p);
      tensors[n] = (attend_tensor){.name = names[n].text,
                                   .stored = ATTEND_STORED_F32,
                                   .rank = 2,
                                   .shape = {p->rows, p->columns},
                                   .data = d->weights[twin] + p->at};
    }
  attend_note notes[] = {{"attend.design", d->text}};
  return attend_tensor_file_write_noted(d->ctx, path, n, tensors, 1, notes);
}

static attend_status read_part(attend_design *d, const attend_tensor_file *file, const char *path,
                               int twin, const attend_design_part *p) {
  const tensor_name name = name_of(twin, p);
  const attend_tensor *t = attend_tensor_file_find(file, name.text);
  float *to = d->weights[twin] + p->at;
  if (!t) return fail(d->ctx, ATTEND_IO, "\"%.200s\" has no %s", path, name.text);
  if (t->stored != ATTEND_STORED_F32 || t->rank != 2 || t->shape[0] != p->rows ||
      t->shape[1] != p->columns)
    return fail(d->ctx, ATTEND_IO, "%s of \"%.200s\" is not F32 [%d, %d], as its spec says",
                name.text, path, p->rows, p->columns);
  memcpy(to, t->data, t->bytes);
  for (int64_t i = 0; i < t->count; i++)
    if (!isfinite(to[i]))
      return fail(d->ctx, ATTEND_IO, "%s of \"%.200s\" is not finite", name.text, path);
  return ATTEND_OK;
}

static attend_status read_twins(attend_design *d, const attend_tensor_file *file,
                                const char *path) {
  const tensor_name learned = name_of(ATTEND_LEARNED, d->parts);
  if (attend_tensor_file_find(file, learned.text))
    ATTEND_TRY(ctx_alloc_zeroed(d->ctx, d->count * sizeof(float), "a learned twin",
                                &d->weights[ATTEND_LEARNED]));
  for (int twin = 0; twin < ATTEND_TWINS; twin++)
    for (int i = 0; i < d->n_parts && d->weights[twin]; i++)
      ATTEND_TRY(read_part(d, file, path, twin, &d->parts[i]));
  return ATTEND_OK;
}

static attend_status read_weights(attend_context *ctx, const attend_tensor_file *file,
                                  const char *path, attend_design **design) {
  const char *spec = attend_tensor_file_note_find(file, "attend.design");
  ATTEND_CHECK(ctx, spec,
               "\"%.200s\" has no spec in its notes: it was not written by "
               "attend design",
               path);
  ATTEND_TRY(attend_design_read(ctx, path, spec, strlen(spec), design));
  attend_status status = read_twins(*design, file, path);
  if (!status) return status;
  attend_design_free(*design);
  *design = NULL;
  return status;
}

attend_status attend_design_open(attend_context *ctx, const char *path, attend_design **design) {
  attend_status status;
  *design = NULL;
  if (name_ends(path, ".safetensors")) {
    attend_tensor_file *file;
    ATTEND_TRY(attend_tensor_file_open(ctx, path, &file));
    status = read_weights(ctx, file, path, design);
    attend_tensor_file_free(file);
  } else {
    char *text;
    size_t length;
    ATTEND_TRY(file_read(ctx, path, &text, &length));
    status = attend_design_read(ctx, path, text, length, design);
    ctx_free(ctx, text);
  }
  return status;
}

/* ---- questions --------------------------------------------------------------------------- */

const attend_design_facts *attend_design_about(const attend_design *d) { return &d->facts; }

const char *attend_design_token(const attend_design *d, int i) {
  return i >= 0 && i < d->tokens ? d->token[i] : NULL;
}
const char *attend_design_answer(const attend_design *d, int i) {
  return i >= 0 && i < d->answers ? d->answer[i] : NULL;
}
const char *attend_design_feature(const attend_design *d, int i) {
  return i >= 0 && i < d->features ? d->feature[i] : NULL;
}

bool attend_design_head_get(const attend_design *d, int i, attend_design_head *head) {
  if (i < 0 || i >= d->n_heads) return 0;
  const design_head *h = &d->heads[i];
  *head = (attend_design_head){h->name, h->layer, h->dim, h->dim_v, h->reads, h->slot, h->ties};
  return 1;
}

const char *attend_design_column(const attend_design *d, int head, int column) {
  if (head < 0 || head >= d->n_heads) return NULL;
  const design_head *h = &d->heads[head];
  return column >= 0 && column < h->dim ? h->column[column] : NULL;
}

bool attend_design_part_get(const attend_design *d, int i, attend_design_part *part) {
  if (i < 0 || i >= d->n_parts) return 0;
  *part = d->parts[i];
  return 1;
}

attend_status design_has(const attend_design *d, attend_twin twin) {
  ATTEND_CHECK(d->ctx, attend_design_weights(d, twin, NULL),
               "\"%s\" has no learned twin: let it learn first", d->name);
  return ATTEND_OK;
}

const float *attend_design_weights(const attend_design *d, attend_twin twin, size_t *count) {
  if (count) *count = d->count;
  return (unsigned)twin < ATTEND_TWINS ? d->weights[twin] : NULL;
}
