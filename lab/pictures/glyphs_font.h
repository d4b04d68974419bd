/* The bytes of the two font files that are built in.
 *
 * Under glyphs.c, which reads them.
 */
#ifndef CLI_GLYPHS_FONT_H
#define CLI_GLYPHS_FONT_H

extern const unsigned char glyphs_font_plain[], glyphs_font_plain_end[];
extern const unsigned char glyphs_font_bold[], glyphs_font_bold_end[];

#endif
