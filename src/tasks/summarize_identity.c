/* What determines a summary besides its text: digests for the journal. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "model/transformer.h"
#include "tasks/summarize.h"

static void add_text(attend_digest *sum, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(attend_digest *sum, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  attend_digest_add(sum, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* How tokens are chosen; parts are searched, never sampled. */
static void digest_options(const attend_summarizer *s, char text[ATTEND_DIGEST_TEXT]) {
  const attend_generate_options *o = &s->how;
  attend_digest sum = {0};
  add_text(&sum, "%d %d %d %d %a %d %a %d %d %d %d ", o->max_new, o->min_new, o->beams,
           o->early_stop, (double)o->length_penalty, o->no_repeat, (double)o->repetition,
           o->ignore_end, s->context, s->min_words, s->max_words);
  add_text(&sum, "%d %d ", o->context, (int)o->window);
  attend_digest_add(&sum, s->prefix, strlen(s->prefix));
  attend_digest_text(&sum, text);
}

static void digest_forms(const attend_model *model, attend_digest *sum) {
  for (int role = 0; role < ATTEND_ROLES; role++) {
    const attend_form *f = attend_model_role_form(model, (attend_role)role);
    add_text(sum, "%d %d %d %d %a %a %a %llu %llu %d %d %d %a ", (int)f->kind, f->degree,
             f->features, f->pairs, (double)f->a, (double)f->c, (double)f->sigma,
             (unsigned long long)f->seed, (unsigned long long)f->redraw, (int)f->draw, (int)f->map,
             (int)f->ties, (double)f->temperature);
  }
}

static attend_status digest_files(const attend_summarizer *s, attend_digest *sum) {
  static const char *const files[] = {"config.json",
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "vocab.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "merges.txt",
                                      "vocab.txt",
                                      "tokenizer.model",
                                      "spiece.model",
                                      "sentencepiece.bpe.model",
                                      "tokenizer.bin",
                                      "tok512.bin"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[LONGEST_PATH];
    struct stat file;
    ATTEND_TRY(path_inside(s->ctx, s->directory, files[i], path));
    bool there = !stat(path, &file) && S_ISREG(file.st_mode);
    add_text(sum, "%s %lld ", files[i], there ? (long long)file.st_size : -1LL);
    if (there) ATTEND_TRY(attend_digest_file(s->ctx, path, sum));
  }
  return ATTEND_OK;
}

/* Weights, settings and tokenizer; the format of the weights and the instruction set,
 * which change bits; the forms of attention. */
static attend_status digest_model(const attend_summarizer *s, char text[ATTEND_DIGEST_TEXT]) {
  const attend_model *m = s->model;
  attend_digest sum = {0};
  add_text(&sum, "%016llx %d %s ", (unsigned long long)attend_checkpoint_digest(m->files),
           (int)m->weights, attend_context_isa(s->ctx));
  digest_forms(m, &sum);
  ATTEND_TRY(digest_files(s, &sum));
  attend_digest_text(&sum, text);
  return ATTEND_OK;
}

attend_status journal_identify(const attend_summarizer *s, journal_identity *identity) {
  digest_options(s, identity->options);
  return digest_model(s, identity->model);
}
