/* What a text is cut at: a string, or a regular expression.
 *
 * Steps REPLACE and SPLIT, and byte-level pre-tokenizing.
 */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "text/tokenizer.h"

/* The end of what GPT-2's pattern matches at `at`; it matches everywhere.
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t scan_gpt2(const char *s, size_t n, size_t at);
/* And of Llama 3's, with runs of at most `digits` digits (Qwen: 1).
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
size_t scan_llama3(const char *s, size_t n, size_t at, int digits);

/* From {"String": ..} or {"Regex": ..}. Freed with the tokenizer's steps. */
attend_status pattern_string(attend_tokenizer *t, const char *text,
                             size_t length, pattern **p);
attend_status pattern_regex(attend_tokenizer *t, const char *text,
                            size_t length, pattern **p);
/* Whether it is this string; whether it cuts between a letter or digit of
 * ASCII and a space, wherever they stand. */
bool pattern_is(const pattern *p, const char *text);
bool pattern_cuts_words(const pattern *p);
void pattern_free(const attend_context *ctx, pattern *p);

/* The first match in [at, end) of the text, perhaps empty; *found says. The
 * text around is not seen. */
attend_status pattern_next(scratch *s, const pattern *p, const char *text,
                           size_t end, size_t at, span *match, bool *found);

/* Steps of matching (PCRE2's match limit) that the slow matches of a text may
 * take together, for each of its bytes and besides. */
enum { WORK_EACH = 64, WORK_FREE = 1 << 18 };

/* What matching writes to; NULL stays NULL where no pattern needs it. */
attend_status pattern_scratch(scratch *s);
void pattern_scratch_free(scratch *s);

#endif
