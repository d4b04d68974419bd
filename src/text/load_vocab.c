/* Reading plain vocabulary files: GPT-2's vocab.json and merges.txt, BERT's
 * vocab.txt.
 *
 * What such files leave open (lower case, template) is in the settings beside them,
 * or is the default of the original models.
 */
#include "text/loader.h"

/* ---- GPT-2's two files ---------------------------------------------------------------------- */

static attend_status read_merge_lines(attend_tokenizer *t, const char *what, const char *text,
                                      size_t length) {
  size_t lines = 0;
  uint32_t rank = 0;
  for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
  ATTEND_TRY(merges_reserve(t->ctx, &t->model, lines + 1));
  for (size_t at = 0, end; at < length; at = end + 1) {
    const char *stop = memchr(text + at, '\n', length - at);
    end = stop ? (size_t)(stop - text) : length;
    size_t n = end - at;
    if (n && text[end - 1] == '\r') n--;
    if (!n || (!at && !strncmp(text, "#version", 8))) continue;
    ATTEND_TRY(put_merge_text(t, what, rank++, text + at, n));
  }
  return ATTEND_OK;
}

attend_status load_vocab_merges(attend_tokenizer *t, const char *vocab_path,
                                const char *merges_path) {
  attend_json *root;
  char *text;
  size_t length;
  t->model.kind = MODEL_BPE;
  t->model.byte_level = true;
  t->kind = "byte-level BPE";
  ATTEND_TRY(step_add(t, &t->splitters, (step){.kind = STEP_BYTE_LEVEL, .cut = true}));
  ATTEND_TRY(decode_add(t, (decode_step){.kind = DECODE_BYTE_LEVEL}));
  ATTEND_TRY(json_read(t->ctx, vocab_path, &root));
  attend_status status = read_vocab_object(t, vocab_path, root);
  attend_json_free(root);
  ATTEND_TRY(status);
  ATTEND_TRY(file_read(t->ctx, merges_path, &text, &length));
  status = read_merge_lines(t, merges_path, text, length);
  give(t->ctx, text);
  return status;
}

/* ---- BERT's list ------------------------------------------------------------------------------ */

static attend_status read_lines(attend_tokenizer *t, const char *text, size_t length) {
  int64_t id = 0;
  for (size_t at = 0, end; at < length; at = end + 1) {
    const char *stop = memchr(text + at, '\n', length - at);
    end = stop ? (size_t)(stop - text) : length;
    size_t n = end - at;
    if (n && text[end - 1] == '\r') n--;
    ATTEND_TRY(vocab_put(t, id++, text + at, n, 0, PIECE_NORMAL));
  }
  return vocab_index(t);
}

static attend_status add_bert_steps(attend_tokenizer *t, bool lower, bool chinese, bool strip) {
  steps *n = &t->normalizers;
  ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CLEAN}));
  if (chinese) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_CHINESE}));
  if (strip) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_NFD}));
  if (strip) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_DROP_NONSPACING}));
  if (lower) ATTEND_TRY(step_add(t, n, (step){.kind = STEP_LOWERCASE}));
  ATTEND_TRY(step_add(t, &t->splitters, (step){.kind = STEP_BERT_SPLIT}));
  return decode_add(t, (decode_step){.kind = DECODE_WORDPIECE, .text = {"##", 2}, .cleanup = true});
}

/* A vocabulary that has "The" is cased. */
static attend_status read_bert_settings(attend_tokenizer *t, const char *folder) {
  char path[4096];
  attend_json *root = NULL;
  bool lower = vocab_name(&t->vocab, "The", 3) < 0;
  if (folder && file_beside(folder, "tokenizer_config.json", path, sizeof path))
    ATTEND_TRY(json_read(t->ctx, path, &root));
  lower = attend_json_boolean(attend_json_get(root, "do_lower_case"), lower);
  bool chinese = attend_json_boolean(attend_json_get(root, "tokenize_chinese_chars"), true);
  bool strip = attend_json_boolean(attend_json_get(root, "strip_accents"), lower);
  attend_json_free(root);
  return add_bert_steps(t, lower, chinese, strip);
}

attend_status load_vocab_txt(attend_tokenizer *t, const char *path, const char *folder) {
  char *text;
  size_t length;
  model *m = &t->model;
  m->kind = MODEL_WORDPIECE;
  m->prefix = (chars){"##", 2};
  m->longest = 100;
  ATTEND_TRY(file_read(t->ctx, path, &text, &length));
  attend_status status = read_lines(t, text, length);
  give(t->ctx, text);
  ATTEND_TRY(status);
  m->unk = vocab_name(&t->vocab, "[UNK]", 5);
  if (m->unk < 0)
    return fail(t->ctx, ATTEND_IO, "%s has no [UNK]: it is not a WordPiece vocabulary", path);
  ATTEND_TRY(finish_wordpiece(t));
  return read_bert_settings(t, folder);
}
