/* The bytes of the two built-in font files; cmake/pictures.cmake finds them.
 */
#include "pictures/font.h"

#define EMBED(name, file)             \
  __asm__(                            \
      ".pushsection .rodata\n"        \
      ".balign 16\n"                  \
      ".global " #name                \
      "\n"                            \
      ".hidden " #name "\n" #name     \
      ":\n"                           \
      ".incbin \"" file               \
      "\"\n"                          \
      ".global " #name                \
      "_end\n"                        \
      ".hidden " #name "_end\n" #name \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".popsection\n")

EMBED(glyphs_font_plain, ATTEND_FONT_PLAIN);
EMBED(glyphs_font_bold, ATTEND_FONT_BOLD);
