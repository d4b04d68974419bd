/* What the tasks share. */
#ifndef TASKS_TASKS_H
#define TASKS_TASKS_H

#include "attend/embed.h"
#include "attend/intervene.h"
#include "attend/text.h"
#include "base/base.h"
#include "base/files.h"

/* Copies an encoding's failure to the task's own context. encoding NULL: it could not be
 * created. */
static inline attend_status encoding_failed(attend_context *ctx, attend_status status,
                                            const attend_encoding *encoding) {
  return fail(
      ctx, status, "%s",
      encoding ? attend_encoding_message(encoding) : "no memory for an encoding: free some");
}

/* A copy with a zero byte behind it. */
static inline attend_status text_copy(attend_context *ctx, const char *text, size_t length,
                                      char **copy) {
  ATTEND_TRY(ctx_alloc(ctx, size_add(length, 1), "a text", copy));
  if (length) memcpy(*copy, text, length);
  (*copy)[length] = 0;
  return ATTEND_OK;
}

static inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* A JSON file of a folder; *root is NULL if there is none. */
static inline attend_status json_beside(attend_context *ctx, const char *folder, const char *name,
                                        attend_json **root) {
  char path[LONGEST_PATH];
  *root = NULL;
  if (!file_beside(folder, name, path, sizeof path)) return ATTEND_OK;
  return json_read(ctx, path, root);
}

/* attend_embed_texts with a progress of its own (embed.c). */
attend_status embed_texts(attend_embedder *e, int count, const char *const *texts,
                          const size_t *lengths, float *vectors, int32_t *tokens,
                          attend_progress progress, void *user);

/* Bytes of the mask that the text starts with, spelled as `own`, [MASK], <mask> or ___; 0: none
 * (fill.c). */
size_t mask_at(const char *text, size_t length, const char *own);

/* ---- intervene.c: a model reads one text --------------------------------------------------- */

/* The caller's tokens, complete and of this model. */
attend_status tokens_check(attend_context *ctx, const attend_model *m, const attend_tokens *given,
                           attend_tokens *x);
/* Runs a text once with n hooks. session may be NULL; else it is left open, whatever the status.
 * logits [rows][V] may be NULL. */
attend_status tokens_run(attend_context *ctx, attend_model *m, const attend_tokens *x, int n,
                         const attend_hook *list, attend_session **session, float *logits);

/* What a model's folder says about sentence embeddings (embed_settings.c). *pooling is
 * left alone if a value was chosen, and then steps that are not computed here are no
 * failure. Both are left alone where the folder says nothing. */
attend_status embed_settings_read(attend_context *ctx, const char *folder, attend_pooling *pooling,
                                  int *max_length);

#endif
