/* A million tokens in constant memory: 08_million_tokens [TOKENS]
 *
 * The state of a linear form is a sum over keys: it is as large after a million
 * tokens as after a thousand, and a token costs the same. Before the last tokens
 * the state is saved to a file and loaded. They are then fed one by one to the loaded
 * state and in one call to the original: the bits are the same. The last token
 * is checked against the equation, over all keys.
 */
#include <attend/attend.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { D = 16, CHUNK = 500 };

/* Tokens are drawn by number when needed, so the million is never stored. */
static float drawn[3 * CHUNK * D];
static float *const q = drawn, *const k = drawn + CHUNK * D;
static float *const v = drawn + 2 * CHUNK * D;

static void draw(long chunk) {
  uint64_t first = (uint64_t)chunk * 3 * CHUNK * D;
  attend_random_uniform((attend_random){8, 0}, first, 3 * CHUNK * D, drawn);
  for (int i = 0; i < 3 * CHUNK * D; i++) drawn[i] = 4 * drawn[i] - 2;
}

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static attend_status feed(attend_plan *plan, attend_state *state, int at, int n, float *o) {
  return attend_extend(plan, state, n, attend_bhtd(q + at * D), attend_bhtd(k + at * D),
                       attend_bhtd(v + at * D), attend_bhtd(o + at * D), NULL);
}

static double phi(float x) { return x > 0 ? (double)x + 1 : exp((double)x); }

/* The equation for one query: every key is drawn again. */
static void by_the_equation(const float *query, long chunks, double *out) {
  double row[D], sum = 0;
  for (int i = 0; i < D; i++) row[i] = phi(query[i]), out[i] = 0;
  for (long c = 0; c < chunks; c++) {
    draw(c);
    for (int j = 0; j < CHUNK; j++) {
      double weight = 0;
      for (int i = 0; i < D; i++) weight += row[i] * phi(k[j * D + i]);
      for (int i = 0; i < D; i++) out[i] += weight * (double)v[j * D + i];
      sum += weight;
    }
  }
  for (int i = 0; i < D; i++) out[i] /= sum;
}

int main(int argc, char **argv) {
  long chunks = (argc > 1 ? atol(argv[1]) : 1000000) / CHUNK;
  if (chunks < 4) return fprintf(stderr, "TOKENS: %d or more\n", 4 * CHUNK), 2;
  static float o[CHUNK * D], single[CHUNK * D];
  char path[] = "/tmp/attend-state-XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || close(file)) return perror(path), 1;

  attend_context *ctx;
  attend_plan *plan;
  attend_state *state, *restored = NULL;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = ATTEND_ELU,
                   .q_len = CHUNK, /* largest number per call */
                   .dim = D,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .purpose = ATTEND_FOR_EXTEND};
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_plan_create(ctx, &d, &plan));
  TRY(attend_state_create(plan, &state));

  size_t early = 0;
  for (long c = 0; c < chunks - 1; c++) {
    draw(c);
    TRY(feed(plan, state, 0, CHUNK, o));
    if (restored) TRY(feed(plan, restored, 0, CHUNK, o));
    if (c == 1) early = attend_state_bytes(state);
    if (c == chunks / 2) {
      TRY(attend_state_save(state, path));
      TRY(attend_state_load(plan, path, &restored));
      printf("saved and restored at %lld tokens\n", (long long)attend_state_length(restored, 0));
    }
  }
  draw(chunks - 1);
  TRY(feed(plan, state, 0, CHUNK, o));
  clock_t start = clock();
  for (int i = 0; i < CHUNK; i++) TRY(feed(plan, restored, i, 1, single));
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;

  size_t late = attend_state_bytes(state);
  printf("the state has %zu bytes at %d tokens, %zu at %lld\n", early, 2 * CHUNK, late,
         (long long)attend_state_length(state, 0));
  int same = !memcmp(o, single, sizeof o);
  printf("the last %d one by one, after loading: %s bits, %.1f us each\n", CHUNK,
         same ? "the same" : "DIFFERENT", 1e6 * seconds / CHUNK);

  double want[D], worst = 0, largest = 0;
  const float *last = o + (CHUNK - 1) * D;
  float query[D];
  memcpy(query, q + (CHUNK - 1) * D, sizeof query);
  by_the_equation(query, chunks, want);
  for (int i = 0; i < D; i++) {
    double error = fabs((double)last[i] - want[i]);
    if (!(error <= worst)) worst = error;
    largest = fmax(largest, fabs(want[i]));
  }
  printf("the last row begins with %.8f, by the equation with %.8f\n", (double)last[0], want[0]);

  remove(path);
  attend_state_free(restored);
  attend_state_free(state);
  attend_plan_free(plan);
  attend_context_free(ctx);
  return !(early == late && same && worst < 1e-4 * largest);
}
