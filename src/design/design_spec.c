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

attend_status spec_wrong(const reading *r, const char *sentence, ...) {
  char text[400];
  va_list args;
  va_start(args, sentence);
  vsnprintf(text, sizeof text, sentence, args);
  va_end(args);
  return fail(r->d->ctx, ATTEND_INVALID, "%.60s%s%s: %s", r->what,
              *r->place ? ": " : "", r->place, text);
}

attend_status spec_members(const reading *r, const attend_json *object,
                           const char *known) {
  SPEC_CHECK(r, attend_json_kind_of(object) == ATTEND_JSON_OBJECT,
             "an object with some of%sis wanted", known);
  for (size_t i = 0; i < attend_json_count(object); i++) {
    char word[NAME + 2];
    const char *name = attend_json_name(attend_json_at(object, i), NULL);
    snprintf(word, sizeof word, " %.28s ", name);
    SPEC_CHECK(r, strstr(known, word),
               "\"%.40s\" is not known here: there are%s", name, known);
  }
  return ATTEND_OK;
}

bool spec_is_list(const attend_json *value, size_t least, size_t most) {
  size_t n = attend_json_count(value);
  return attend_json_kind_of(value) == ATTEND_JSON_ARRAY && n >= least &&
         n <= most;
}

attend_status spec_name(const reading *r, const attend_json *value,
                        const char *of, char to[NAME]) {
  size_t length = 0;
  const char *text = attend_json_string(value, &length);
  SPEC_CHECK(r, text && length > 0 && length < NAME && strlen(text) == length,
             "%s is a string of 1 to %d bytes", of, NAME - 1);
  SPEC_CHECK(r, !strpbrk(text, " \t\r\n"), "%s has no spaces: \"%s\" has", of,
             text);
  memcpy(to, text, length + 1);
  return ATTEND_OK;
}

attend_status spec_integer(const reading *r, const attend_json *object,
                           const char *of, int low, int high, int *to) {
  const attend_json *value = attend_json_get(object, of);
  int64_t n;
  if (!value) return ATTEND_OK;
  SPEC_CHECK(r, attend_json_integer(value, &n) && n >= low && n <= high,
             "\"%s\" is a whole number from %d to %d", of, low, high);
  *to = (int)n;
  return ATTEND_OK;
}

static attend_status spec_positive(const reading *r, const attend_json *object,
                                   const char *of, double high, double *to) {
  const attend_json *value = attend_json_get(object, of);
  if (!value) return ATTEND_OK;
  double x = attend_json_number(value, -1);
  SPEC_CHECK(r, x >= 0 && x <= high, "\"%s\" is a number from 0 to %g", of,
             high);
  *to = x;
  return ATTEND_OK;
}

static attend_status long_text(const reading *r, const attend_json *object,
                               const char *of, char *to, size_t room) {
  const attend_json *value = attend_json_get(object, of);
  size_t length;
  const char *text = attend_json_string(value, &length);
  if (!value) return ATTEND_OK;
  SPEC_CHECK(r, text && length < room && strlen(text) == length,
             "\"%s\" is a string of less than %zu bytes", of, room);
  memcpy(to, text, length + 1);
  return ATTEND_OK;
}

attend_status spec_word(const reading *r, const attend_json *object,
                        const char *of, const char *const *words, int *to) {
  const attend_json *value = attend_json_get(object, of);
  const char *text = attend_json_string(value, NULL);
  if (!value) return ATTEND_OK;
  for (int i = 0; text && words[i]; i++)
    if (!strcmp(words[i], text)) {
      *to = i;
      return ATTEND_OK;
    }
  char list[120] = "";
  for (int i = 0; words[i]; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"",
             i ? ", " : "", words[i]);
  return spec_wrong(r, "\"%s\" is one of %s", of, list);
}

/* ---- names ------------------------------------------------------------------------ */

int spec_find(const char (*names)[NAME], int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

static attend_status name_list(const reading *r, const attend_json *value,
                               const char *of, int most, char (*to)[NAME],
                               int *count) {
  size_t n = attend_json_count(value);
  SPEC_CHECK(r, spec_is_list(value, 1, (size_t)most),
             "\"%s\" is a list of 1 to %d names", of, most);
  for (size_t i = 0; i < n; i++) {
    ATTEND_TRY(spec_name(r, attend_json_at(value, i), of, to[i]));
    SPEC_CHECK(r, spec_find(to, (int)i, to[i]) < 0, "\"%s\" is in \"%s\" twice",
               to[i], of);
  }
  *count = (int)n;
  return ATTEND_OK;
}

/* The token put before or behind every input. */
static attend_status around(const reading *r, const attend_json *value,
                            const char *of, int *id) {
  attend_design *d = r->d;
  *id = -1;
  if (!value) return ATTEND_OK;
  ATTEND_TRY(spec_name(r, value, of, d->token[d->tokens]));
  SPEC_CHECK(r, spec_find(d->token, d->tokens, d->token[d->tokens]) < 0,
             "\"%s\" is a token already: \"%s\" is one of its own",
             d->token[d->tokens], of);
  *id = d->tokens++;
  return ATTEND_OK;
}

static attend_status read_tokens(const reading *r, const attend_json *root) {
  attend_design *d = r->d;
  ATTEND_TRY(name_list(r, attend_json_get(root, "alphabet"), "alphabet",
                       MOST_TOKENS - 2, d->token, &d->letters));
  d->tokens = d->letters;
  ATTEND_TRY(around(r, attend_json_get(root, "start"), "start", &d->start));
  ATTEND_TRY(around(r, attend_json_get(root, "end"), "end", &d->end));
  const attend_json *answers = attend_json_get(root, "answers");
  if (answers)
    return name_list(r, answers, "answers", MOST_ANSWERS, d->answer,
                     &d->answers);
  d->answers = d->letters;
  memcpy(d->answer, d->token, sizeof(char[NAME]) * (size_t)d->letters);
  return ATTEND_OK;
}

static attend_status read_sizes(const reading *r, const attend_json *root) {
  static const char *const positions[] = {"none", "concatenated", "added",
                                          NULL};
  static const char *const masks[] = {"none", "causal", NULL};
  static const char *const places[] = {"every", "first", "last", NULL};
  attend_design *d = r->d;
  int around = (d->start >= 0) + (d->end >= 0), way = 1, mask = 0, at = 0;
  d->shortest = 1;
  d->longest = 4;
  ATTEND_TRY(
      spec_integer(r, root, "length", 1, MOST_PLACES - around, &d->longest));
  if (d->shortest > d->longest) d->shortest = d->longest;
  ATTEND_TRY(spec_integer(r, root, "shortest", around ? 0 : 1, d->longest,
                          &d->shortest));
  ATTEND_TRY(spec_word(r, root, "positions", positions, &way));
  ATTEND_TRY(spec_word(r, root, "mask", masks, &mask));
  ATTEND_TRY(spec_word(r, root, "at", places, &at));
  d->positions = (attend_design_positions)way;
  d->causal = mask == 1;
  d->at = (attend_design_asked)at;
  d->places = d->longest + around;
  return ATTEND_OK;
}

static attend_status read_learning(reading *r, const attend_json *learn) {
  attend_design *d = r->d;
  int seed = 1;
  d->steps = 1000;
  d->batch = 512;
  d->rate = 0.01;
  if (learn) {
    snprintf(r->place, sizeof r->place, "learn");
    ATTEND_TRY(spec_members(r, learn, " seed steps batch rate decay "));
  }
  ATTEND_TRY(spec_integer(r, learn, "seed", 0, INT32_MAX, &seed));
  ATTEND_TRY(spec_integer(r, learn, "steps", 1, MOST_STEPS, &d->steps));
  ATTEND_TRY(spec_integer(r, learn, "batch", 1, 4096, &d->batch));
  ATTEND_TRY(spec_positive(r, learn, "rate", 10, &d->rate));
  ATTEND_TRY(spec_positive(r, learn, "decay", 10, &d->decay));
  d->seed = (uint64_t)seed;
  *r->place = 0;
  return ATTEND_OK;
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

static const char members[] =
    " name about alphabet start end positions mask length shortest layers "
    "answers at readout task depth examples example learn ";

static attend_status read_root(reading *r, const attend_json *root) {
  attend_design *d = r->d;
  ATTEND_TRY(spec_members(r, root, members));
  ATTEND_TRY(spec_name(r, attend_json_get(root, "name"), "name", d->name));
  ATTEND_TRY(long_text(r, root, "about", d->about, sizeof d->about));
  ATTEND_TRY(long_text(r, root, "example", d->example, sizeof d->example));
  ATTEND_TRY(read_tokens(r, root));
  ATTEND_TRY(read_sizes(r, root));
  first_variables(d);
  ATTEND_TRY(spec_heads(r, attend_json_get(root, "layers")));
  ATTEND_TRY(spec_readout(r, attend_json_get(root, "readout")));
  ATTEND_TRY(spec_task(r, root));
  return read_learning(r, attend_json_get(root, "learn"));
}

/* What is looked at must be an input. Without one, the first letters in turn. */
static attend_status read_example(const reading *r) {
  attend_design *d = r->d;
  design_input x = {.n = d->longest};
  if (!*d->example) {
    for (int i = 0; i < x.n; i++) x.letter[i] = (int8_t)(i % d->letters);
    design_text(d, &x, d->example);
  }
  return spec_input(r, d->example, &x);
}

static attend_status read_all(reading *r, const char *text, size_t length) {
  attend_design *d = r->d;
  attend_json *root;
  ATTEND_TRY(take(d->ctx, length + 1, "a spec", &d->text));
  memcpy(d->text, text, length);
  d->text[length] = 0;
  ATTEND_TRY(attend_json_parse(d->ctx, r->what, text, length, &root));
  attend_status status = read_root(r, root);
  if (!status) status = read_example(r);
  attend_json_free(root);
  return status;
}

attend_status attend_design_read(attend_context *ctx, const char *what,
                                 const char *text, size_t length,
                                 attend_design **design) {
  reading r = {.what = what};
  *design = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *r.d, "a design", &r.d));
  r.d->ctx = ctx;
  attend_status status = read_all(&r, text, length);
  give(ctx, r.c);
  if (status)
    attend_design_free(r.d);
  else
    *design = r.d;
  return status;
}

void attend_design_free(attend_design *d) {
  if (!d) return;
  for (int i = 0; i < ATTEND_TWINS; i++) give(d->ctx, d->weights[i]);
  give(d->ctx, d->examples);
  give(d->ctx, d->text);
  give(d->ctx, d);
}
