/* Pairwise cases: the problems of `attend verify --all`.
 *
 * The full product of the choices below has billions of problems. Faults mostly need
 * one or two choices together, so every pair occurs in some problem (pairwise
 * testing): in each round, of some random problems the one with the most new pairs is
 * taken. The random numbers are Philox's: the list is always the same.
 */
#include <stdio.h>

#include "verify/verify.h"

enum { FORM, HEADS, N, X, D, M, MASK, BIAS, CAP, DTYPE, LAYOUT, OP, FACTORS };
enum { LEVELS = 16, CANDIDATES = 40, MOST = 400 };

/* The first level of each is the plain one. */
static const char *const levels[FACTORS][LEVELS] = {
    [FORM] = {"softmax", "argmax", "argmax(ties=average)", "argmax(t=0.5)", "poly(p=2,a=0.5,c=1)",
              "gaussian", "elu", "favor(m=33)", "favor(m=30,kind=pair,draw=iid)",
              "fourier(m=66,sigma=6)", "gaussian(m=40)", "gaussian(m=48,map=fourier,sigma=6)"},
    [HEADS] = {"b1h1", "b2h2", "b1h4g2", "b3h3g1", "b1h6g1"},
    [N] = {"n17", "n1", "n2", "n3", "n63", "n64", "n65", "n255", "n256", "n257", "n300"},
    [X] = {"", "x1", "x2", "x3", "x17", "x63", "x64", "x65", "x255", "x256", "x257", "x300"},
    [D] = {"d8", "d1", "d3", "d59", "d64", "d80"},
    [M] = {"", "v1", "v8", "v31", "v72"},
    [MASK] = {"", ":causal", ":top", ":bottom", ":window=5", ":causal:window=7", ":top:window=9",
              ":bottom:window=70", ":lengths", ":padleft", ":padright", ":causal:lengths",
              ":bottom:padleft", ":top:padright"},
    [BIAS] = {"", ":alibi", ":buckets", ":buckets1", ":dense"},
    [CAP] = {"", ":cap=2"},
    [DTYPE] = {"", ":f16", ":bf16"},
    [LAYOUT] = {"", ":bthd"},
    [OP] = {"", ":bwd", ":decode"},
};

static const char *const corners[] = {
    "softmax:b2h2n0x5d8",
    "softmax:b2h2n5x0d8",
    "softmax:b2h2n0x5d8:bwd",
    "softmax:b2h2n5x0d8:bwd",
    "softmax:b1h1n0x0d4",
    "argmax:b2h2n5x0d8:bwd",
    "argmax:b1h2n0x7d8",
    "softmax:b1h1n1d1:causal:bwd",
    "softmax:b1h2n65d64:scale=100:bwd",
    "softmax:b1h2n40d16:scale=-3:causal",
    "softmax:b1h2n65d64:scale=10:cap=50:bwd",
    "softmax:b1h2n40d16:scale=-3:cap=1:causal:bwd",
    "softmax:b1h4g1n16384d16:cap=1:decode",
    "softmax:b3h2n12x5d8:bottom:bwd",
    "softmax:b1h2n40x12d8:top:bwd",
    "softmax:b1h2g1n2x16384d16:bottom",
    "softmax:b1h4g1n16384d16:decode",
    "argmax:b1h2n16384d8:decode",
    "poly(p=9,a=0.1,c=1):b2h2n5x0d8:bwd",
    "poly(p=9,a=0.1,c=1):b1h4g1n4096d16:decode",
    "poly(p=1,c=9):b2h2n40x70d1:bottom:bwd",
    "poly(p=3,a=0.1,c=-3):b1h4g2n65x300d16:bf16:bwd",
    "gaussian:b2h2n5x0d8:bwd",
    "gaussian:b1h4g1n16384d16:decode",
    "gaussian(sigma=0.01):b1h2n300d1:causal:bwd",
    "gaussian(sigma=0.3):b1h4g2n65x300d8:bottom:window=70:alibi:bwd",
    "gaussian(sigma=0.3):b1h4g1n4096d16:decode",
    "gaussian(sigma=300):b1h2n65d64:f16:bwd",
    "elu:b2h2n0x5d8:bwd",
    "favor(m=16):b2h2n5x0d8:bwd",
    "favor(m=1):b1h1n3d1:causal:bwd",
    "favor(m=40):b1h2n65d64:scale=2:bwd",
    "fourier(m=8,sigma=6):b3h2n12x5d8:bottom:bwd",
};

/* For tensor cores: widths that they take in 16 bits, with each mask and bias. */
static const char *const wide_corners[] = {
    "softmax:b2h4g2n300d128:causal:bf16:bwd",
    "softmax:b1h4g1n257d96:f16:bwd",
    "softmax:b1h2n200d256v64:top:bf16:bwd",
    "softmax:b2h2n130x300d32:bottom:window=70:bf16:bwd",
    "softmax:b2h2n70x200d64:bottom:dense:bf16:bwd",
    "softmax:b1h4g2n200d64v128:causal:alibi:bf16:bwd",
    "softmax:b1h2n150d128:buckets:f16:bwd",
    "softmax:b2h2n150d64:causal:buckets1:bf16:bwd",
    "softmax:b1h4g2n200d64:causal:cap=2:bf16:bwd",
    "softmax:b1h2n200d128:window=33:cap=3:f16:bwd",
    "softmax:b3h2n200d64:lengths:bf16:bwd",
    "softmax:b2h4g2n200d128:causal:padleft:bf16:bwd",
    "softmax:b2h2n200d64:padright:bthd:f16:bwd",
    "softmax:b2h2n200x3d64:bf16:bwd",
    "softmax:b2h2n3x200d64:bottom:bf16:bwd",
    "softmax:b2h2n0x64d64:bf16:bwd",
    "argmax(t=0.5):b1h4g2n200d64:causal:bf16:bwd",
    "argmax:b1h4g2n200d64:causal:bf16",
    "gaussian:b1h2n200d64:causal:bf16:bwd",
    "poly(p=2,c=1):b1h2n200d64:causal:bf16:bwd",
    "elu:b2h4g2n300d64:causal:bf16:bwd",
    "elu:b2h2n200d128v64:f16:bwd",
    "favor(m=64):b1h4g2n300d64:causal:bf16:bwd",
    "fourier(m=64,sigma=8):b1h2n200d64:f16:bwd",
    "softmax:b1h32g8n3000d128:bf16:decode",
    "softmax:b2h8g1n2000d64:padleft:f16:decode",
    "softmax:b1h4g2n1500d64:window=300:alibi:bf16:decode",
    "elu:b1h4g2n1500d64:bf16:decode",
    "favor(m=64):b1h4n700d64:f16:decode",
};

enum {
  CORNERS = sizeof corners / sizeof *corners,
  WIDE = sizeof wide_corners / sizeof *wide_corners
};

typedef struct {
  unsigned char at[FACTORS];
} choice;

typedef struct {
  unsigned char met[FACTORS][LEVELS][FACTORS][LEVELS];
  attend_random random;
  uint64_t drawn;
  bool light;
} pairs;

struct attend_cases {
  memory memory;
  pairs pairs;
  size_t count;
  char *problem[MOST + CORNERS + WIDE];
};

static int level_count(int factor) {
  int n = 0;
  while (n < LEVELS && levels[factor][n]) n++;
  return n;
}

static bool says(const choice *c, int factor, const char *part) {
  return strstr(levels[factor][c->at[factor]], part) != NULL;
}

static bool has_features(const choice *c) {
  bool exact = says(c, FORM, "max") || says(c, FORM, "poly") ||
               !strcmp(levels[FORM][c->at[FORM]], "gaussian");
  return !exact;
}

static bool has_soft_scores(const choice *c) {
  return says(c, FORM, "softmax") || says(c, FORM, "t=");
}

/* A bias multiplies poly's weights and those of features, and a window takes
 * back what sums of features hold: no state does either. */
static bool keeps_state(const choice *c) {
  if (says(c, FORM, "poly")) return c->at[BIAS] == 0;
  return !has_features(c) || (c->at[BIAS] == 0 && !says(c, MASK, "window"));
}

/* A level that excludes another becomes the plain one. */
static void make_possible(choice *c, bool light) {
  /* Either sends features to the definition: together, so that most go to
   * the linear engine. */
  if (has_features(c) && !says(c, MASK, "window")) c->at[BIAS] = 0;
  if (!has_soft_scores(c)) c->at[CAP] = 0;
  if (!keeps_state(c)) c->at[OP] %= 2;
  if (c->at[OP] == 2) {
    if (says(c, MASK, "top") || says(c, MASK, "lengths")) c->at[MASK] = 0;
    if (says(c, BIAS, "dense")) c->at[BIAS] = 0;
    c->at[X] = 0;
  }
  if (says(c, MASK, "causal")) c->at[X] = 0;
  if (light && c->at[N] > 6) c->at[N] = (unsigned char)(c->at[N] - 6);
  if (light && c->at[X] > 7) c->at[X] = (unsigned char)(c->at[X] - 7);
}

static choice draw(pairs *v) {
  choice c;
  for (int f = 0; f < FACTORS; f++) {
    uint32_t words[4];
    attend_random_block(v->random, v->drawn++, words);
    c.at[f] = (unsigned char)(words[0] % (unsigned)level_count(f));
  }
  make_possible(&c, v->light);
  return c;
}

/* How many pairs are new in it; with `take` they are no longer new. */
static int new_pairs(pairs *v, const choice *c, bool take) {
  int count = 0;
  for (int f = 0; f < FACTORS; f++)
    for (int g = f + 1; g < FACTORS; g++) {
      unsigned char *met = &v->met[f][c->at[f]][g][c->at[g]];
      count += !*met;
      if (take) *met = 1;
    }
  return count;
}

static attend_status add_text(attend_cases *c, const char *text) {
  size_t bytes = strlen(text) + 1;
  TAKE(&c->memory, &c->problem[c->count], bytes);
  memcpy(c->problem[c->count++], text, bytes);
  return ATTEND_OK;
}

static attend_status add_case(attend_cases *cases, const choice *c) {
  char text[256];
  const unsigned char *a = c->at;
  snprintf(text, sizeof text, "%s:%s%s%s%s%s%s%s%s%s%s%s", levels[FORM][a[FORM]],
           levels[HEADS][a[HEADS]], levels[N][a[N]], levels[X][a[X]], levels[D][a[D]],
           levels[M][a[M]], levels[MASK][a[MASK]], levels[BIAS][a[BIAS]], levels[CAP][a[CAP]],
           levels[DTYPE][a[DTYPE]], levels[LAYOUT][a[LAYOUT]], levels[OP][a[OP]]);
  return add_text(cases, text);
}

static int best_candidate(pairs *v, choice *best) {
  int max = -1;
  for (int n = 0; n < CANDIDATES; n++) {
    choice c = draw(v);
    int count = new_pairs(v, &c, false);
    if (count > max) {
      max = count;
      *best = c;
    }
  }
  return max;
}

static attend_status add_all(attend_cases *c) {
  pairs *v = &c->pairs;
  /* Some pairs cannot occur: the end is a series of rounds without a new one. */
  for (int idle = 0; idle < 20 && c->count < MOST;) {
    choice best;
    if (best_candidate(v, &best) == 0) {
      idle++;
      continue;
    }
    new_pairs(v, &best, true);
    ATTEND_TRY(add_case(c, &best));
    idle = 0;
  }
  for (size_t n = 0; n < CORNERS; n++) ATTEND_TRY(add_text(c, corners[n]));
  for (size_t n = 0; n < WIDE && !v->light; n++) ATTEND_TRY(add_text(c, wide_corners[n]));
  return ATTEND_OK;
}

attend_status attend_cases_create(attend_context *ctx, int light, attend_cases **cases) {
  attend_cases *c;
  *cases = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *c, "pairwise cases", &c));
  c->memory.ctx = ctx;
  c->pairs.random.seed = 7;
  c->pairs.light = light != 0;
  attend_status status = add_all(c);
  if (status)
    attend_cases_free(c);
  else
    *cases = c;
  return status;
}

void attend_cases_free(attend_cases *c) {
  if (!c) return;
  attend_context *ctx = c->memory.ctx;
  memory_free(&c->memory);
  ctx_free(ctx, c);
}

size_t attend_cases_count(const attend_cases *c) { return c->count; }

const char *attend_cases_get(const attend_cases *c, size_t i) {
  return i < c->count ? c->problem[i] : NULL;
}
