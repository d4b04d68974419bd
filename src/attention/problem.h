/* The vocabulary of problem strings, shared by the reader and the printer.
 *
 * Its tables are problem_words.c; problem.c reads, problem_print.c writes,
 * problem_tensors.c makes what a problem needs.
 */
#ifndef ATTENTION_PROBLEM_H
#define ATTENTION_PROBLEM_H

#include "attend/problem.h"
#include "attention/desc.h"

/* A problem holds one word of each group. */
typedef enum {
  WORD_CAUSAL,
  WORD_WINDOW,
  WORD_PAD,
  WORD_BIAS,
  WORD_SCALE,
  WORD_CAP,
  WORD_DTYPE,
  WORD_LAYOUT,
  WORD_OP
} problem_word_group;

/* Two kinds of bucket bias, told apart by one word. */
enum { PROBLEM_ONE_SIDED = 1 << 8 };

typedef struct {
  const char *name; /* ends in '=' where a number follows */
  problem_word_group group;
  int value; /* of the enum that the group sets */
} problem_word;

/* What a form's parentheses may set. */
typedef enum {
  SETTING_COUNT, /* int, 1 or more                  */
  SETTING_FLOAT,
  SETTING_SEED,  /* uint64_t                         */
  SETTING_CHOICE /* an enum or int, 0 or 1, by words */
} problem_setting_type;

typedef struct {
  const char *name;
  unsigned forms; /* bit n: the form of kind n has it */
  problem_setting_type type;
  size_t at; /* in attend_form */
  const char *meaning;
  const char *words[2]; /* of a choice */
  bool may_be_zero;     /* for a float 0 is a value, not the default */
} problem_setting;

/* In the order in which they are printed; the last name is NULL. */
extern const problem_word problem_words[];
extern const problem_setting problem_settings[];
extern const char *const problem_forms[]; /* by attend_form_kind, then sgemm */
enum { PROBLEM_SGEMM = ATTEND_CUSTOM };   /* no string can hold a function   */

#endif
