/* Attention cases computed by PyTorch in float64: outputs and gradients within
 * twice the error of a plain float run and 4 roundings of the largest number, on
 * every instruction set. */
#include "attend/file.h"
#include "attend/json.h"
#include "naive_attention.h"

enum { Q, K, V, D_O, INPUTS };
enum { O = INPUTS, LSE, DQ, DK, DV, PARTS };
static const char *const part_names[PARTS] = {"q", "k", "v", "do", "o", "lse", "dq", "dk", "dv"};

typedef struct {
  const char *name;
  attend_desc desc;
  int32_t lengths[16];
  float *part[PARTS];
  size_t count[PARTS];
} golden;

/* ---- reading ------------------------------------------------------------------- */

static int number(const attend_json *settings, const char *name) {
  return (int)attend_json_number(attend_json_get(settings, name), 0);
}

static attend_desc read_desc(const attend_json *s, int32_t *lengths) {
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .batch = number(s, "batch"),
                   .heads = number(s, "heads"),
                   .kv_heads = number(s, "kv_heads"),
                   .q_len = number(s, "q_len"),
                   .kv_len = number(s, "kv_len"),
                   .dim = number(s, "dim"),
                   .dim_v = number(s, "dim_v"),
                   .mask.window = number(s, "window"),
                   .purpose = ATTEND_FOR_BACKWARD};
  const char *causal = attend_json_string(attend_json_get(s, "causal"), NULL);
  const attend_json *given = attend_json_get(s, "lengths");
  d.scale = (float)attend_json_number(attend_json_get(s, "scale"), 0);
  d.soft_cap = (float)attend_json_number(attend_json_get(s, "softcap"), 0);
  if (causal) d.mask.causal = strcmp(causal, "top") ? ATTEND_CAUSAL_BOTTOM : ATTEND_CAUSAL_TOP;
  for (size_t b = 0; b < attend_json_count(given); b++)
    lengths[b] = (int32_t)attend_json_number(attend_json_at(given, b), -1);
  if (attend_json_count(given)) d.mask.lengths = lengths;
  return d;
}

static void read_parts(const attend_tensor_file *file, golden *c) {
  for (int n = 0; n < PARTS; n++) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", c->name, part_names[n]);
    const attend_tensor *t = attend_tensor_file_find(file, name);
    if (!t || t->stored != ATTEND_STORED_F32) {
      printf("the golden file has no F32 tensor %s\n", name);
      exit(1);
    }
    c->part[n] = copy_of(t->data, t->bytes);
    c->count[n] = (size_t)t->count;
  }
}

static void read_case(attend_context *ctx, const attend_tensor_file *file, size_t index,
                      golden *c) {
  const char *text;
  attend_json *settings;
  c->name = attend_tensor_file_note(file, index, &text);
  if (attend_json_parse(ctx, c->name, text, strlen(text), &settings)) {
    printf("%s\n", attend_message(ctx));
    exit(1);
  }
  c->desc = read_desc(settings, c->lengths);
  read_parts(file, c);
  attend_json_free(settings);
}

/* ---- running ------------------------------------------------------------------- */

typedef struct {
  float *part[PARTS]; /* the outputs alone */
} results;

static results results_for(const golden *c) {
  results r = {{0}};
  for (int n = O; n < PARTS; n++) r.part[n] = zeroed_block(c->count[n], 4);
  return r;
}

static void results_free(results *r) {
  for (int n = O; n < PARTS; n++) free(r->part[n]);
}

static void run_engine(attend_plan *plan, attend_context *ctx, const golden *c, results *r) {
  attend_view q = attend_bhtd(c->part[Q]), k = attend_bhtd(c->part[K]);
  attend_view v = attend_bhtd(c->part[V]), o = attend_bhtd(r->part[O]);
  OK(ctx, attend_forward(plan, q, k, v, o, r->part[LSE]));
  OK(ctx, attend_backward(plan, q, k, v, o, r->part[LSE], attend_bhtd(c->part[D_O]),
                          attend_bhtd(r->part[DQ]), attend_bhtd(r->part[DK]),
                          attend_bhtd(r->part[DV]), NULL));
}

static void try_case(attend_context *ctx, const golden *c) {
  attend_plan *plan = make_plan(ctx, &c->desc);
  results engine = results_for(c), plain = results_for(c);
  plain_data p = {c->part[Q],      c->part[K],     c->part[V],     c->part[D_O],   plain.part[O],
                  plain.part[LSE], plain.part[DQ], plain.part[DK], plain.part[DV], {0}};
  run_engine(plan, ctx, c, &engine);
  plain_run(attend_plan_desc(plan), &p);
  for (int n = O; n < PARTS; n++) {
    double *truth = zeroed_block(c->count[n], sizeof *truth);
    for (size_t i = 0; i < c->count[n]; i++) truth[i] = c->part[n][i];
    check_budget(c->name, part_names[n], engine.part[n], plain.part[n], truth, c->count[n],
                 p.size[n - O]);
    free(truth);
  }
  results_free(&engine);
  results_free(&plain);
  attend_plan_free(plan);
}

static void try_file(const char *name, int cases) {
  const char *folder = getenv("ATTEND_GOLDEN");
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/golden", name);
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensor_file *file;
    if (attend_tensor_file_open(ctx, path, &file)) {
      CHECK_FAIL("%s", attend_message(ctx));
      attend_context_free(ctx);
      continue;
    }
    CHECK_EQ(attend_tensor_file_notes(file), cases);
    for (size_t n = 0; n < attend_tensor_file_notes(file); n++) {
      golden c = {0};
      int failures = check_failures;
      read_case(ctx, file, n, &c);
      try_case(ctx, &c);
      if (check_failures > failures) printf("on %s\n", isa);
      for (int i = 0; i < PARTS; i++) free(c.part[i]);
    }
    attend_tensor_file_free(file);
    attend_context_free(ctx);
  }
}

TEST(every_case_on_every_isa) { try_file("attention.safetensors", 15); }

TEST(soft_caps_on_every_isa) { try_file("soft_cap.safetensors", 2); }
