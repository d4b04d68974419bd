/* Decoding with a KV cache: a prompt at once, then token by token, then two
 * continuations that share the cache of their common prefix.
 *
 * However the tokens are chunked, the bits are those of one call on all of them.
 */
#include <attend/attend.h>
#include <stdio.h>
#include <string.h>

enum { H = 4, G = 2, T = 200, D = 32, PROMPT = 150 };

static float q[H * T * D], k[G * T * D], v[G * T * D];
static float whole[H * T * D], fed[H * T * D];

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

/* Rows from position `at` of a tensor [heads, T, D], without a copy. */
static attend_view from(float *x, int at) {
  attend_view view = {x + at * D, {0, T * D, D, 1}};
  return view;
}

static attend_status feed(attend_plan *plan, attend_state *state, int at, int n) {
  return attend_extend(plan, state, n, from(q, at), from(k, at), from(v, at), from(fed, at), NULL);
}

int main(void) {
  attend_context *ctx;
  attend_plan *once, *plan;
  attend_state *state, *fork;
  attend_random_normal((attend_random){1, 0}, 0, H * T * D, q);
  attend_random_normal((attend_random){1, 1}, 0, G * T * D, k);
  attend_random_normal((attend_random){1, 2}, 0, G * T * D, v);
  TRY(attend_context_create(NULL, &ctx));

  /* All positions in one call. */
  attend_desc d = {
      ATTEND_INIT(attend_desc),    .heads = H, .kv_heads = G, .q_len = T, .kv_len = T, .dim = D,
      .mask.causal = ATTEND_CAUSAL};
  TRY(attend_plan_create(ctx, &d, &once));
  TRY(attend_forward(once, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v), attend_bhtd(whole),
                     NULL));

  /* The same with a state: q_len is now the largest number of positions per call. */
  d.q_len = PROMPT;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.purpose = ATTEND_FOR_EXTEND;
  TRY(attend_plan_create(ctx, &d, &plan));
  TRY(attend_state_create(plan, &state));
  TRY(feed(plan, state, 0, PROMPT));
  printf("a prompt of %d positions: %zu bytes of pages\n", PROMPT, attend_state_bytes(state));

  TRY(attend_state_fork(state, &fork));
  for (int at = PROMPT; at < T; at++) TRY(feed(plan, state, at, 1));
  int same = !memcmp(whole, fed, sizeof whole);
  printf("then %d tokens, one by one: %s bits as in one call\n", T - PROMPT,
         same ? "the same" : "DIFFERENT");

  /* The fork is still at the end of the prompt and continues independently. */
  int untouched = attend_state_length(fork, 0) == PROMPT;
  memset(fed, 0, sizeof fed);
  TRY(feed(plan, fork, PROMPT, T - PROMPT));
  for (int h = 0; h < H; h++)
    same = same && !memcmp(whole + (h * T + PROMPT) * D, fed + (h * T + PROMPT) * D,
                           (T - PROMPT) * D * sizeof(float));
  printf("a fork from the prompt on, %d tokens at once: %s bits\n", T - PROMPT,
         same ? "the same" : "DIFFERENT");

  attend_state_free(fork);
  attend_state_free(state);
  attend_plan_free(plan);
  attend_plan_free(once);
  attend_context_free(ctx);
  return !(same && untouched);
}
