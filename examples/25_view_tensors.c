/* Attention of your own in the session of `attend view`: weights from anywhere, with tokens. */
#include <attend/attend.h>
#include <attend/viewer.h>
#include <stdio.h>

enum { L = 2, H = 1, T = 4 };

/* Layer 0 looks at the token before, layer 1 at the first. [H,T,T] each. */
static const float before[T * T] = {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
static const float first[T * T] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};

int main(void) {
  const char *const tokens[T] = {"The", " dog", " ran", "."};
  const attend_const_view weights[L] = {{.data = before}, {.data = first}};
  attend_viewer_attention a = {.role = ATTEND_DECODER_SELF,
                               .layers = L,
                               .weights = weights,
                               .of = {ATTEND_INIT(attend_desc), .heads = H, .q_len = T, .kv_len = T,
                                      .mask.causal = ATTEND_CAUSAL}};
  attend_viewer_tensors mine = {ATTEND_INIT(attend_viewer_tensors), .name = "mine", .n = 1,
                                .attention = &a, .tokens[1] = {T, tokens}};
  attend_context *ctx;
  attend_viewer *v = NULL;
  const attend_viewer_run *run;
  attend_viewer_patterns p = {0};
  attend_viewer_case any = {ATTEND_INIT(attend_viewer_case)};
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_viewer_create(ctx, NULL, &v);
  if (!status) status = attend_viewer_add_tensors(v, &mine);
  if (!status) status = attend_viewer_run_case(v, &any, NULL, &run);
  attend_viewer_head all = {.run = run, .at.role = ATTEND_DECODER_SELF};
  if (!status) status = attend_viewer_get_patterns(v, &all, &p);
  for (int i = 0; i < L && !status; i++)
    printf("layer %d: %s\n", i, attend_head_pattern_name((attend_head_pattern)p.scores[i].pattern));
  if (status) fprintf(stderr, "%s\n", attend_message(ctx));
  if (v) attend_viewer_release(v, p.memory);
  attend_viewer_free(v);
  attend_context_free(ctx);
  return status != ATTEND_OK;
}
