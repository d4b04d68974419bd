/* stb_truetype as it is used here: vertices of floats, memory that may run out,
 * no assertions. raster.c has the implementation.
 */
#ifndef PICTURES_STB_H
#define PICTURES_STB_H

#include "pictures/raster.h"

/* What calls into stb_truetype take their memory from: its userdata. */
typedef struct {
  bool *failed; /* set where there is no memory */
  /* stbtt_Rasterize does not check its fourth allocation, a row of floats: it is
   * made beforehand. */
  void *row;
  size_t row_size;
  int calls;
} stb_memory;

void *stb_take(size_t size, stb_memory *m);
void stb_give(void *block, stb_memory *m);

#define stbtt_vertex_type float
#define stbtt_vertex path_vertex
#define STBTT_malloc(size, user) stb_take(size, user)
#define STBTT_free(block, user) stb_give(block, user)
#define STBTT_assert(x) ((void)0)
#include <stb/stb_truetype.h>

#endif
