/* attend/embed.h - vectors of texts.
 *
 *   attend_embedder *e;
 *   attend_embed_options o = {ATTEND_INIT(attend_embed_options)};
 *   const char *texts[] = {"a happy person", "a very happy person"};
 *   o.folder = folder;                               pooling as the model's folder says
 *   attend_embedder_create(model, tokenizer, &o, &e);
 *   float *v = malloc(2 * attend_embedder_width(e) * sizeof *v);
 *   attend_embed_texts(e, 2, texts, NULL, v, NULL);
 *   double cosine = attend_cosine(v, v + width, width);
 *   attend_embedder_free(e);
 *
 * A text's vector pools what the model gives for its tokens: the encoder of models that
 * have one, else the decoder. It has length 1 unless options say otherwise. Texts of
 * similar length share a batch; a vector does not depend on the other texts or the number
 * of threads, down to the bits. Load the model without its head (attend_model_options):
 * it is not used.
 *
 * Embedders of one model may be used on several threads at once, each on one.
 */
#ifndef ATTEND_EMBED_H
#define ATTEND_EMBED_H

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATTEND_POOLING_DEFAULT, /* as the folder says; else mean, of decoders last */
  ATTEND_POOLING_MEAN,    /* of all tokens */
  ATTEND_POOLING_CLS,     /* the first token */
  ATTEND_POOLING_LAST,    /* the last token */
  ATTEND_POOLING_MAX      /* the maximum of each element */
} attend_pooling;

/* "mean", "cls", "last" or "max"; ATTEND_POOLING_DEFAULT if it is none of them. */
ATTEND_API attend_pooling attend_pooling_find(const char *name);
ATTEND_API const char *attend_pooling_name(attend_pooling pooling);

typedef struct { /* zero means default */
  size_t size;
  attend_pooling pooling;
  /* tokens of a text, special ones included; longer texts are truncated. 0: as the folder says,
   * else the model's positions */
  int max_length;
  bool no_normalize; /* leave vectors as long as they are */
  /* of the model, for sentence-transformers' modules.json, 1_Pooling/config.json and
   * sentence_bert_config.json; NULL: not read. Steps that are not computed here are refused by
   * name, unless a pooling is given */
  const char *folder;
  int threads; /* 0: the context's */
  /* Called after each batch with the share of the call's text that is embedded,
   * from 0 to 1. Other than 0 stops attend_embed_texts with ATTEND_STOPPED. */
  attend_progress progress;
  void *user;
} attend_embed_options;

typedef struct attend_embedder attend_embedder;

/* Model and tokenizer must outlive the embedder. options may be NULL. On failure
 * *embedder is NULL and the model's context has the message. */
ATTEND_API attend_status attend_embedder_create(attend_model *model,
                                                const attend_tokenizer *tokenizer,
                                                const attend_embed_options *options,
                                                attend_embedder **embedder);
ATTEND_API void attend_embedder_free(attend_embedder *embedder);
/* The message of the last failed call. */
ATTEND_API const char *attend_embedder_message(const attend_embedder *embedder);

/* Numbers of a vector: F, the width of the model. */
ATTEND_API int attend_embedder_width(const attend_embedder *embedder);
/* The options in use, defaults resolved; a max_length of 0 is no limit. */
ATTEND_API attend_pooling attend_embedder_pooling(const attend_embedder *embedder);
ATTEND_API int attend_embedder_max_length(const attend_embedder *embedder);
/* Texts that were truncated so far, in all calls. */
ATTEND_API size_t attend_embedder_truncated(const attend_embedder *embedder);

/* lengths may be NULL: texts end in a zero byte. tokens may be NULL, or takes the
 * number of tokens that were read of each text: 0 for a text without tokens, whose
 * vector is zeros. After ATTEND_STOPPED or a failure it is -1 where a vector was not
 * computed; the other vectors are valid. Vectors that are not finite are a failure. */
ATTEND_API attend_status attend_embed_texts(attend_embedder *embedder, int count,
                                            const char *const *texts /* [count] */,
                                            const size_t *lengths /* [count] */,
                                            float *vectors /* [count][F] */,
                                            int32_t *tokens /* [count] */);

/* Of any two vectors; 0 where one is zero. The vectors of one word in two texts, by layer:
 * attend_viewer_get_word_pair (attend/viewer.h). */
ATTEND_API double attend_cosine(const float *a, const float *b /* [width] */, int width);

#ifdef __cplusplus
}
#endif
#endif
