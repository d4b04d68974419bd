/* Patterns that a text is split at: a string, or a regular expression. For the steps
 * REPLACE and SPLIT, and byte-level pre-tokenizing.
 */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "text/tokenizer.h"

/* The end of the match of GPT-2's pattern at `at`; it matches everywhere. */
size_t scan_gpt2(const char *s, size_t n, size_t at);
/* The same for Llama 3's pattern, with at most `digits` digits in a row (Qwen: 1). */
size_t scan_llama3(const char *s, size_t n, size_t at, int digits);

/* From {"String": ..} or {"Regex": ..}. Freed with the tokenizer's steps. */
attend_status pattern_string(attend_tokenizer *t, const char *text, size_t length, pattern **p);
attend_status pattern_regex(attend_tokenizer *t, const char *text, size_t length, pattern **p);
/* Whether it is this string; whether it always splits between an ASCII letter or
 * digit and a space. */
bool pattern_is(const pattern *p, const char *text);
bool pattern_cuts_words(const pattern *p);
void pattern_free(const attend_context *ctx, pattern *p);

/* The first match in [at, end) of the text, perhaps empty, if *found. The text
 * outside is not seen. */
attend_status pattern_next(scratch *s, const pattern *p, const char *text, size_t end, size_t at,
                           span *match, bool *found);

/* Steps of matching (PCRE2's match limit) that the slow matches of a text may use in
 * total: for each byte, plus a constant. */
enum { WORK_EACH = 64, WORK_FREE = 1 << 18 };

/* Buffers of matching; they stay NULL if no pattern needs them. */
attend_status pattern_scratch(scratch *s);
void pattern_scratch_free(scratch *s);

#endif
