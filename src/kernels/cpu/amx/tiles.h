/* AMX's tiles: their shape, and holding them. */
#ifndef KERNELS_CPU_AMX_TILES_H
#define KERNELS_CPU_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

enum {
  TILE = 16, /* rows of a tile */
  DEEP = 32  /* elements that one instruction sums over */
};

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tile_config;

/* The compiler does not know that tile loads read memory. */
#define WRITTEN __asm__ volatile("" ::: "memory")

static void tiles_begin(void) {
  tile_config c = {.palette = 1};
  for (int i = 0; i < 8; i++) c.bytes[i] = 64, c.rows[i] = TILE;
  WRITTEN;
  _tile_loadconfig(&c);
}

static void tiles_end(void) { _tile_release(); }

#endif
