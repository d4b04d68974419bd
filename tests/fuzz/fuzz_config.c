/* config.json beside the weights of a golden model, which the first byte
 * chooses: opened, and if it opens, packed and run for three tokens. */
#include <sys/stat.h>

#include "attend/model.h"
#include "fuzz.h"
#include "model/config.h"

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
  snprintf(from, sizeof from, "%s%s%s/models/%s/model.safetensors", *golden == '/' ? "" : here,
           *golden == '/' ? "" : "/", golden, family);
  snprintf(to, sizeof to, "%s/model.safetensors", folder);
  MUST(!symlink(from, to));
  MUST(!access(to, R_OK));
  return folder;
}

/* What was taken makes sense: a member of another type than its key has, or a
 * number without sense, is refused and never passed over. */
static void check_members(const attend_json *root) {
  static const struct {
    const char *names[8];
    attend_json_kind kind;
  } keys[] = {{{"hidden_act", "model_type", "feed_forward_proj", "attend_attention",
                "attend_attention_roles"},
               ATTEND_JSON_STRING},
              {{"vocab_size", "bos_token_id", "pad_token_id", "decoder_start_token_id",
                "forced_bos_token_id", "forced_eos_token_id"},
               ATTEND_JSON_NUMBER},
              {{"tie_word_embeddings"}, ATTEND_JSON_BOOL}};
  const char *type = attend_json_string(attend_json_get(root, "model_type"), NULL);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    for (int k = 0; keys[i].names[k]; k++) {
      const char *name = keys[i].names[k];
      const attend_json *value = attend_json_get(root, name);
      bool read =
          (strcmp(name, "hidden_act") || strstr(type, "llama") || strstr(type, "bert") == type) &&
          (strcmp(name, "feed_forward_proj") || strstr(type, "t5"));
      attend_json_kind kind = attend_json_kind_of(value);
      MUST(!read || kind <= ATTEND_JSON_NULL || kind == keys[i].kind);
    }
}

static void check_config(attend_context *ctx, const attend_config *c, const char *text,
                         size_t length) {
  attend_json *root;
  MUST(!attend_json_parse(ctx, "config.json", text, length, &root));
  check_members(root);
  attend_json_free(root);
  MUST(c->norm_eps > 0 && c->norm_eps <= 1);
  for (int i = 0; i < c->n_eos; i++) MUST(c->eos[i] >= 0 && c->eos[i] < c->vocab);
  if (c->position != ATTEND_POSITIONS_ROTARY) return;
  MUST(c->rope.theta > 0 && c->rope.theta < 1e300);
  MUST(c->rope.factor > 0 && c->rope.context > 0);
}

static attend_status run_model(attend_model *model) {
  const attend_config *c = attend_model_config(model);
  static const int32_t ids[3] = {0, 1, 0};
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = 1, .rows = 4};
  attend_session *run;
  attend_status status = attend_session_create(model, &o, &run);
  if (status) return status;
  float *logits = malloc(3 * (size_t)c->vocab * sizeof *logits);
  MUST(logits);
  if (c->parts & ATTEND_ENCODER) status = attend_session_encode(run, 1, 3, ids, NULL, NULL);
  if (!status && c->parts & ATTEND_DECODER) status = attend_session_extend(run, 1, 3, ids, NULL);
  if (!status) status = attend_session_logits(run, 3, NULL, logits);
  if (!status && c->parts & ATTEND_DECODER) MUST(attend_session_length(run, 0) == 3);
  free(logits);
  attend_session_free(run);
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
  attend_config config;
  if (!config_read(ctx, folder, &config))
    check_config(ctx, &config, (const char *)bytes + 1, length - 1);
  if (!status) status = attend_model_create(files, NULL, &model);
  if (!status) status = run_model(model);
  if (status) MUST(*attend_message(ctx));
  attend_model_free(model);
  attend_checkpoint_free(files);
  MUST(fuzz_live == live);
  return 0;
}
