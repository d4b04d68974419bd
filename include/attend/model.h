/* attend/model.h - real transformers: checkpoints, and running them.
 *
 *   attend_checkpoint *files;
 *   attend_model *model;
 *   attend_session *session;
 *   attend_checkpoint_open(ctx, "stories15M", &files);
 *   attend_model_create(files, NULL, &model);
 *   attend_session_create(model, NULL, &session);
 *   attend_session_extend(session, 1, n, ids, NULL);       a prompt of n tokens
 *   attend_session_next(session, 1, logits);               what comes next
 *
 * One transformer serves encoders (BERT, DistilBERT, RoBERTa), decoders (GPT-2,
 * Llama) and both together (BART, T5): the configuration says which parts there
 * are. A family is a list of names; the list is the parameter table.
 *
 * Masks by role: padding on the encoder's self-attention and on
 * cross-attention, causal on the decoder's self-attention.
 *
 * The same bits always: what a token gives depends on the tokens it sees alone;
 * not on the batch, on how a prompt was cut, or on the number of threads.
 */
#ifndef ATTEND_MODEL_H
#define ATTEND_MODEL_H

#include <stdbool.h>

#include "attend/attention.h"
#include "attend/file.h"
#include "attend/layers.h"
#include "attend/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- configuration --------------------------------------------------------- */

typedef enum {
  ATTEND_ENCODER = 1, /* reads a text from both sides                         */
  ATTEND_DECODER = 2, /* continues one                                        */
  ATTEND_BOTH = 3     /* reads one and writes another                         */
} attend_parts;

typedef struct { /* the layers of one side; layers 0: there is none          */
  int layers;
  int width; /* F */
  int heads, kv_heads;
  int dim, dim_v; /* of a head: q and k, v */
  int mlp;        /* width inside */
} attend_stack;

typedef enum {
  ATTEND_POSITIONS_LEARNED = 0,
  ATTEND_POSITIONS_SINUSOIDAL,
  ATTEND_POSITIONS_ROTARY,
  ATTEND_POSITIONS_BUCKETS /* T5: a bias of the scores */
} attend_positions;

/* Where norms stand around what attention and mlp, f, add to the stream. */
typedef enum {
  ATTEND_NORM_BEFORE = 0, /* x + f(norm(x))                                   */
  ATTEND_NORM_SUM,        /* norm(x + f(x)): BERT                             */
  ATTEND_NORM_AFTER,      /* x + norm(f(x)): OLMo 2                           */
  ATTEND_NORM_BOTH,       /* x + norm(f(norm(x))): Gemma 2                    */
  ATTEND_NORM_NONE
} attend_norms;

/* Norms of queries and keys, before rotary positions. */
typedef enum {
  ATTEND_QK_NORM_NONE = 0,
  ATTEND_QK_NORM_HEAD, /* of each head: Qwen 3                                */
  ATTEND_QK_NORM_ALL   /* of all heads together: OLMo 2                       */
} attend_qk_norm;

/* Whether attention and mlp read the same x. */
typedef enum {
  ATTEND_PARALLEL_NONE = 0,
  ATTEND_PARALLEL_SHARED,  /* through one norm: GPT-J, Phi                    */
  ATTEND_PARALLEL_SEPARATE /* through two: GPT-NeoX                           */
} attend_parallel;

enum { ATTEND_MOST_EOS = 8, ATTEND_MOST_LAYERS = 1024 };

typedef struct {
  char family[16]; /* config.json's model_type: "gpt2", "bert", ..            */
  attend_parts parts;
  attend_stack encoder, decoder;
  int vocab;
  int types; /* of segments; 0: none */
  attend_positions position;
  int positions;       /* that the model was made for; 0: no limit           */
  int position_offset; /* of the first row of the table                      */
  attend_rope rope;
  attend_rope
      rope_sliding; /* of layers with a window; theta 0: the same      */
  int rotary;       /* of a head that rotates; 0: all of it            */
  int buckets, max_distance;
  int rms; /* RMS norm instead of layer norm                        */
  float norm_eps;
  attend_norms norms;
  attend_qk_norm qk_norm;
  attend_parallel parallel;
  int embed_norm; /* one after the embeddings                              */
  int final_norm; /* one after the last layer                              */
  float embed_factor; /* embeddings times this                               */
  float head_factor;  /* what the head reads times this                      */
  int embed_width;    /* of the tables, projected to the model's; 0: the same */
  int layer_groups;   /* layers share weights: layer i has those of group
                         i groups / layers; 0: each has its own               */
  float score_factor; /* of q.k; 0: 1/sqrt(dim)                              */
  float score_cap;    /* c: scores s become c tanh(s / c); 0: none            */
  float logit_cap;    /* the same of logits                                  */
  int window;         /* a token sees itself and window - 1 before; 0: all    */
  int some_slide;     /* in some layers only: bit i of slides, in bytes       */
  unsigned char slides[ATTEND_MOST_LAYERS / 8];
  int score_by_layer; /* and divided by the number of the layer              */
  attend_form form;   /* of its attention: config.json's attend_attention,
                         which training writes; else softmax                  */
  char attention[64]; /* the same as it is written there; "": softmax         */
  unsigned roles;     /* of attend_in: attention of these has that form, others
                         softmax: config.json's attend_attention_roles; 0: all */
  attend_activation activation;
  int gated; /* activation(gate x) (up x) instead of activation(up x) */
  int attention_biases, mlp_biases; /* llama's switches: q, k, v, o; mlp     */
  int transform; /* masked-LM heads: dense, activation, norm first        */
  attend_activation head_activation; /* of the transform                     */
  int tied; /* the head is the embedding table                       */
  int copy; /* bart, t5: width of a head that copies what was read:
               config.json's attend_copy_width; 0: none              */
  int bos, eos[ATTEND_MOST_EOS], n_eos, pad; /* -1: none                     */
  int decoder_start, forced_bos, forced_eos; /* -1: none                     */
} attend_config;

/* "encoder,cross" or "encoder cross"; and back, into text, with commas. */
enum { ATTEND_ROLES_TEXT = 32 };
ATTEND_API attend_status attend_roles_parse(attend_context *ctx,
                                            const char *text, unsigned *roles);
ATTEND_API const char *attend_roles_text(unsigned roles,
                                         char text[ATTEND_ROLES_TEXT]);

/* path: a folder with config.json, or the file. */
ATTEND_API attend_status attend_config_read(attend_context *ctx,
                                            const char *path,
                                            attend_config *config);
/* The form of every role: `form` in `roles` (0: everywhere), and elsewhere, or
 * everywhere where form is NULL, what the configuration says. */
ATTEND_API attend_status attend_config_forms(attend_context *ctx,
                                             const attend_config *config,
                                             const attend_form *form,
                                             unsigned roles,
                                             attend_form forms[ATTEND_ROLES]);

/* The config.json of a new model, as that family's readers want it. */
typedef struct {      /* zero means default */
  const char *family; /* gpt2, llama, bert, bart or t5                     */
  int layers;         /* 4; of an encoder-decoder, the encoder's           */
  int decoder_layers; /* 0: as many                                        */
  int width, heads;   /* 256, 4                                            */
  int kv_heads;       /* llama; 0: heads                                   */
  int mlp;            /* 0: 4 width; llama: 8/3 width in steps of 32       */
  int decoder_width;  /* bart, t5: these three 0: as the encoder's; mlp of  */
  int decoder_heads;  /* another width: 4 times that. The two sides share  */
  int decoder_mlp;    /* one table of tokens, of the decoder's width       */
  int positions;      /* 512                                               */
  int vocab;          /* needed                                            */
  const char *attention; /* a form; NULL: softmax                             */
  unsigned roles;        /* of attend_in: where it is; 0: everywhere          */
  int untied;            /* a head of its own                                 */
  int copy; /* bart, t5: width of a head that copies words; 0: none           */
  const int *bos, *eos, *pad; /* token ids; NULL: none                      */
} attend_architecture;

ATTEND_API attend_status
attend_config_write(attend_context *ctx, const char *path,
                    const attend_architecture *architecture);

/* ---- checkpoints -------------------------------------------------------------- */

/* One entry of the parameter table. */
typedef struct {
  const char *name; /* in the files, with their prefix                        */
  int rank;
  int64_t shape[2];
  int encoder; /* 1 of the encoder, 0 of the decoder or neither              */
  int layer;   /* -1: of no layer                                            */
  int transposed; /* stored [inputs, outputs] (GPT-2's Conv1D)                  */
  int matrix; /* multiplies: it is not looked up in, nor a norm or a bias   */
  int bias;
  const char *what; /* "token table", "self-attention query", ..              */
  const attend_tensor *tensor; /* NULL: optional, or tied, and not there      */
} attend_parameter;

typedef struct attend_checkpoint attend_checkpoint;

/* A folder in Hugging Face layout: config.json and model.safetensors (or the
 * only .safetensors there), or model.safetensors.index.json and its shards. The
 * files are mapped and only their headers are read. Every tensor that the
 * configuration asks for must be there, in the shape it says, under the family's
 * name with any prefix; what is there beyond that is passed over
 * (attend_checkpoint_unused). */
ATTEND_API attend_status attend_checkpoint_open(attend_context *ctx,
                                                const char *path,
                                                attend_checkpoint **checkpoint);
/* Weights drawn from a seed as PyTorch resets its layers, for a folder's
 * config.json; weights that lie beside it are not read. */
ATTEND_API attend_status
attend_checkpoint_init_pytorch(attend_context *ctx, const char *path,
                               uint64_t seed, attend_checkpoint **checkpoint);
/* The same as training begins: normal with a deviation of 0.02, what adds to the
 * stream divided by sqrt(2 layers) where norms come first, biases 0; T5 by the
 * widths. */
ATTEND_API attend_status attend_checkpoint_init(attend_context *ctx,
                                                const char *path, uint64_t seed,
                                                attend_checkpoint **checkpoint);
ATTEND_API void attend_checkpoint_close(attend_checkpoint *checkpoint);
ATTEND_API const attend_config *attend_checkpoint_config(
    const attend_checkpoint *checkpoint);
/* Entry i of the table; 0 past the last. */
ATTEND_API int attend_checkpoint_get(const attend_checkpoint *checkpoint,
                                     size_t i, attend_parameter *parameter);
/* Tensor i of those that the table has no use for; NULL past the last. */
ATTEND_API const attend_tensor *attend_checkpoint_unused(
    const attend_checkpoint *checkpoint, size_t i);
/* Bytes of the files. */
ATTEND_API size_t attend_checkpoint_bytes(const attend_checkpoint *checkpoint);
/* Digest of config.json and the weights. */
ATTEND_API uint64_t
attend_checkpoint_digest(const attend_checkpoint *checkpoint);
/* Whether there is a head that turns hidden states into logits. */
ATTEND_API int attend_checkpoint_has_head(const attend_checkpoint *checkpoint);

/* ---- models --------------------------------------------------------------------- */

typedef struct { /* zero means default */
  attend_weights weights;
  const attend_form *form; /* of attention; NULL: the configuration's         */
  unsigned roles;          /* of attend_in: where that form is; 0: everywhere */
  int no_head;             /* hidden states only: saves its memory            */
  /* Called between tensors; other than 0 stops the load.                     */
  int (*progress)(size_t done, size_t total, void *user);
  void *user;
} attend_model_options;

typedef struct attend_model attend_model;

/* Packs the weights. The checkpoint must stay open: embeddings are looked up in
 * the mapped file. options may be NULL. */
ATTEND_API attend_status
attend_model_create(attend_checkpoint *checkpoint,
                    const attend_model_options *options, attend_model **model);
/* The same weights with another form of attention; they are shared, so the
 * first model must stay. */
ATTEND_API attend_status attend_model_with_form(const attend_model *model,
                                                const attend_form *form,
                                                attend_model **other);
/* The same in some roles alone; in the others what the configuration says. */
ATTEND_API attend_status attend_model_with_roles(const attend_model *model,
                                                 const attend_form *form,
                                                 unsigned roles,
                                                 attend_model **other);
ATTEND_API void attend_model_free(attend_model *model);
ATTEND_API attend_context *attend_model_context(const attend_model *model);
ATTEND_API const attend_config *attend_model_config(const attend_model *model);
/* The form that was asked for, or learnt with; what a role has. */
ATTEND_API const attend_form *attend_model_form(const attend_model *model);
ATTEND_API const attend_form *attend_model_role_form(const attend_model *model,
                                                     attend_role role);
/* Of packed weights: what one token reads in decoding. */
ATTEND_API size_t attend_model_bytes(const attend_model *model);
/* Multiply-adds of the weights for one token of each side, twice. */
ATTEND_API double attend_model_flops(const attend_model *model);

/* ---- looking --------------------------------------------------------------------- */

/* Bytes that a trace (attend/trace.h) of the points `what` would take for texts of
 * that many tokens on each side. */
ATTEND_API size_t attend_model_trace_bytes(const attend_model *model,
                                           unsigned what, int64_t encoder,
                                           int64_t decoder);
/* The problem that a layer's attention of a role solves, lengths left 0; a table
 * of biases is the model's, in host memory. 0 if the model has no such attention. */
ATTEND_API int attend_model_attention(const attend_model *model,
                                      attend_role role, int layer,
                                      attend_desc *desc);

/* ---- running ---------------------------------------------------------------------- */

typedef struct { /* zero means default */
  int batch;     /* sequences side by side; 0: 1                             */
  int rows;      /* of one sequence that are computed at once in the decoder;
                    longer calls are cut; 0: 512 over the batch              */
  int threads;   /* that its calls run on; 0: the context's                  */
} attend_session_options;

typedef struct attend_session attend_session;

/* A model does not change: sessions of one model are made, used and freed on any
 * number of threads at once, each by one thread at a time. A session's calls give
 * the same bits whatever runs beside them. */
ATTEND_API attend_status attend_session_create(
    attend_model *model, const attend_session_options *options,
    attend_session **session);
ATTEND_API void attend_session_free(attend_session *session);
/* The sentence of the last of its calls that failed. attend_message gives it too,
 * but there another thread's may follow. */
ATTEND_API const char *attend_session_message(const attend_session *session);
/* In place of those before; 0: none. They are copied, their layers too. */
ATTEND_API attend_status attend_session_set_hooks(attend_session *session,
                                                  int n,
                                                  const attend_hook *hooks);
/* Asked before every layer: other than 0 ends the call with ATTEND_STOPPED. NULL:
 * nobody is. */
ATTEND_API void attend_session_set_stop(attend_session *session,
                                        int (*stop)(void *user), void *user);

/* The encoder reads the first `count` sequences: ids [count][n], of which
 * lengths [count] are real (NULL: all). types [count][n] or NULL: 0. With a
 * decoder, the keys of cross-attention are made here, once, and the decoder
 * starts anew; sequences from count on see nothing until attend_session_reorder. */
ATTEND_API attend_status attend_session_encode(attend_session *session,
                                               int count, int n,
                                               const int32_t *ids,
                                               const int32_t *lengths,
                                               const int32_t *types);
/* The decoder takes n more tokens of the first `count` sequences, lengths
 * [count] of them real (NULL: all; 0: none). On failure the sequences are as
 * long as before, or empty where a linear form has summed what came since. */
ATTEND_API attend_status attend_session_extend(attend_session *session,
                                               int count, int n,
                                               const int32_t *ids,
                                               const int32_t *lengths);

/* What the last call gave: [count][n][F], rows *ld floats apart; NULL if a call
 * of the decoder was longer than `rows`, so that not all of it is there. */
ATTEND_API const float *attend_session_hidden(const attend_session *session,
                                              int *ld);
/* Logits of places among that [count][n] (NULL: 0, 1, 2, ..). Where words are
 * copied too (config.copy), these, and those below, are log probabilities of
 * both ways together. */
ATTEND_API attend_status
attend_session_logits(attend_session *session, int n_places,
                      const int32_t *places, float *logits /* [n_places][V] */);
/* Logits after the last token of each of the first `count` sequences of the
 * decoder, however the call was cut; NaN for one that holds no token, or was
 * truncated since its last. */
ATTEND_API attend_status attend_session_next(attend_session *session, int count,
                                             float *logits /* [count][V] */);

/* Logits of the residual stream after the last layer, as a hook read it. What may be
 * copied is what the session's first sequence has read, or nothing. */
ATTEND_API attend_status attend_session_head(attend_session *session, int rows,
                                             const float *hidden, int ld,
                                             float *logits /* [rows][V] */);

/* Tokens that a sequence of the decoder holds. */
ATTEND_API int64_t attend_session_length(const attend_session *session,
                                         int sequence);
/* Sequence b continues what parents[b] was: beams, and several samples of one
 * prompt. Cache pages are shared. Without memory for it all are empty. */
ATTEND_API attend_status attend_session_reorder(
    attend_session *session, const int32_t *parents /* [B] */);
ATTEND_API attend_status attend_session_truncate(attend_session *session,
                                                 int sequence, int64_t length);
ATTEND_API void attend_session_reset(
    attend_session *session); /* all sequences empty */
/* Bytes of caches or states; of everything else that the session holds. */
ATTEND_API size_t attend_session_cache_bytes(const attend_session *session);
ATTEND_API size_t attend_session_work_bytes(const attend_session *session);

/* ---- texts of any length ------------------------------------------------------------ */

/* An encoder-decoder whose attention in the encoder and from the decoder to it is
 * linear (elu, favor, fourier, poly, ..) reads a text in portions:
 *
 *   attend_reading_create(model, NULL, &reading);
 *   attend_reading_begin(reading, count, ids);
 *   while (!attend_reading_done(reading)) attend_reading_next(reading);
 *   attend_session_recall(session, reading);              or attend_generate with it
 *
 * Every token sees every other, as in attend_session_encode, and a text that fits
 * there gives the same bits here. Memory does not depend on the length; the text
 * is walked once for every layer. Where the model has positions for a window of
 * so many tokens, they are counted anew in every window of the text. Of a text
 * that is longer than that, what may be copied is kept by words, with one key for
 * all places of a word. The size of portions and the number of threads change
 * nothing. */
typedef struct attend_reading attend_reading;

typedef struct { /* zero means default */
  int rows;      /* of a portion; 0: 512                                     */
  int threads;   /* that its calls run on; 0: the context's                  */
} attend_reading_options;

ATTEND_API attend_status attend_reading_create(
    attend_model *model, const attend_reading_options *options,
    attend_reading **reading);
ATTEND_API void attend_reading_free(attend_reading *reading);
/* As attend_session_message. */
ATTEND_API const char *attend_reading_message(const attend_reading *reading);
/* The ids must stay until the reading is done, or another is begun. They are
 * looked at in order, once for every layer and twice more: a mapped file will
 * do. */
ATTEND_API attend_status attend_reading_begin(attend_reading *reading,
                                              int64_t count,
                                              const int32_t *ids);
/* One portion. After a failure the text must be begun again. */
ATTEND_API attend_status attend_reading_next(attend_reading *reading);
ATTEND_API bool attend_reading_done(const attend_reading *reading);
/* Of the work that is done, from 0 to 1. */
ATTEND_API double attend_reading_share(const attend_reading *reading);
/* Bytes that it holds, the model apart. */
ATTEND_API size_t attend_reading_bytes(const attend_reading *reading);

/* Saves how far it is in a folder, and goes on from there after
 * attend_reading_begin with the same text and weights: to the same bits. A
 * process that is killed while saving leaves what was saved before. */
ATTEND_API attend_status attend_reading_save(attend_reading *reading,
                                             const char *folder);
ATTEND_API attend_status attend_reading_resume(attend_reading *reading,
                                               const char *folder);

/* The first sequence of the session has read the text: attend_session_extend
 * continues, as after attend_session_encode. The session's model must be the
 * reading's. Sessions on several threads may recall one reading at once. */
ATTEND_API attend_status attend_session_recall(attend_session *session,
                                               const attend_reading *reading);

#ifdef __cplusplus
}
#endif
#endif
