/* Changes as text: the command line's, and those of a link of the page. */
#include <stdio.h>
#include <stdlib.h>

#include "attend/intervene.h"
#include "base/base.h"

enum { PLACE = 96 }; /* bytes of a place, its end included */

typedef struct {
  attend_context *ctx;
  const char *whole; /* for sentences */
} parser;

static attend_status refuse(const parser *p) {
  return fail(p->ctx, ATTEND_INVALID,
              "\"%.60s\" is not a place: write LAYER.HEAD (1.2), POINT:LAYER (mlp:3) or "
              "POINT:LAYER:TOKENS (residual:1:2-3)",
              p->whole);
}

/* "3" or "2-5", to first and count; "*": all, which is count 0. */
static attend_status parse_range(const parser *p, const char *text, int *first, int *count) {
  char *end;
  *first = *count = 0;
  if (!strcmp(text, "*")) return ATTEND_OK;
  long low = strtol(text, &end, 10), high = low;
  if (end == text || *text == '-' || *text == '+' || *text == ' ') return refuse(p);
  if (*end == '-') {
    const char *from = end + 1;
    high = strtol(from, &end, 10);
    if (end == from || *from == '-' || *from == '+' || *from == ' ') return refuse(p);
  }
  if (*end || high < low || high >= INT32_MAX) return refuse(p);
  *first = (int)low;
  *count = (int)(high - low) + 1;
  return ATTEND_OK;
}

static bool find_role(const char *word, attend_in *in) {
  for (int i = 0; i < ATTEND_ROLES; i++) {
    if (strcmp(word, attend_role_name((attend_role)i))) continue;
    *in = (attend_in)(1 << i);
    return true;
  }
  return false;
}

static bool find_point(const char *word, attend_point *point) {
  for (int i = 0; i < ATTEND_POINTS; i++) {
    if (strcmp(word, attend_point_name((attend_point)(1 << i)))) continue;
    *point = (attend_point)(1 << i);
    return true;
  }
  return false;
}

/* LAYER[.HEAD]. The text names the layer that wrote the stream, or "in": residual:1 is
 * .layer = 2, residual:in .layer = 0. */
static attend_status parse_layer(const parser *p, char *text, attend_change *c) {
  char *head = strchr(text, '.');
  if (head) *head++ = 0;
  if (c->point == ATTEND_AT_RESIDUAL && !strcmp(text, "in")) {
    c->layers = 1;
  } else {
    ATTEND_TRY(parse_range(p, text, &c->layer, &c->layers));
    c->layer += c->point == ATTEND_AT_RESIDUAL;
  }
  bool stream = c->point == ATTEND_AT_RESIDUAL || c->point == ATTEND_AT_RESIDUAL_MIDDLE ||
                c->point == ATTEND_AT_MLP;
  ATTEND_CHECK(p->ctx, !head || !stream, "\"%.60s\": the %s of a layer has no heads", p->whole,
               attend_point_name(c->point));
  return head ? parse_range(p, head, &c->head, &c->heads) : ATTEND_OK;
}

static attend_status parse_pin(const parser *p, const char *name, attend_pin *pin) {
  static const char *const names[] = {"uniform", "first", "previous", "self"};
  for (int i = 0; i < 4; i++)
    if (name && !strcmp(name, names[i])) {
      *pin = (attend_pin)i;
      return ATTEND_OK;
    }
  return fail(p->ctx, ATTEND_INVALID,
              "\"%.60s\": a pin ends with =uniform, =first, =previous or =self", p->whole);
}

/* Role and point, where they are given; *text is what follows. */
static void parse_words(char **text, attend_change *c) {
  char *colon = strchr(*text, ':');
  if (colon) *colon = 0;
  if (colon && find_role(*text, &c->in)) {
    *text = colon + 1;
    colon = strchr(*text, ':');
    if (colon) *colon = 0;
  }
  if (colon && find_point(*text, &c->point)) {
    *text = colon + 1;
    return;
  }
  if (colon) *colon = ':';
}

attend_status attend_change_parse(attend_context *ctx, attend_change_kind kind, const char *text,
                                  attend_change *change) {
  const parser p = {ctx, text};
  attend_change c = {ATTEND_INIT(attend_change), .kind = kind};
  char copy[PLACE], *at = copy;
  if (strlen(text) >= sizeof copy) return refuse(&p);
  memcpy(copy, text, strlen(text) + 1);
  char *pattern = strchr(copy, '=');
  if (!pattern && kind == ATTEND_CHANGE_PIN) pattern = strrchr(copy, ':');
  if (pattern) *pattern++ = 0;
  if (kind == ATTEND_CHANGE_PIN) ATTEND_TRY(parse_pin(&p, pattern, &c.pin));
  if (kind != ATTEND_CHANGE_PIN && pattern) return refuse(&p);
  c.point = kind == ATTEND_CHANGE_PIN ? ATTEND_AT_PATTERN : ATTEND_AT_HEAD_OUTPUT;
  parse_words(&at, &c);
  char *tokens = strchr(at, ':');
  if (tokens) *tokens++ = 0;
  ATTEND_TRY(parse_layer(&p, at, &c));
  if (tokens) ATTEND_TRY(parse_range(&p, tokens, &c.token, &c.tokens));
  *change = c;
  return ATTEND_OK;
}

/* ---- lists ------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  attend_change_kind kind;
} kinds[] = {{"ablate", ATTEND_CHANGE_ZERO},
             {"mean", ATTEND_CHANGE_MEAN},
             {"patch", ATTEND_CHANGE_PATCH},
             {"pin", ATTEND_CHANGE_PIN}};

/* The kind that `n` bytes name. */
static attend_status find_kind(attend_context *ctx, const char *word, size_t n,
                               attend_change_kind *kind) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strlen(kinds[i].name) == n && !memcmp(kinds[i].name, word, n)) {
      *kind = kinds[i].kind;
      return ATTEND_OK;
    }
  return fail(ctx, ATTEND_INVALID,
              "\"%.*s\" is not a change: choose ablate, mean, patch or pin, as in \"ablate 1.2\"",
              (int)(n < 40 ? n : 40), word);
}

static const char blanks[] = " \t\n";

/* Places of one kind, up to a semicolon or the end; *text is advanced to it. */
static attend_status parse_places(attend_context *ctx, attend_change_kind kind, const char **text,
                                  int capacity, attend_change *changes, int *n) {
  for (;;) {
    char place[PLACE];
    *text += strspn(*text, blanks);
    size_t length = strcspn(*text, ",; \t\n");
    snprintf(place, sizeof place, "%.*s", (int)(length < PLACE ? length : PLACE - 1), *text);
    ATTEND_CHECK(ctx, *n < capacity, "there are more than %d changes", capacity);
    ATTEND_CHECK(ctx, length < PLACE, "\"%.60s..\" is longer than any place", place);
    ATTEND_TRY(attend_change_parse(ctx, kind, place, &changes[(*n)++]));
    *text += length;
    *text += strspn(*text, blanks);
    if (**text != ',') return ATTEND_OK;
    ++*text;
  }
}

attend_status attend_changes_parse(attend_context *ctx, const char *text, int capacity,
                                   attend_change *changes, int *n) {
  *n = 0;
  for (text += strspn(text, " \t\n;"); *text; text += strspn(text, " \t\n;")) {
    attend_change_kind kind = ATTEND_CHANGE_ZERO;
    size_t word = strcspn(text, " \t\n;");
    ATTEND_TRY(find_kind(ctx, text, word, &kind));
    text += word;
    ATTEND_TRY(parse_places(ctx, kind, &text, capacity, changes, n));
    ATTEND_CHECK(ctx, !*text || *text == ';',
                 "\"%.40s\": write a comma between places, a semicolon between changes", text);
  }
  return ATTEND_OK;
}
