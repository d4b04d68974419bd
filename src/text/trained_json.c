/* What was learnt, as the files of Hugging Face's tokenizers and transformers.
 *
 * Tokenizer.json is also what the trainer itself loads, before and after learning; the
 * other files say the same to older readers.
 */
#include "text/trainer.h"

#include <stdio.h>

#include "base/files.h"

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

/* BART's mask takes the space before it along. */
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

/* ---- what goes around a text ----------------------------------------------------- */

static void put_entry(attend_json_writer *w, const char *kind, const char *id,
                      int type) {
  attend_json_open(w, '{');
  open_member(w, kind, '{');
  json_put_text(w, "id", id);
  json_put_integer(w, "type_id", type);
  attend_json_close(w, '}');
  attend_json_close(w, '}');
}

static void put_template_special(const attend_text_trainer *r,
                                 attend_json_writer *w, const char *name) {
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
static void put_template(const attend_text_trainer *r, attend_json_writer *w,
                         const char *first, const char *middle,
                         const char *last) {
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

static void put_pair_of(const attend_text_trainer *r, attend_json_writer *w,
                        const char *name, const char *special) {
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
  for (size_t i = 0; i < r->pieces; i++)
    json_put_integer(w, r->piece[i].name.bytes, (int64_t)i);
  attend_json_close(w, '}');
}

/* "a b": every reader knows it, and no piece has a space. */
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

attend_status write_tokenizer_json(const attend_text_trainer *r,
                                   attend_json_writer *w) {
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

attend_status write_vocab_json(const attend_text_trainer *r,
                               attend_json_writer *w) {
  put_vocab(r, w);
  return attend_json_finish(w);
}

static void put_added_decoder(const attend_text_trainer *r,
                              attend_json_writer *w) {
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

attend_status write_config_json(const attend_text_trainer *r,
                                attend_json_writer *w) {
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

attend_status write_specials_json(const attend_text_trainer *r,
                                  attend_json_writer *w) {
  attend_json_indent(w, true);
  attend_json_open(w, '{');
  put_roles(r, w);
  attend_json_close(w, '}');
  return attend_json_finish(w);
}
