/* Stop strings across the borders of tokens, with a model that tells stories:
 * the text ends before the first of them, what was streamed is the text and
 * never a part of a stop string, and a string that almost comes stops nothing. */
#include <ctype.h>

#include "golden_models.h"

typedef struct {
  char text[4096];
  size_t length;
  int tokens;
} heard;

static int hear(const attend_token *t, void *user) {
  heard *h = user;
  if (h->length + t->length < sizeof h->text) memcpy(h->text + h->length, t->text, t->length);
  h->length += t->length;
  h->tokens += t->id >= 0;
  return 0;
}

typedef struct {
  subject s;
  attend_tokenizer *tokenizer;
  attend_encoding *prompt;
  char *whole; /* without stops */
  int32_t *ids;
  int count;
} story;

static attend_generation *tell_until(const story *t, const char *const *stops, int n_stops,
                                     heard *h) {
  attend_prompt prompt = {t->prompt->id, (int)t->prompt->count};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_generation *g = NULL;
  *h = (heard){.length = 0};
  o.max_new = light() ? 30 : 60;
  o.tokenizer = t->tokenizer;
  o.stops = stops;
  o.n_stops = n_stops;
  o.on_token = hear;
  o.user = h;
  OK(t->s.ctx, attend_generate(t->s.model, 1, &prompt, &o, &g));
  if (!g) exit(1);
  return g;
}

static story open_story(void) {
  static const char begin[] = "Once upon a time";
  story t = {.s = open_model("stories260K", NULL, 2, NULL)};
  heard h;
  OK(t.s.ctx, attend_tokenizer_load(t.s.ctx, model_path("stories260K", NULL), &t.tokenizer));
  OK(t.s.ctx, attend_encoding_create(t.tokenizer, &t.prompt));
  OK(t.s.ctx, attend_encode(t.prompt, begin, strlen(begin), NULL));
  attend_generation *g = tell_until(&t, NULL, 0, &h);
  const attend_continuation *c = attend_generation_get(g, 0);
  t.whole = copy_of(c->text, strlen(c->text) + 1);
  t.ids = copy_of(c->ids, (size_t)c->count * sizeof *c->ids);
  t.count = c->count;
  CHECK_EQ(c->end, ATTEND_FINISH_LENGTH);
  CHECK(h.length == strlen(c->text) && !memcmp(h.text, c->text, h.length));
  CHECK_EQ(h.tokens, c->count);
  CHECK(strlen(t.whole) > 60 && isgraph((unsigned char)t.whole[5]));
  attend_generation_free(g);
  return t;
}

static void close_story(story *t) {
  free(t->whole);
  free(t->ids);
  attend_encoding_free(t->prompt);
  attend_tokenizer_free(t->tokenizer);
  close_model(&t->s);
}

/* The text is what comes before the first of the stops that is complete. */
static void check_stops(const story *t, const char *const *stops, int n) {
  size_t length = strlen(t->whole), ends = length + 1;
  bool stopped = false;
  for (int i = 0; i < n; i++) {
    const char *at = strstr(t->whole, stops[i]);
    if (!at) continue;
    size_t end = (size_t)(at - t->whole) + strlen(stops[i]);
    if (end < ends) {
      ends = end;
      length = (size_t)(at - t->whole);
    }
    stopped = true;
  }
  heard h;
  attend_generation *g = tell_until(t, stops, n, &h);
  const attend_continuation *c = attend_generation_get(g, 0);
  if (strlen(c->text) != length || memcmp(c->text, t->whole, length))
    CHECK_FAIL("until \"%s\": \"%s\"", stops[0], c->text);
  if (h.length != length || memcmp(h.text, t->whole, length))
    CHECK_FAIL("until \"%s\" was heard: \"%.*s\"", stops[0], (int)h.length, h.text);
  CHECK_EQ(c->end, stopped ? ATTEND_FINISH_STOP : ATTEND_FINISH_LENGTH);
  CHECK(c->count <= t->count && !memcmp(c->ids, t->ids, (size_t)c->count * sizeof *c->ids));
  attend_generation_free(g);
}

TEST(any_part_of_the_text_stops_it) {
  story t = open_story();
  size_t length = strlen(t.whole);
  int cases = light() ? 6 : 40;
  for (int i = 0; i < cases; i++) {
    float u[2];
    char stop[32] = "";
    attend_random_uniform((attend_random){9, (uint64_t)i}, 0, 2, u);
    size_t n = 1 + (size_t)(u[1] * 20), at = (size_t)(u[0] * (float)(length - n));
    memcpy(stop, t.whole + at, n);
    const char *stops[] = {stop};
    check_stops(&t, stops, 1);
  }
  close_story(&t);
}

TEST(what_only_begins_stops_nothing) {
  story t = open_story();
  char almost[64], last[64];
  size_t length = strlen(t.whole);
  snprintf(almost, sizeof almost, "%.12s#", t.whole + 7);
  snprintf(last, sizeof last, "%s and on", t.whole + length - 6);
  const char *stops[] = {almost, last, "never said"};
  check_stops(&t, stops, 3); /* the end is heard although it was held back */
  close_story(&t);
}

TEST(the_first_of_several) {
  story t = open_story();
  char late[8], early[8];
  snprintf(late, sizeof late, "%.6s", t.whole + 40);
  snprintf(early, sizeof early, "%.6s", t.whole + 20);
  const char *stops[] = {late, "never said", early};
  check_stops(&t, stops, 3);
  close_story(&t);
}
