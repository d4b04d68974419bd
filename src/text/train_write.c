/* A trained tokenizer, written as the files of Hugging Face tokenizers and
 * transformers.
 *
 * The trainer itself loads tokenizer.json, before and after training; the other files
 * carry the same facts for older readers.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/file.h"
#include "base/files.h"
#include "text/train.h"

/* ---- members --------------------------------------------------------------------- */

/* A member whose value is given as text, with printf's fields, and ' for ". */
static void put_literal(json_writer *w, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_literal(json_writer *w, const char *name, const char *format, ...) {
  char text[1024];
  attend_json *value = NULL;
  va_list fields;
  va_start(fields, format);
  vsnprintf(text, sizeof text, format, fields);
  va_end(fields);
  for (char *at = text; *at; at++)
    if (*at == '\'') *at = '"';
  if (!w->status) w->status = attend_json_parse(w->ctx, name, text, strlen(text), &value);
  if (w->status) return;
  json_member(w, name);
  json_put_value(w, value);
  attend_json_free(value);
}

static void open_member(json_writer *w, const char *name, char bracket) {
  json_member(w, name);
  json_open(w, bracket);
}

static int32_t id_of(const attend_text_trainer *r, const char *special) {
  return special_named(r, special, strlen(special));
}

static const char *word_of(bool truth) { return truth ? "true" : "false"; }

/* ---- special tokens -------------------------------------------------------------- */

/* BART's mask has lstrip: it includes the space before it. */
static bool is_lstrip(const attend_text_trainer *r, int32_t id) {
  const char *mask = r->like->role[ATTEND_SPECIAL_MASK];
  return r->o.like == ATTEND_LIKE_BART && id == id_of(r, mask);
}

static void put_flags(json_writer *w, bool lstrip) {
  json_member_boolean(w, "single_word", false);
  json_member_boolean(w, "lstrip", lstrip);
  json_member_boolean(w, "rstrip", false);
  json_member_boolean(w, "normalized", false);
  json_member_boolean(w, "special", true);
}

static void put_specials(const attend_text_trainer *r, json_writer *w) {
  open_member(w, "added_tokens", '[');
  for (int32_t i = 0; i < r->specials; i++) {
    json_open(w, '{');
    json_member_integer(w, "id", i);
    json_member_string(w, "content", r->piece[i].name.bytes);
    put_flags(w, is_lstrip(r, i));
    json_close(w, '}');
  }
  json_close(w, ']');
}

static bool has_role(const like *l, const char *name) {
  for (int i = 0; i < ATTEND_SPECIALS; i++)
    if (l->role[i] && !strcmp(l->role[i], name)) return true;
  return false;
}

static void put_roles(const attend_text_trainer *r, json_writer *w) {
  bool more = false;
  for (int i = 0; i < ATTEND_SPECIALS; i++)
    if (r->like->role[i]) json_member_string(w, special_names[i], r->like->role[i]);
  for (int32_t i = 0; i < r->specials; i++) {
    if (has_role(r->like, r->piece[i].name.bytes)) continue;
    if (!more) open_member(w, "additional_special_tokens", '[');
    more = true;
    json_put_string(w, r->piece[i].name.bytes);
  }
  if (more) json_close(w, ']');
}

/* ---- steps ----------------------------------------------------------------------- */

#define BYTE_LEVEL(trim) \
  "{'type': 'ByteLevel', 'add_prefix_space': false, 'trim_offsets': " trim ", 'use_regex': true}"
#define SPECIAL(name, type) "{'SpecialToken': {'id': '" name "', 'type_id': " type "}}"
#define SEQUENCE(name, type) "{'Sequence': {'id': '" name "', 'type_id': " type "}}"
#define TOKEN(name) "'" name "': {'id': '" name "', 'ids': [%d], 'tokens': ['" name "']}"

static void put_normalizer(const attend_text_trainer *r, json_writer *w) {
  if (!r->like->wordpiece) {
    json_member_string(w, "normalizer", NULL);
    put_literal(w, "pre_tokenizer", BYTE_LEVEL("true"));
    return;
  }
  put_literal(w, "normalizer",
              "{'type': 'BertNormalizer', 'clean_text': true, 'handle_chinese_chars': true, "
              "'strip_accents': %s, 'lowercase': %s}",
              word_of(r->o.lowercase && !r->o.keep_accents), word_of(r->o.lowercase));
  put_literal(w, "pre_tokenizer", "{'type': 'BertPreTokenizer'}");
}

/* The special tokens around a text, and around a pair. */
static void put_template(const attend_text_trainer *r, json_writer *w) {
  static const char name[] = "post_processor";
  switch (r->o.like) {
    case ATTEND_LIKE_BERT:
      put_literal(w, name,
                  "{'type': 'TemplateProcessing', "
                  "'single': [" SPECIAL("[CLS]", "0") ", " SEQUENCE("A", "0") ", "
                  SPECIAL("[SEP]", "0") "], "
                  "'pair': [" SPECIAL("[CLS]", "0") ", " SEQUENCE("A", "0") ", "
                  SPECIAL("[SEP]", "0") ", " SEQUENCE("B", "1") ", " SPECIAL("[SEP]", "1") "], "
                  "'special_tokens': {" TOKEN("[CLS]") ", " TOKEN("[SEP]") "}}",
                  (int)id_of(r, "[CLS]"), (int)id_of(r, "[SEP]"));
      break;
    case ATTEND_LIKE_BART:
      put_literal(w, name,
                  "{'type': 'RobertaProcessing', 'sep': ['</s>', %d], 'cls': ['<s>', %d], "
                  "'trim_offsets': true, 'add_prefix_space': false}",
                  (int)id_of(r, "</s>"), (int)id_of(r, "<s>"));
      break;
    case ATTEND_LIKE_LLAMA:
      put_literal(w, name,
                  "{'type': 'Sequence', 'processors': [" BYTE_LEVEL("false") ", "
                  "{'type': 'TemplateProcessing', "
                  "'single': [" SPECIAL("<s>", "0") ", " SEQUENCE("A", "0") "], "
                  "'pair': [" SPECIAL("<s>", "0") ", " SEQUENCE("A", "0") ", "
                  SPECIAL("<s>", "0") ", " SEQUENCE("B", "1") "], "
                  "'special_tokens': {" TOKEN("<s>") "}}]}",
                  (int)id_of(r, "<s>"));
      break;
    default:
      put_literal(w, name, BYTE_LEVEL("false"));
  }
}

/* ---- the model ------------------------------------------------------------------- */

static void put_vocab(const attend_text_trainer *r, json_writer *w) {
  json_open(w, '{');
  for (size_t i = 0; i < r->pieces; i++) json_member_integer(w, r->piece[i].name.bytes, (int64_t)i);
  json_close(w, '}');
}

/* "a b": all readers accept this form, and no piece has a space. */
static void put_merges(const attend_text_trainer *r, json_writer *w) {
  char line[4 * LONGEST_BYTES + 2];
  open_member(w, "merges", '[');
  for (size_t i = 0; i < r->merges; i++) {
    snprintf(line, sizeof line, "%s %s", r->piece[r->merge[i].left].name.bytes,
             r->piece[r->merge[i].right].name.bytes);
    json_put_string(w, line);
  }
  json_close(w, ']');
}

static void put_model(const attend_text_trainer *r, json_writer *w) {
  open_member(w, "model", '{');
  if (r->like->wordpiece) {
    json_member_string(w, "type", "WordPiece");
    json_member_string(w, "unk_token", "[UNK]");
    json_member_string(w, "continuing_subword_prefix", "##");
    json_member_integer(w, "max_input_chars_per_word", LONGEST_CHARS);
  } else {
    json_member_string(w, "type", "BPE");
    json_member_string(w, "dropout", NULL);
    json_member_string(w, "unk_token", NULL); /* every byte is known */
    json_member_string(w, "continuing_subword_prefix", "");
    json_member_string(w, "end_of_word_suffix", "");
    json_member_boolean(w, "fuse_unk", false);
    json_member_boolean(w, "byte_fallback", false);
    json_member_boolean(w, "ignore_merges", false);
  }
  json_member(w, "vocab");
  put_vocab(r, w);
  if (!r->like->wordpiece) put_merges(r, w);
  json_close(w, '}');
}

/* ---- files ----------------------------------------------------------------------- */

attend_status write_tokenizer_json(const attend_text_trainer *r, json_writer *w) {
  json_indent(w, true);
  json_open(w, '{');
  json_member_string(w, "version", "1.0");
  json_member_string(w, "truncation", NULL);
  json_member_string(w, "padding", NULL);
  put_specials(r, w);
  put_normalizer(r, w);
  put_template(r, w);
  if (r->like->wordpiece)
    put_literal(w, "decoder", "{'type': 'WordPiece', 'prefix': '##', 'cleanup': true}");
  else
    put_literal(w, "decoder", BYTE_LEVEL("true"));
  put_model(r, w);
  json_close(w, '}');
  return json_finish(w);
}

static attend_status write_vocab_json(const attend_text_trainer *r, json_writer *w) {
  put_vocab(r, w);
  return json_finish(w);
}

static void put_added_decoder(const attend_text_trainer *r, json_writer *w) {
  open_member(w, "added_tokens_decoder", '{');
  for (int32_t i = 0; i < r->specials; i++) {
    char id[16];
    snprintf(id, sizeof id, "%d", (int)i);
    open_member(w, id, '{');
    json_member_string(w, "content", r->piece[i].name.bytes);
    put_flags(w, is_lstrip(r, i));
    json_close(w, '}');
  }
  json_close(w, '}');
}

static attend_status write_config_json(const attend_text_trainer *r, json_writer *w) {
  json_indent(w, true);
  json_open(w, '{');
  json_member_string(w, "tokenizer_class", r->like->class);
  put_roles(r, w);
  if (r->like->wordpiece) {
    json_member_boolean(w, "do_lower_case", r->o.lowercase);
    json_member_boolean(w, "strip_accents", r->o.lowercase && !r->o.keep_accents);
    json_member_boolean(w, "tokenize_chinese_chars", true);
  } else {
    json_member_boolean(w, "add_prefix_space", false);
    json_member_boolean(w, "add_bos_token", r->o.like == ATTEND_LIKE_LLAMA);
  }
  json_member_boolean(w, "clean_up_tokenization_spaces", r->like->wordpiece);
  put_added_decoder(r, w);
  json_close(w, '}');
  return json_finish(w);
}

static attend_status write_specials_json(const attend_text_trainer *r, json_writer *w) {
  json_indent(w, true);
  json_open(w, '{');
  put_roles(r, w);
  json_close(w, '}');
  return json_finish(w);
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
  ctx_free(r->ctx, l.text);
  return status;
}

static attend_status put_json(const attend_text_trainer *r, int file, attend_draft *draft) {
  json_writer w = json_writer_text(r->ctx);
  attend_status status = file == FILE_VOCAB_JSON ? write_vocab_json(r, &w)
                         : file == FILE_SPECIALS ? write_specials_json(r, &w)
                         : file == FILE_CONFIG   ? write_config_json(r, &w)
                                                 : write_tokenizer_json(r, &w);
  if (!status) status = attend_draft_put(draft, w.text, w.length);
  json_writer_free(&w);
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
