/* The vocabulary of problem strings: forms, what their parentheses set, words.
 *
 * problem.c reads by these tables, problem_print.c writes by them, so that neither
 * knows a name that the other does not.
 */
#include "attention/problem.h"

const char *const problem_forms[] = {"softmax", "argmax",  "poly",  "gaussian",
                                     "elu",     "fourier", "favor", "sgemm"};

const problem_word problem_words[] = {
    {"causal", WORD_CAUSAL, ATTEND_CAUSAL},
    {"top", WORD_CAUSAL, ATTEND_CAUSAL_TOP},
    {"bottom", WORD_CAUSAL, ATTEND_CAUSAL_BOTTOM},
    {"window=", WORD_WINDOW, 0},
    {"lengths", WORD_PAD, ATTEND_PAD_LENGTHS},
    {"padleft", WORD_PAD, ATTEND_PAD_LEFT},
    {"padright", WORD_PAD, ATTEND_PAD_RIGHT},
    {"alibi", WORD_BIAS, ATTEND_ALIBI},
    {"buckets", WORD_BIAS, ATTEND_BUCKETS},
    {"buckets1", WORD_BIAS, ATTEND_BUCKETS | PROBLEM_ONE_SIDED},
    {"dense", WORD_BIAS, ATTEND_DENSE},
    {"scale=", WORD_SCALE, 0},
    {"cap=", WORD_CAP, 0},
    {"f32", WORD_DTYPE, ATTEND_F32},
    {"f16", WORD_DTYPE, ATTEND_F16},
    {"bf16", WORD_DTYPE, ATTEND_BF16},
    {"bthd", WORD_LAYOUT, 1},
    {"bwd", WORD_OP, ATTEND_OP_BACKWARD},
    {"decode", WORD_OP, ATTEND_OP_DECODE},
    {NULL, WORD_OP, 0},
};

enum { /* forms that share settings, as bits */
       ARGMAX = 1 << ATTEND_ARGMAX,
       POLY = 1 << ATTEND_POLY,
       GAUSSIAN = 1 << ATTEND_GAUSSIAN,
       FAVOR = 1 << ATTEND_FAVOR,
       APPROXIMATE = FAVOR | 1 << ATTEND_FOURIER,
       RANDOM = APPROXIMATE | GAUSSIAN
};
#define AT(member) offsetof(attend_form, member)

#define WORDS(zero, one) NULL, {zero, one}, false
#define COUNTS(what) what, {NULL, NULL}, false
#define NOT_ZERO NULL, {NULL, NULL}, false
#define ANY NULL, {NULL, NULL}, true

const problem_setting problem_settings[] = {
    {"ties", ARGMAX, SETTING_CHOICE, AT(ties), WORDS("first", "average")},
    {"t", ARGMAX, SETTING_FLOAT, AT(temperature), ANY},
    {"p", POLY, SETTING_COUNT, AT(degree), COUNTS("the degree")},
    {"a", POLY, SETTING_FLOAT, AT(a), NOT_ZERO},
    {"c", POLY, SETTING_FLOAT, AT(c), ANY},
    {"sigma", RANDOM, SETTING_FLOAT, AT(sigma), NOT_ZERO},
    {"m", RANDOM, SETTING_COUNT, AT(features),
     COUNTS("the number of features")},
    {"seed", RANDOM, SETTING_SEED, AT(seed), COUNTS("the number")},
    {"redraw", RANDOM, SETTING_SEED, AT(redraw), COUNTS("the number")},
    {"draw", RANDOM, SETTING_CHOICE, AT(draw), WORDS("orthogonal", "iid")},
    {"kind", FAVOR, SETTING_CHOICE, AT(pairs), WORDS("plain", "pair")},
    {"map", GAUSSIAN, SETTING_CHOICE, AT(map), WORDS("favor", "fourier")},
    {"error", APPROXIMATE, SETTING_FLOAT, AT(error), NOT_ZERO},
    {"spread", APPROXIMATE, SETTING_FLOAT, AT(spread), NOT_ZERO},
    {NULL, 0, SETTING_COUNT, 0, NOT_ZERO},
};
