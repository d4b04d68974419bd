/* Files embedded in the program by the assembler's .incbin: the page of `attend view`,
 * the specs of `attend design`.
 */
#ifndef CLI_INCBIN_H
#define CLI_INCBIN_H

#include <stdint.h>

/* NAME, followed by a zero byte, and NAME_length, its number of bytes. */
#define EMBED(name, path)                                                  \
  __asm__(                                                                 \
      ".pushsection .rodata\n"                                             \
      ".global " #name ", " #name                                          \
      "_length\n"                                                          \
      ".hidden " #name ", " #name                                          \
      "_length\n"                                                          \
      ".balign 16\n" #name                                                 \
      ":\n"                                                                \
      ".incbin \"" path                                                    \
      "\"\n"                                                               \
      ".L" #name                                                           \
      "_end:\n"                                                            \
      ".byte 0\n"                                                          \
      ".balign 8\n" #name                                                  \
      "_length:\n"                                                         \
      ".quad .L" #name "_end - " #name                                     \
      "\n"                                                                 \
      ".popsection\n");                                                    \
  extern const unsigned char name[] __attribute__((visibility("hidden"))); \
  extern const uint64_t name##_length __attribute__((visibility("hidden")))

#endif
