/* config.json beside the weights of a golden model, which the first byte
 * chooses: opened, and if it opens, packed and run for three tokens. */
#include <sys/stat.h>

#include "attend/model.h"
#include "fuzz.h"

static const char *const families[] = {"gpt2", "llama-gqa",  "llama-mqa-tied",
                                       "bert", "distilbert", "roberta",
                                       "bart", "t5",         "t5-gated"};
enum { FAMILIES = sizeof families / sizeof *families };

/* A folder of this family with its weights. */
static const char *put_weights(const char *family) {
  static char folder[300];
  char from[1100], to[400], here[1000];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(folder, sizeof folder, "%s", fuzz_path(family));
  if (mkdir(folder, 0700)) return folder; /* as it was left */
  MUST(golden && getcwd(here, sizeof here));
  snprintf(from, sizeof from, "%s%s%s/models/%s/model.safetensors",
           *golden == '/' ? "" : here, *golden == '/' ? "" : "/", golden,
           family);
  snprintf(to, sizeof to, "%s/model.safetensors", folder);
  MUST(!symlink(from, to));
  MUST(!access(to, R_OK));
  return folder;
}

static attend_status run_model(attend_model *model) {
  const attend_config *c = attend_model_config(model);
  static const int32_t ids[3] = {0, 1, 0};
  attend_run_options o = {.batch = 1, .rows = 4};
  attend_run *run;
  attend_status status = attend_run_create(model, &o, &run);
  if (status) return status;
  float *logits = malloc(3 * (size_t)c->vocab * sizeof *logits);
  MUST(logits);
  if (c->parts & ATTEND_ENCODER)
    status = attend_run_encode(run, 1, 3, ids, NULL, NULL);
  if (!status && c->parts & ATTEND_DECODER)
    status = attend_run_extend(run, 1, 3, ids, NULL);
  if (!status) status = attend_run_logits(run, 3, NULL, logits);
  if (!status && c->parts & ATTEND_DECODER)
    MUST(attend_run_length(run, 0) == 3);
  free(logits);
  attend_run_free(run);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  if (!length) return 0;
  attend_context *ctx = fuzz_context(length);
  const char *family = families[bytes[0] % FAMILIES];
  char name[64];
  size_t live = fuzz_live;
  attend_checkpoint *files;
  attend_model *model = NULL;
  const char *folder = put_weights(family);
  snprintf(name, sizeof name, "%s/config.json", family);
  fuzz_file(name, bytes + 1, length - 1);
  attend_status status = attend_checkpoint_open(ctx, folder, &files);
  MUST((status == ATTEND_OK) == (files != NULL));
  if (!status) status = attend_model_create(files, NULL, &model);
  if (!status) status = run_model(model);
  if (status) MUST(*attend_message(ctx));
  attend_model_free(model);
  attend_checkpoint_close(files);
  MUST(fuzz_live == live);
  return 0;
}
