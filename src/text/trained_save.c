/* Saving what was learnt.
 *
 * The last of the files that learn.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/file.h"
#include "text/trainer.h"

enum {
  FILE_VOCAB_JSON,
  FILE_MERGES,
  FILE_VOCAB_TXT,
  FILE_SPECIALS,
  FILE_CONFIG,
  FILE_TOKENIZER,
  FILES
};

static const char *const names[FILES] = {
    [FILE_VOCAB_JSON] = "vocab.json",
    [FILE_MERGES] = "merges.txt",
    [FILE_VOCAB_TXT] = "vocab.txt",
    [FILE_SPECIALS] = "special_tokens_map.json",
    [FILE_CONFIG] = "tokenizer_config.json",
    [FILE_TOKENIZER] = "tokenizer.json"};

const char *attend_text_trainer_file(int i) {
  return i >= 0 && i < FILES ? names[i] : NULL;
}

/* ---- lines ----------------------------------------------------------------------- */

typedef struct {
  char *text;
  size_t length, capacity;
} lines;

static attend_status put_line(attend_context *ctx, lines *to, const chars *a,
                              const chars *b) {
  size_t more = a->length + (b ? 1 + b->length : 0) + 1;
  ATTEND_TRY(
      grow(ctx, &to->text, &to->capacity, to->length + more, 1, "a file"));
  char *at = to->text + to->length;
  memcpy(at, a->bytes, a->length);
  if (b) at[a->length] = ' ';
  if (b) memcpy(at + a->length + 1, b->bytes, b->length);
  at[more - 1] = '\n';
  to->length += more;
  return ATTEND_OK;
}

static attend_status put_merges(const attend_text_trainer *r, lines *to) {
  static const chars version = {"#version: 0.2", 13};
  ATTEND_TRY(put_line(r->ctx, to, &version, NULL));
  for (size_t i = 0; i < r->merges; i++)
    ATTEND_TRY(put_line(r->ctx, to, &r->piece[r->merge[i].left].name,
                        &r->piece[r->merge[i].right].name));
  return ATTEND_OK;
}

static attend_status put_pieces(const attend_text_trainer *r, lines *to) {
  for (size_t i = 0; i < r->pieces; i++)
    ATTEND_TRY(put_line(r->ctx, to, &r->piece[i].name, NULL));
  return ATTEND_OK;
}

/* ---- files ----------------------------------------------------------------------- */

static attend_status put_lines(const attend_text_trainer *r, int file,
                               attend_draft *draft) {
  lines l = {0};
  attend_status status =
      file == FILE_MERGES ? put_merges(r, &l) : put_pieces(r, &l);
  if (!status) status = attend_draft_put(draft, l.text, l.length);
  give(r->ctx, l.text);
  return status;
}

static attend_status put_json(const attend_text_trainer *r, int file,
                              attend_draft *draft) {
  attend_json_writer w = attend_json_writer_text(r->ctx);
  attend_status status = file == FILE_VOCAB_JSON ? write_vocab_json(r, &w)
                         : file == FILE_SPECIALS ? write_specials_json(r, &w)
                         : file == FILE_CONFIG   ? write_config_json(r, &w)
                                                 : write_tokenizer_json(r, &w);
  if (!status) status = attend_draft_put(draft, w.text, w.length);
  attend_json_writer_free(&w);
  return status;
}

static bool belongs(const attend_text_trainer *r, int file) {
  if (file == FILE_VOCAB_TXT) return r->like->wordpiece;
  if (file == FILE_VOCAB_JSON || file == FILE_MERGES)
    return !r->like->wordpiece;
  return true;
}

/* ---- the folder ------------------------------------------------------------------ */

static attend_status path_to(const attend_text_trainer *r, const char *folder,
                             int file, char path[LONGEST_PATH]) {
  int n = snprintf(path, LONGEST_PATH, "%s/%s", folder, names[file]);
  if (n > 0 && n < LONGEST_PATH) return ATTEND_OK;
  return fail(r->ctx, ATTEND_INVALID, "the folder's name is too long");
}

/* All of them are on the disk before the first takes its name. */
static attend_status write_drafts(const attend_text_trainer *r,
                                  const char *folder,
                                  attend_draft *draft[FILES]) {
  char path[LONGEST_PATH];
  for (int i = 0; i < FILES; i++) {
    if (!belongs(r, i)) continue;
    ATTEND_TRY(path_to(r, folder, i, path));
    ATTEND_TRY(attend_draft_open(r->ctx, path, &draft[i]));
    ATTEND_TRY(i == FILE_MERGES || i == FILE_VOCAB_TXT
                   ? put_lines(r, i, draft[i])
                   : put_json(r, i, draft[i]));
    ATTEND_TRY(draft_settle(draft[i]));
  }
  return ATTEND_OK;
}

static attend_status replace(const attend_text_trainer *r, const char *folder,
                             attend_draft *draft[FILES]) {
  char path[LONGEST_PATH];
  for (int i = 0; i < FILES; i++) {
    attend_draft *one = draft[i];
    ATTEND_TRY(path_to(r, folder, i, path));
    if (!one) {
      remove(path); /* of a tokenizer that was there before, if any */
      continue;
    }
    draft[i] = NULL;
    ATTEND_TRY(attend_draft_keep(one));
  }
  return ATTEND_OK;
}

attend_status attend_text_trainer_save(attend_text_trainer *r,
                                       const char *folder) {
  ATTEND_CHECK(r->ctx, r->tokenizer,
               "there is nothing to save: attend_text_trainer_learn comes "
               "first");
  if (mkdir(folder, 0777) && errno != EEXIST)
    return fail(r->ctx, ATTEND_IO, "the folder %.300s cannot be made: %s",
                folder, strerror(errno));
  attend_draft *draft[FILES] = {0};
  attend_status status = write_drafts(r, folder, draft);
  if (!status) status = replace(r, folder, draft);
  for (int i = 0; i < FILES; i++) attend_draft_drop(draft[i]);
  return status;
}
