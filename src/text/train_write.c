/* A trained tokenizer, written as the files of Hugging Face tokenizers and
 * transformers.
 *
 * The trainer itself loads tokenizer.json, before and after training; the other files
 * carry the same facts for older readers.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/file.h"
#include "base/files.h"
#include "text/train.h"

/* ---- members --------------------------------------------------------------------- */

static void put_null(attend_json_writer *w, const char *name) {
  attend_json_member(w, name);
  attend_json_put_null(w);
}

static void open_member(attend_json_writer *w, const char *name, char bracket) {
  attend_json_member(w, name);
  attend_json_open(w, bracket);
}

static int32_t id_of(const attend_text_trainer *r, const char *special) {
  return special_named(r, special, strlen(special));
}

/* ---- special tokens -------------------------------------------------------------- */

/* BART's mask has lstrip: it includes the space before it. */
static bool is_lstrip(const attend_text_trainer *r, int32_t id) {
  const char *mask = r->like->role[ATTEND_SPECIAL_MASK];
  return r->o.like == ATTEND_LIKE_BART && id == id_of(r, mask);
}

static void put_flags(attend_json_writer *w, bool lstrip) {
  json_put_truth(w, "single_word", false);
  json_put_truth(w, "lstrip", lstrip);
  json_put_truth(w, "rstrip", false);
  json_put_truth(w, "normalized", false);
  json_put_truth(w, "special", true);
}

static void put_specials(const attend_text_trainer *r, attend_json_writer *w) {
  open_member(w, "added_tokens", '[');
  for (int32_t i = 0; i < r->specials; i++) {
    attend_json_open(w, '{');
    json_put_integer(w, "id", i);
    json_put_text(w, "content", r->piece[i].name.bytes);
    put_flags(w, is_lstrip(r, i));
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
}

static bool has_role(const like *l, const char *name) {
  for (int i = 0; i < ATTEND_SPECIALS; i++)
    if (l->role[i] && !strcmp(l->role[i], name)) return true;
  return false;
}

static void put_roles(const attend_text_trainer *r, attend_json_writer *w) {
  bool more = false;
  for (int i = 0; i < ATTEND_SPECIALS; i++)
    if (r->like->role[i]) json_put_text(w, special_names[i], r->like->role[i]);
  for (int32_t i = 0; i < r->specials; i++) {
    if (has_role(r->like, r->piece[i].name.bytes)) continue;
    if (!more) open_member(w, "additional_special_tokens", '[');
    more = true;
    attend_json_put_string(w, r->piece[i].name.bytes);
  }
  if (more) attend_json_close(w, ']');
}

/* ---- templates: special tokens around a text ------------------------------------- */

static void put_entry(attend_json_writer *w, const char *kind, const char *id, int type) {
  attend_json_open(w, '{');
  open_member(w, kind, '{');
  json_put_text(w, "id", id);
  json_put_integer(w, "type_id", type);
  attend_json_close(w, '}');
  attend_json_close(w, '}');
}

static void put_template_special(const attend_text_trainer *r, attend_json_writer *w,
                                 const char *name) {
  open_member(w, name, '{');
  json_put_text(w, "id", name);
  open_member(w, "ids", '[');
  attend_json_put_integer(w, id_of(r, name));
  attend_json_close(w, ']');
  open_member(w, "tokens", '[');
  attend_json_put_string(w, name);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

/* first A last, and first A middle B last; NULL leaves out. */
static void put_template(const attend_text_trainer *r, attend_json_writer *w, const char *first,
                         const char *middle, const char *last) {
  json_put_text(w, "type", "TemplateProcessing");
  for (int two = 0; two < 2; two++) {
    open_member(w, two ? "pair" : "single", '[');
    put_entry(w, "SpecialToken", first, 0);
    put_entry(w, "Sequence", "A", 0);
    if (two) put_entry(w, "SpecialToken", middle, 0);
    if (two) put_entry(w, "Sequence", "B", 1);
    if (last) put_entry(w, "SpecialToken", last, two);
    attend_json_close(w, ']');
  }
  open_member(w, "special_tokens", '{');
  put_template_special(r, w, first);
  if (last) put_template_special(r, w, last);
  attend_json_close(w, '}');
}

static void put_pair_of(const attend_text_trainer *r, attend_json_writer *w, const char *name,
                        const char *special) {
  open_member(w, name, '[');
  attend_json_put_string(w, special);
  attend_json_put_integer(w, id_of(r, special));
  attend_json_close(w, ']');
}

static void put_byte_level(attend_json_writer *w, bool trim) {
  json_put_text(w, "type", "ByteLevel");
  json_put_truth(w, "add_prefix_space", false);
  json_put_truth(w, "trim_offsets", trim);
  json_put_truth(w, "use_regex", true);
}

static void put_llama(const attend_text_trainer *r, attend_json_writer *w) {
  json_put_text(w, "type", "Sequence");
  open_member(w, "processors", '[');
  attend_json_open(w, '{');
  put_byte_level(w, false);
  attend_json_close(w, '}');
  attend_json_open(w, '{');
  put_template(r, w, "<s>", "<s>", NULL);
  attend_json_close(w, '}');
  attend_json_close(w, ']');
}

static void put_around(const attend_text_trainer *r, attend_json_writer *w) {
  open_member(w, "post_processor", '{');
  switch (r->o.like) {
    case ATTEND_LIKE_BERT:
      put_template(r, w, "[CLS]", "[SEP]", "[SEP]");
      break;
    case ATTEND_LIKE_BART:
      json_put_text(w, "type", "RobertaProcessing");
      put_pair_of(r, w, "sep", "</s>");
      put_pair_of(r, w, "cls", "<s>");
      json_put_truth(w, "trim_offsets", true);
      json_put_truth(w, "add_prefix_space", false);
      break;
    case ATTEND_LIKE_LLAMA:
      put_llama(r, w);
      break;
    default:
      put_byte_level(w, false);
  }
  attend_json_close(w, '}');
}

/* ---- steps, model ---------------------------------------------------------------- */

static void put_steps(const attend_text_trainer *r, attend_json_writer *w) {
  if (!r->like->wordpiece) {
    put_null(w, "normalizer");
    open_member(w, "pre_tokenizer", '{');
    put_byte_level(w, true);
    attend_json_close(w, '}');
    return;
  }
  open_member(w, "normalizer", '{');
  json_put_text(w, "type", "BertNormalizer");
  json_put_truth(w, "clean_text", true);
  json_put_truth(w, "handle_chinese_chars", true);
  json_put_truth(w, "strip_accents", r->o.lowercase && !r->o.keep_accents);
  json_put_truth(w, "lowercase", r->o.lowercase);
  attend_json_close(w, '}');
  open_member(w, "pre_tokenizer", '{');
  json_put_text(w, "type", "BertPreTokenizer");
  attend_json_close(w, '}');
}

static void put_decoder(const attend_text_trainer *r, attend_json_writer *w) {
  open_member(w, "decoder", '{');
  if (r->like->wordpiece) {
    json_put_text(w, "type", "WordPiece");
    json_put_text(w, "prefix", "##");
    json_put_truth(w, "cleanup", true);
  } else {
    put_byte_level(w, true);
  }
  attend_json_close(w, '}');
}

static void put_vocab(const attend_text_trainer *r, attend_json_writer *w) {
  attend_json_open(w, '{');
  for (size_t i = 0; i < r->pieces; i++) json_put_integer(w, r->piece[i].name.bytes, (int64_t)i);
  attend_json_close(w, '}');
}

/* "a b": all readers accept this form, and no piece has a space. */
static void put_merges(const attend_text_trainer *r, attend_json_writer *w) {
  char line[4 * LONGEST_BYTES + 2];
  open_member(w, "merges", '[');
  for (size_t i = 0; i < r->merges; i++) {
    snprintf(line, sizeof line, "%s %s", r->piece[r->merge[i].left].name.bytes,
             r->piece[r->merge[i].right].name.bytes);
    attend_json_put_string(w, line);
  }
  attend_json_close(w, ']');
}

static void put_bpe(attend_json_writer *w) {
  json_put_text(w, "type", "BPE");
  put_null(w, "dropout");
  put_null(w, "unk_token"); /* every byte is known */
  json_put_text(w, "continuing_subword_prefix", "");
  json_put_text(w, "end_of_word_suffix", "");
  json_put_truth(w, "fuse_unk", false);
  json_put_truth(w, "byte_fallback", false);
  json_put_truth(w, "ignore_merges", false);
}

static void put_model(const attend_text_trainer *r, attend_json_writer *w) {
  open_member(w, "model", '{');
  if (r->like->wordpiece) {
    json_put_text(w, "type", "WordPiece");
    json_put_text(w, "unk_token", "[UNK]");
    json_put_text(w, "continuing_subword_prefix", "##");
    json_put_integer(w, "max_input_chars_per_word", LONGEST_CHARS);
  } else {
    put_bpe(w);
  }
  attend_json_member(w, "vocab");
  put_vocab(r, w);
  if (!r->like->wordpiece) put_merges(r, w);
  attend_json_close(w, '}');
}

/* ---- files ----------------------------------------------------------------------- */

attend_status write_tokenizer_json(const attend_text_trainer *r, attend_json_writer *w) {
  attend_json_indent(w, true);
  attend_json_open(w, '{');
  json_put_text(w, "version", "1.0");
  put_null(w, "truncation");
  put_null(w, "padding");
  put_specials(r, w);
  put_steps(r, w);
  put_around(r, w);
  put_decoder(r, w);
  put_model(r, w);
  attend_json_close(w, '}');
  return attend_json_finish(w);
}

attend_status write_vocab_json(const attend_text_trainer *r, attend_json_writer *w) {
  put_vocab(r, w);
  return attend_json_finish(w);
}

static void put_added_decoder(const attend_text_trainer *r, attend_json_writer *w) {
  open_member(w, "added_tokens_decoder", '{');
  for (int32_t i = 0; i < r->specials; i++) {
    char id[16];
    snprintf(id, sizeof id, "%d", (int)i);
    open_member(w, id, '{');
    json_put_text(w, "content", r->piece[i].name.bytes);
    put_flags(w, is_lstrip(r, i));
    attend_json_close(w, '}');
  }
  attend_json_close(w, '}');
}

attend_status write_config_json(const attend_text_trainer *r, attend_json_writer *w) {
  attend_json_indent(w, true);
  attend_json_open(w, '{');
  json_put_text(w, "tokenizer_class", r->like->class);
  put_roles(r, w);
  if (r->like->wordpiece) {
    json_put_truth(w, "do_lower_case", r->o.lowercase);
    json_put_truth(w, "strip_accents", r->o.lowercase && !r->o.keep_accents);
    json_put_truth(w, "tokenize_chinese_chars", true);
  } else {
    json_put_truth(w, "add_prefix_space", false);
    json_put_truth(w, "add_bos_token", r->o.like == ATTEND_LIKE_LLAMA);
  }
  json_put_truth(w, "clean_up_tokenization_spaces", r->like->wordpiece);
  put_added_decoder(r, w);
  attend_json_close(w, '}');
  return attend_json_finish(w);
}

attend_status write_specials_json(const attend_text_trainer *r, attend_json_writer *w) {
  attend_json_indent(w, true);
  attend_json_open(w, '{');
  put_roles(r, w);
  attend_json_close(w, '}');
  return attend_json_finish(w);
}

/* ---- saving -------------------------------------------------------------- */

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
    [FILE_VOCAB_JSON] = "vocab.json",        [FILE_MERGES] = "merges.txt",
    [FILE_VOCAB_TXT] = "vocab.txt",          [FILE_SPECIALS] = "special_tokens_map.json",
    [FILE_CONFIG] = "tokenizer_config.json", [FILE_TOKENIZER] = "tokenizer.json"};

const char *attend_text_trainer_file(int i) { return i >= 0 && i < FILES ? names[i] : NULL; }

/* ---- lines ----------------------------------------------------------------------- */

typedef struct {
  char *text;
  size_t length, capacity;
} lines;

static attend_status put_line(attend_context *ctx, lines *to, const chars *a, const chars *b) {
  size_t more = a->length + (b ? 1 + b->length : 0) + 1;
  ATTEND_TRY(grow(ctx, &to->text, &to->capacity, to->length + more, 1, "a file"));
  char *at = to->text + to->length;
  memcpy(at, a->bytes, a->length);
  if (b) at[a->length] = ' ';
  if (b) memcpy(at + a->length + 1, b->bytes, b->length);
  at[more - 1] = '\n';
  to->length += more;
  return ATTEND_OK;
}

static attend_status put_merge_lines(const attend_text_trainer *r, lines *to) {
  static const chars version = {"#version: 0.2", 13};
  ATTEND_TRY(put_line(r->ctx, to, &version, NULL));
  for (size_t i = 0; i < r->merges; i++)
    ATTEND_TRY(
        put_line(r->ctx, to, &r->piece[r->merge[i].left].name, &r->piece[r->merge[i].right].name));
  return ATTEND_OK;
}

static attend_status put_pieces(const attend_text_trainer *r, lines *to) {
  for (size_t i = 0; i < r->pieces; i++) ATTEND_TRY(put_line(r->ctx, to, &r->piece[i].name, NULL));
  return ATTEND_OK;
}

/* ---- files ----------------------------------------------------------------------- */

static attend_status put_lines(const attend_text_trainer *r, int file, attend_draft *draft) {
  lines l = {0};
  attend_status status = file == FILE_MERGES ? put_merge_lines(r, &l) : put_pieces(r, &l);
  if (!status) status = attend_draft_put(draft, l.text, l.length);
  give(r->ctx, l.text);
  return status;
}

static attend_status put_json(const attend_text_trainer *r, int file, attend_draft *draft) {
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
  if (file == FILE_VOCAB_JSON || file == FILE_MERGES) return !r->like->wordpiece;
  return true;
}

/* ---- the folder ------------------------------------------------------------------ */

static attend_status path_to(const attend_text_trainer *r, const char *folder, int file,
                             char path[LONGEST_PATH]) {
  int n = snprintf(path, LONGEST_PATH, "%s/%s", folder, names[file]);
  if (n > 0 && n < LONGEST_PATH) return ATTEND_OK;
  return fail(r->ctx, ATTEND_INVALID, "the folder's name is too long");
}

/* All files are on disk before the first is renamed into place. */
static attend_status write_drafts(const attend_text_trainer *r, const char *folder,
                                  attend_draft *draft[FILES]) {
  char path[LONGEST_PATH];
  for (int i = 0; i < FILES; i++) {
    if (!belongs(r, i)) continue;
    ATTEND_TRY(path_to(r, folder, i, path));
    ATTEND_TRY(attend_draft_open(r->ctx, path, &draft[i]));
    ATTEND_TRY(i == FILE_MERGES || i == FILE_VOCAB_TXT ? put_lines(r, i, draft[i])
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
      remove(path); /* left over from a tokenizer that was there before */
      continue;
    }
    draft[i] = NULL;
    ATTEND_TRY(attend_draft_keep(one));
  }
  return ATTEND_OK;
}

attend_status attend_text_trainer_save(attend_text_trainer *r, const char *folder) {
  ATTEND_CHECK(r->ctx, r->tokenizer,
               "there is nothing to save: attend_text_trainer_learn comes "
               "first");
  if (mkdir(folder, 0777) && errno != EEXIST)
    return fail(r->ctx, ATTEND_IO, "the folder %.300s cannot be made: %s", folder, strerror(errno));
  attend_draft *draft[FILES] = {0};
  attend_status status = write_drafts(r, folder, draft);
  if (!status) status = replace(r, folder, draft);
  for (int i = 0; i < FILES; i++) attend_draft_drop(draft[i]);
  return status;
}
