/* Designs: specs that are wrong are refused with a sentence; the shipped ones are
 * right for every input, at argmax and at their least sharpness and not below it;
 * a wrong design is refused with its first counterexample; files keep every bit. */
#include <unistd.h>

#include "attend/file.h"
#include "base/base.h"
#include "design_fixtures.h"
#include "device/device.h"

/* ---- specs -------------------------------------------------------------------------- */

static void refuses(attend_context *ctx, const char *name, const char *from, const char *to,
                    const char *sentence) {
  attend_design *d;
  char *text = changed(ctx, name, from, to);
  attend_status status = attend_design_read(ctx, "spec", text, strlen(text), &d);
  if (!status) CHECK_FAIL("%s with %s is taken", name, to);
  CHECK(!d);
  if (status) {
    CHECK_EQ(status, ATTEND_INVALID);
    CHECK_SAYS(attend_message(ctx), sentence);
  }
  attend_design_free(d);
  free(text);
}

TEST(wrong_specs_are_refused_with_a_sentence) {
  static const struct {
    const char *name, *from, *to, *sentence;
  } cases[] = {
      {"content", "\"layers\"", "\"leyers\"", "\"leyers\" is not known here"},
      {"content", "\"match\"", "\"mach\"", "head \"same\": \"mach\" is not"},
      {"content", "[\"A\", \"B\", \"C\"]", "[\"A\", \"A\"]", "\"A\" is in \"alphabet\" twice"},
      {"content", "[\"A\", \"B\", \"C\"]", "[]", "a list of 1 to"},
      {"content", "{\"match\": [\"token\", \"token\"]}", "{\"match\": [\"token\", \"place\"]}",
       "no variable \"place\" yet"},
      {"content", "{\"match\": [\"token\", \"token\"]}", "{\"offset\": -1}",
       "offsets need positions"},
      {"content", "{\"match\": [\"token\", \"token\"]}", "{\"position\": 0}",
       "\"positions\" are \"none\""},
      {"content", "{\"match\": [\"token\", \"token\"]}", "{\"match\": [\"token\", \"same\"]}",
       "no variable \"same\" yet"},
      {"content", "\"identity\"", "\"identify\"", "is one of identity, first"},
      {"content", "\"identity\"", "\"unique\"", "let \"at\" be \"first\""},
      {"content", "\"identity\"", "\"previous\"", "needs one answer that is no letter"},
      {"content", "\"ABCA\"", "\"ABDA\"", "not of the alphabet"},
      {"content", "\"ABCA\"", "\"ABCAAAA\"", "takes 1 to 4"},
      {"content", "\"copy\": \"same\"", "\"copy\": \"other\"", "readout: there is no variable"},
      {"content", "\"length\": 4", "\"length\": 400", "from 1 to 64"},
      {"content", "\"rate\": 0.03", "\"rate\": -1", "learn: \"rate\" is a"},
      {"position", "\"position\": 0", "\"position\": 9", "from 0 to 3"},
      {"position", "\"task\": \"first\"", "\"task\": \"first\", \"examples\": []",
       "one of \"task\" and"},
      {"induction", "[\"token\", \"before\"]", "[\"token\", \"position\"]", "cannot match"},
      {"induction", "\"times\": 0.0625", "\"table\": [1, 2]",
       "the table has 2 numbers: \"position\" has 7 values"},
      {"induction", "{\"^\": 0.6875}", "{\"%\": 1}", "no value \"%\""},
      {"induction", "\"name\": \"after\"", "\"name\": \"before\"", "the name is taken"},
      {"brackets", "\"not\": 0", "\"perhaps\": 0", "not one of the answers"},
      {"brackets", "\"count\": [\"depth\"", "\"count\": [\"token\"", "\"token\" is no number"},
      {"brackets", "\"copy\": \"depth\"}", "\"copy\": \"too-deep\"}", "no variable"},
      {"brackets", "\"start\": \"^\"", "\"start\": \"(\"", "is a token already"},
  };
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refuses(ctx, cases[i].name, cases[i].from, cases[i].to, cases[i].sentence);
  attend_context_free(ctx);
}

/* ---- every input -------------------------------------------------------------------- */

TEST(shipped_designs_are_right_for_every_input) {
  static const uint64_t inputs[SHIPPED] = {120, 120, 340, 120, 1092, 27, 511};
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    for (int i = 0; i < SHIPPED; i++) {
      attend_design *d = open_design(ctx, shipped[i]);
      attend_verdict v = check_at(d, ctx, ATTEND_DESIGNED, 0);
      if (!v.ok)
        CHECK_FAIL("%s on %s: \"%s\" at %d gives %s, not %s", shipped[i], isa, v.input, v.place,
                   v.predicted ? v.predicted : "undecided", v.expected);
      CHECK_EQ(v.inputs, inputs[i]);
      CHECK(v.margin > 0.04);
      CHECK(v.accuracy == 1);
      attend_design_free(d);
    }
    attend_context_free(ctx);
  }
}

/* One letter against the others: exp(s) > length - 1. */
TEST(the_least_sharpness_is_found) {
  static const double want[SHIPPED] = {1.0986, 1.0986, 2.566, 1.0986, 9.758, 0, 20.297};
  attend_context *ctx = open_context(NULL, 2, NULL);
  for (int i = 0; i < SHIPPED; i++) {
    attend_least l;
    attend_design *d = open_design(ctx, shipped[i]);
    OK(ctx, attend_design_least(d, NULL, &l));
    CHECK(l.found && l.monotone);
    CHECK_EQ(l.any, want[i] == 0);
    if (!l.any) {
      CHECK_NEAR(l.sharpness, want[i], want[i] * 2e-3);
      CHECK(check_at(d, ctx, ATTEND_DESIGNED, l.sharpness).ok);
      CHECK(!check_at(d, ctx, ATTEND_DESIGNED, l.fails).ok);
      CHECK(l.fails > 0.998 * l.sharpness);
    }
    attend_design_free(d);
  }
  attend_context_free(ctx);
}

/* ---- counterexamples ------------------------------------------------------------------ */

static void fails_with(attend_context *ctx, const char *name, const char *from, const char *to,
                       const char *input, int place, const char *expected, const char *predicted) {
  attend_design *d;
  char *text = changed(ctx, name, from, to);
  OK(ctx, attend_design_read(ctx, "spec", text, strlen(text), &d));
  if (d) {
    attend_verdict v = check_at(d, ctx, ATTEND_DESIGNED, 0);
    CHECK(!v.ok && v.wrong > 0 && v.accuracy < 1);
    if (strcmp(v.input, input) || v.place != place || strcmp(v.expected, expected) ||
        strcmp(v.predicted ? v.predicted : "undecided", predicted))
      CHECK_FAIL("%s with %s: \"%s\" at %d gives %s, not %s", name, to, v.input, v.place,
                 v.predicted ? v.predicted : "undecided", v.expected);
  }
  attend_design_free(d);
  free(text);
}

TEST(a_wrong_design_is_refused_with_its_first_counterexample) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  fails_with(ctx, "previous", "\"offset\": -1", "\"offset\": -2", "A", 1, "none",
             "undecided"); /* place 1 has no place -1: all keys share it */
  fails_with(ctx, "position", "\"position\": 0", "\"position\": 1", "AB", 0, "A", "B");
  fails_with(ctx, "content", "{\"match\": [\"token\", \"token\"]}", "", "AB", 0, "A", "undecided");
  fails_with(ctx, "brackets", "\"depth\": 3", "\"depth\": 2", "((()))", 6, "not", "balanced");
  fails_with(ctx, "induction", "\"times\": 0.0625", "\"times\": 0", "AABA", 4, "B", "undecided");
  fails_with(ctx, "unique", "0.4583", "0.4", "AABC", 0, "repeated", "unique");
  attend_context_free(ctx);
}

TEST(examples_can_be_the_task) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d;
  char *text = changed(ctx, "position", "\"task\": \"first\"",
                       "\"examples\": [{\"input\": \"BA\", \"output\": \"BB\"},"
                       "{\"input\": \"ACB\", \"output\": \"AAC\"}]");
  OK(ctx, attend_design_read(ctx, "spec", text, strlen(text), &d));
  attend_verdict v = check_at(d, ctx, ATTEND_DESIGNED, 0);
  CHECK_EQ(v.inputs, 2);
  CHECK_EQ(v.wrong, 1);
  CHECK(!strcmp(v.input, "ACB") && v.place == 2 && !strcmp(v.predicted, "A"));
  attend_design_free(d);
  free(text);
  attend_context_free(ctx);
}

/* Offsets in a range, tables of tokens with positions, lists and numbers. */
TEST(tables_select_by_any_predicate) {
  static const char spec[] =
      "{\"name\": \"rotate\", \"alphabet\": [\"a\", \"b\"], \"length\": 3,"
      "\"layers\": [[{\"name\": \"next\", \"score\": [{\"query\": \"token\","
      "\"key\": \"token\", \"table\": {\"a\": [\"b\"], \"b\": {\"a\": 2}}},"
      "{\"offset\": [-9, -1], \"weight\": -8}], \"value\": {\"copy\": "
      "\"token\"}}]], \"readout\": {\"copy\": \"next\"}, \"examples\": ["
      "{\"input\": \"aba\", \"output\": \"baa\"},"
      "{\"input\": \"bba\", \"output\": \"aaa\"}]}";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d;
  OK(ctx, attend_design_read(ctx, "spec", spec, strlen(spec), &d));
  attend_verdict v = check_at(d, ctx, ATTEND_DESIGNED, 0);
  if (!v.ok) CHECK_FAIL("\"%s\" at %d gives %s", v.input, v.place, v.predicted);
  attend_design_free(d);
  attend_context_free(ctx);
}

TEST(too_many_inputs_are_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d = open_design(ctx, "content");
  attend_verdict v;
  attend_check_options o = {ATTEND_INIT(attend_check_options), .most_inputs = 100};
  attend_design_variant variant = {ATTEND_DESIGNED, 0};
  CHECK_EQ(attend_design_check(d, variant, &o, &v), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "120 inputs up to length 4, and 100 are");
  o.length = 3;
  OK(ctx, attend_design_check(d, variant, &o, &v));
  CHECK_EQ(v.inputs, 39);
  o.length = 5;
  CHECK_EQ(attend_design_check(d, variant, &o, &v), ATTEND_INVALID);
  variant.twin = ATTEND_LEARNED;
  CHECK_EQ(attend_design_check(d, variant, NULL, &v), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "no learned twin");
  attend_design_free(d);
  attend_context_free(ctx);
}

/* ---- one input ------------------------------------------------------------------------- */

TEST(a_run_shows_what_was_computed) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d = open_design(ctx, "previous");
  attend_design_run *run;
  attend_design_variant variant = {ATTEND_DESIGNED, 0};
  OK(ctx, attend_design_run_create(d, variant, "CAB", &run));
  attend_design_result r = *attend_design_run_result(run);
  attend_design_inside h = *attend_design_run_head(run, 0);
  static const int predicted[] = {-1, 3, 2, 0};
  CHECK_EQ(r.length, 4);
  for (int i = 0; i < r.length; i++) {
    CHECK_EQ(r.predicted[i], predicted[i]);
    CHECK_EQ(r.expected[i], predicted[i]);
    for (int j = 0; j < r.length; j++) CHECK(h.attention[i * 4 + j] == (j == (i ? i - 1 : 0)));
  }
  attend_design_run_free(run);
  CHECK_EQ(attend_design_run_create(d, variant, "CAX", &run), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "\"X\", which is not of the alphabet");
  CHECK_EQ(attend_design_run_create(d, variant, "ABCAB", &run), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "takes 1 to 4");
  attend_design_free(d);
  attend_context_free(ctx);
}

/* ---- files ------------------------------------------------------------------------------- */

TEST(a_saved_design_is_the_same_to_the_bit) {
  char path[] = "/tmp/attend-design-XXXXXX.safetensors";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d = open_design(ctx, "induction"), *again;
  attend_twin_options few = {ATTEND_INIT(attend_twin_options), .steps = 3};
  int file = mkstemps(path, 12);
  CHECK(file >= 0);
  close(file);
  OK(ctx, attend_design_learn(d, &few, NULL));
  OK(ctx, attend_design_save(d, path));
  OK(ctx, attend_design_open(ctx, path, &again));
  for (int t = 0; t < ATTEND_TWINS; t++) {
    size_t n, m;
    const float *a = attend_design_weights(d, (attend_twin)t, &n),
                *b = attend_design_weights(again, (attend_twin)t, &m);
    CHECK(a && b && n == m && !memcmp(a, b, n * sizeof *a));
  }
  CHECK(!strcmp(attend_design_about(d)->spec, attend_design_about(again)->spec));
  CHECK(check_at(again, ctx, ATTEND_DESIGNED, 0).ok);
  attend_design_free(again);
  attend_design_free(d);
  attend_tensor none = {.name = "x", .rank = 1, .shape = {0}};
  OK(ctx, attend_tensor_file_write(ctx, path, 1, &none));
  CHECK_EQ(attend_design_open(ctx, path, &d), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "has no spec in its notes");
  remove(path);
  attend_context_free(ctx);
}

/* ---- memory -------------------------------------------------------------------------------- */

static attend_status everything(attend_context *ctx, const char *spec) {
  attend_design *d;
  attend_verdict v;
  attend_design_run *run;
  attend_likeness like;
  attend_twin_options few = {ATTEND_INIT(attend_twin_options), .steps = 2};
  attend_design_variant variant = {ATTEND_DESIGNED, 0};
  ATTEND_TRY(attend_design_read(ctx, "spec", spec, strlen(spec), &d));
  attend_status status = attend_design_check(d, variant, NULL, &v);
  if (!status) status = attend_design_learn(d, &few, NULL);
  if (!status) status = attend_design_compare(d, 0, 0, &like);
  if (!status) status = attend_design_run_create(d, variant, "ABCA", &run);
  if (!status) attend_design_run_free(run);
  attend_design_free(d);
  return status;
}

TEST(every_allocation_may_fail) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  char *spec = changed(ctx, "previous", "\"length\": 4", "\"length\": 4");
  attend_status status = ATTEND_NO_MEMORY;
  long live = memory.live;
  int n = 0;
  for (; status && n < 400; n++) {
    memory.fail_at = memory.taken + n + 1;
    status = everything(ctx, spec);
    CHECK_EQ(memory.live, live);
    if (status) CHECK_SAYS(attend_message(ctx), "memory");
  }
  memory.fail_at = 0;
  CHECK(!status && n > 20);
  free(spec);
  attend_context_free(ctx);
}

/* ---- the pass ------------------------------------------------------------------------- */

static int products; /* that the device below was asked for */

static void count_product(attend_context *ctx, const struct op_linear *op) {
  products++;
  device_cpu.linear(ctx, op);
}

/* model/'s layers compute a design: of each head Q, K and V together and its
 * place in the stream, then the readout. */
TEST(each_head_is_a_layer_of_the_model) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  struct attend_device counting = device_cpu;
  counting.linear = count_product;
  ctx->device = &counting;
  for (int i = 0; i < SHIPPED; i++) {
    attend_design *d = open_design(ctx, shipped[i]);
    attend_design_facts f = *attend_design_about(d);
    attend_design_run *run;
    attend_design_variant variant = {ATTEND_DESIGNED, 0};
    products = 0;
    OK(ctx, attend_design_run_create(d, variant, f.example, &run));
    CHECK_EQ(products, 2 * f.heads + 1);
    attend_design_run_free(run);
    attend_design_free(d);
  }
  attend_context_free(ctx);
}
