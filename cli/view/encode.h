/* Results of attend/view.h as JSON, or as numbers in parts with a JSON header; the
 * format is in viewer/README.md.
 */
#ifndef CLI_VIEW_ENCODE_H
#define CLI_VIEW_ENCODE_H

#include "table.h"
#include "view/viewer.h"

typedef enum { PART_F32, PART_F16, PART_U8, PART_I32 } part_type;

typedef struct {
  const char *name;
  part_type type;
  int rank, shape[4];
  const void *data; /* floats for F16 and U8 too: they are converted */
} view_part;

/* A result ready to be written; its arrays must stay until then. */
typedef struct encoded {
  int n_parts; /* 0: JSON alone */
  view_part part[6];
  /* The value; where there are parts, further members of the header, or NULL. */
  void (*write)(attend_json_writer *w, const struct encoded *e);
  const void *of;
  const viewer *v;  /* of runs and candidates */
  const char *form; /* of vectors */
  int count, model; /* of candidates */
} encoded;

encoded encode_run(const viewer *v, const attend_view_run *run);
encoded encode_thumbs(const attend_view_thumbs *t);
encoded encode_patterns(const attend_view_patterns *p);
encoded encode_block(const attend_view_block *b);
encoded encode_stats(const attend_view_stats *s);
encoded encode_vectors(const attend_view_vectors *x, const char *form);
encoded encode_tile(const attend_view_tile *t, int level);
encoded encode_rollout(const attend_view_rollout *r);
encoded encode_reach(const attend_view_reach *r);
encoded encode_comparison(const attend_view_comparison *c);
encoded encode_candidates(const viewer *v, int model, const attend_view_candidate *list, int n);
encoded encode_embeddings(const attend_view_embeddings *e);
encoded encode_positions(const attend_view_positions *p);
encoded encode_training(const viewer *v); /* COURSE, or null */

/* As the page gets it. */
attend_status encoded_reply(attend_context *ctx, const encoded *e, view_reply *reply);
/* As JSON, parts as nested lists; a value of w. */
void encoded_write(attend_json_writer *w, const encoded *e);

/* The numbers that the page reads from a part. */
void part_read(const view_part *p, float *to);

/* Values of w. */
void write_model(attend_json_writer *w, const viewer *v, int model);
void write_case(attend_json_writer *w, const view_case *c);
void write_step(attend_json_writer *w, const attend_view_model *m, const attend_view_step *s);

/* A token as it is shown: SentencePiece's U+2581 is a space. Ends in a zero byte. */
enum { TOKEN_TEXT = 260 };
size_t token_text(const attend_view_model *m, int32_t id, char text[TOKEN_TEXT]);

#endif
