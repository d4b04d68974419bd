/* The bytes of the two built-in font files. */
#ifndef PICTURES_FONT_H
#define PICTURES_FONT_H

extern const unsigned char glyphs_font_plain[], glyphs_font_bold[];

#endif
