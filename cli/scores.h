/* Maps of numbers and scores of tokens, in the terminal or as a file: for attend intervene and
 * attend attribute. */
#ifndef CLI_SCORES_H
#define CLI_SCORES_H

#include "base/json_write.h"
#include "cli.h"
#include "pictures/pictures.h"

typedef struct {
  const char *path; /* .svg, .png or .html by its ending; NULL: none */
  double width;     /* px; 0: default */
  bool dark;
} score_output;

/* Whether the ending is one of svg, png, html and json; otherwise an error message. */
bool score_path_check(const char *path);
/* A picture of one of them; the other is NULL. An exit code. */
int score_write(attend_context *ctx, const score_output *to, const picture_map_data *map,
                const picture_scores_data *scores);
/* The member `name`: a list of strings. */
void score_put_names(json_writer *w, const char *name, char **list, int n);

#endif
