/* Head patterns of a model: 11_heads [MODEL]
 *
 * A decoder reads a text, as token ids, while a trace records queries, keys, values
 * and denominators. A lens then scores the pattern of every head, and computes the
 * weights of the head that attends most to the previous token.
 */
#include <attend/attend.h>
#include <attend/lens.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A repeated sequence, for induction heads. */
static const int32_t ids[] = {1, 72, 40, 96, 51, 120, 8, 33, 72, 40, 96, 51, 120, 8, 33, 72};
enum { N = sizeof ids / sizeof *ids };

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static void draw(const float *weights) {
  static const char shades[] = " .:-=+*#%@";
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) putchar(shades[(int)(9.99f * sqrtf(weights[i * N + j]))]);
    putchar('\n');
  }
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/stories260K";
  attend_context *ctx;
  attend_checkpoint *files;
  attend_model *model;
  attend_session *session;
  attend_trace *trace;
  attend_lens *lens;
  attend_trace_options what = {ATTEND_INIT(attend_trace_options),
                               .points = ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE |
                                         ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_DENOMINATOR};
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_checkpoint_open(ctx, path, &files));
  TRY(attend_model_create(files, NULL, &model));
  TRY(attend_session_create(model, NULL, &session));
  TRY(attend_trace_create(ctx, &what, &trace));
  printf("a trace of %d tokens takes %zu bytes\n", N,
         attend_model_trace_bytes(model, what.points, 0, N));
  attend_hook hook = attend_trace_hook(trace);
  TRY(attend_session_set_hooks(session, 1, &hook));
  TRY(attend_session_extend(session, 1, N, ids, NULL));
  TRY(attend_trace_status(trace));
  TRY(attend_lens_create(model, trace, NULL, 0, &lens));

  attend_lens_shape shape;
  attend_lens_role(lens, ATTEND_DECODER_SELF, &shape);
  attend_head_id best = {ATTEND_DECODER_SELF, 0, 0};
  double max = -1;
  for (int l = 0; l < shape.layers; l++) {
    printf("layer %d:", l);
    for (int h = 0; h < shape.heads; h++) {
      attend_head_id at = {ATTEND_DECODER_SELF, l, h};
      attend_pattern_options text = {ATTEND_INIT(attend_pattern_options), .row_ids = ids,
                                     .key_ids = ids};
      attend_pattern_scores p;
      TRY(attend_lens_pattern(lens, at, &text, &p));
      printf(" %s", p.pattern < 0 ? "-" : attend_head_pattern_name((attend_head_pattern)p.pattern));
      if (p.score[ATTEND_PATTERN_PREVIOUS] <= max) continue;
      max = p.score[ATTEND_PATTERN_PREVIOUS];
      best = at;
    }
    putchar('\n');
  }

  float weights[N * N];
  TRY(attend_lens_block(lens, best, 0, N, 0, N, weights));
  printf("layer %d, head %d: %.2f of its weight on the previous token\n", best.layer, best.head,
         max);
  draw(weights);

  attend_lens_free(lens);
  attend_trace_free(trace);
  attend_session_free(session);
  attend_model_free(model);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return 0;
}
