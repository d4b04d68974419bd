/* A spec, from JSON to a design.
 *
 * Place: design/ - the first step: names, sizes and the order of things; what is
 * said of heads is read by design_heads.c, of answers by design_readout.c.
 *
 * What is not known is refused by name: a misspelt member would otherwise leave a
 * design that means something else.
 */
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
  r->status = fail(r->d->ctx, ATTEND_INVALID, "%.60s%s%s: %s", r->what,
                   *r->place ? ": " : "", r->place, text);
  return false;
}

bool spec_members(reading *r, const attend_json *object, const char *known) {
  spec_check(r, attend_json_kind_of(object) == ATTEND_JSON_OBJECT,
             "an object with some of%sis wanted", known);
  for (size_t i = 0; i < attend_json_count(object); i++) {
    char word[NAME + 2];
    const char *name = attend_json_name(attend_json_at(object, i), NULL);
    snprintf(word, sizeof word, " %.28s ", name ? name : "");
    spec_check(r, strstr(known, word),
               "\"%.40s\" is not known here: there are%s", name, known);
  }
  return !r->status;
}

bool spec_is_list(const attend_json *value, size_t least, size_t most) {
  size_t n = attend_json_count(value);
  return attend_json_kind_of(value) == ATTEND_JSON_ARRAY && n >= least &&
         n <= most;
}

void spec_name(reading *r, const attend_json *value, const char *of,
               char to[NAME]) {
  size_t length = 0;
  const char *text = attend_json_string(value, &length);
  if (spec_check(r,
                 text && length > 0 && length < NAME && strlen(text) == length,
                 "%s is a string of 1 to %d bytes", of, NAME - 1) &&
      spec_check(r, !strpbrk(text, " \t\r\n"), "%s has no spaces: \"%s\" has",
                 of, text))
    memcpy(to, text, length + 1);
}

int spec_integer(reading *r, const attend_json *object, const char *of, int low,
                 int high, int otherwise) {
  const attend_json *value = attend_json_get(object, of);
  int64_t n = otherwise;
  bool whole = !value || attend_json_integer(value, &n);
  return spec_check(r, !value || (whole && n >= low && n <= high),
                    "\"%s\" is a whole number from %d to %d", of, low, high)
             ? (int)n
             : otherwise;
}

static double spec_number(reading *r, const attend_json *object, const char *of,
                          double high, double otherwise) {
  const attend_json *value = attend_json_get(object, of);
  double x = value ? attend_json_number(value, -1) : otherwise;
  spec_check(r, x >= 0 && x <= high, "\"%s\" is a number from 0 to %g", of,
             high);
  return x;
}

static void spec_text(reading *r, const attend_json *object, const char *of,
                      char *to, size_t room) {
  const attend_json *value = attend_json_get(object, of);
  size_t length;
  const char *text = attend_json_string(value, &length);
  if (value &&
      spec_check(r, text && length < room && strlen(text) == length,
                 "\"%s\" is a string of less than %zu bytes", of, room))
    memcpy(to, text, length + 1);
}

int spec_word(reading *r, const attend_json *object, const char *of,
              const char *const *words, int otherwise) {
  const attend_json *value = attend_json_get(object, of);
  const char *text = attend_json_string(value, NULL);
  char list[120] = "";
  for (int i = 0; words[i]; i++) {
    if (text && !strcmp(words[i], text)) return i;
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"",
             i ? ", " : "", words[i]);
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

static int name_list(reading *r, const attend_json *value, const char *of,
                     int most, char (*to)[NAME]) {
  int n = 0;
  spec_check(r, spec_is_list(value, 1, (size_t)most),
             "\"%s\" is a list of 1 to %d names", of, most);
  for (; !r->status && n < (int)attend_json_count(value); n++) {
    spec_name(r, attend_json_at(value, (size_t)n), of, to[n]);
    spec_check(r, spec_find(to, n, to[n]) < 0, "\"%s\" is in \"%s\" twice",
               to[n], of);
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
  d->letters = d->tokens = name_list(r, attend_json_get(root, "alphabet"),
                                     "alphabet", MOST_TOKENS - 2, d->token);
  memcpy(d->answer, d->token, sizeof d->token);
  d->start = around(r, attend_json_get(root, "start"), "start");
  d->end = around(r, attend_json_get(root, "end"), "end");
  d->answers = answers
                   ? name_list(r, answers, "answers", MOST_ANSWERS, d->answer)
                   : d->letters;
}

static void read_sizes(reading *r, const attend_json *root) {
  static const char *const positions[] = {"none", "concatenated", "added",
                                          NULL};
  static const char *const masks[] = {"none", "causal", NULL};
  static const char *const places[] = {"every", "first", "last", NULL};
  attend_design *d = r->d;
  int around = (d->start >= 0) + (d->end >= 0);
  d->longest = spec_integer(r, root, "length", 1, MOST_PLACES - around, 4);
  d->shortest =
      spec_integer(r, root, "shortest", around ? 0 : 1, d->longest, 1);
  d->positions =
      (attend_design_positions)spec_word(r, root, "positions", positions, 1);
  d->causal = spec_word(r, root, "mask", masks, 0);
  d->at = (attend_design_asked)spec_word(r, root, "at", places, 0);
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
  spec_add_variable(d, (variable){"token", KIND_TOKEN, .width = d->tokens,
                                  .room = d->tokens});
  if (d->positions != ATTEND_DESIGN_POSITIONS_NONE)
    spec_add_variable(d, (variable){"position", KIND_POSITION,
                                    .width = d->places, .room = d->places});
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

attend_status attend_design_read(attend_context *ctx, const char *what,
                                 const char *text, size_t length,
                                 attend_design **design) {
  reading r = {.what = what};
  attend_json *root = NULL;
  *design = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *r.d, "a design", &r.d));
  r.d->ctx = ctx;
  r.status = take_zeroed(ctx, length + 1, "a spec", &r.d->text);
  if (!r.status) {
    memcpy(r.d->text, text, length);
    r.status = attend_json_parse(ctx, what, text, length, &root);
  }
  if (!r.status) read_root(&r, root);
  attend_json_free(root);
  give(ctx, r.c);
  if (r.status)
    attend_design_free(r.d);
  else
    *design = r.d;
  return r.status;
}

void attend_design_free(attend_design *d) {
  if (!d) return;
  for (int i = 0; i < ATTEND_TWINS; i++) give(d->ctx, d->weights[i]);
  give(d->ctx, d->examples);
  give(d->ctx, d->text);
  give(d->ctx, d);
}
