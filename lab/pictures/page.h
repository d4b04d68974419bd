/* What the pictures share: a page with a title, sentences, a legend.
 */
#ifndef PICTURES_PAGE_H
#define PICTURES_PAGE_H

#include "pictures/pictures.h"

enum {
  PAGE_MARGIN = 28,
  TITLE_SIZE = 20,
  TEXT_SIZE = 13, /* captions */
  LABEL_SIZE = 12,
  SMALL_SIZE = 10
};

typedef struct {
  drawing *to;
  const palette *colours;
  double left, right; /* of what is drawn on */
  double y;           /* where the next thing starts */
  double legend_x;    /* where the legend goes on; 0: it has not started */
  double legend_h;    /* of its line */
} page;

/* The room between the margins. */
double page_room(const picture_look *look);

/* `content` is how much of the room the picture needs: the page is as wide as
 * that, though never so narrow that sentences do not read. */
void page_start(page *p, drawing *to, const picture_look *look, double content, const char *title,
                ...) __attribute__((format(printf, 5, 6)));
/* A caption, broken into lines. */
void page_say(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The end of every caption: the notice, if there is one, and some air. */
void page_notice(page *p, const picture_about *about);
void page_end(page *p);

/* "softmax self-attention of the decoder" */
enum { PAGE_WORDS = 160 };
const char *page_attention(const picture_about *about, char to[PAGE_WORDS]);
/* "gpt2, layer 3, head 5", or as much of it as is said. */
const char *page_place(const picture_about *about, char to[PAGE_WORDS]);

/* One text in a size, a colour and with a width that it is cut to (0: none). */
void page_text(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double most);
void page_bold(page *p, double x, double y, const char *text, double size, text_anchor anchor,
               colour paint, double most);
/* Where a text of this size stands so that it is in the middle of y. */
double page_middle(double y, double size);

/* ---- the legend, a strip below the picture -------------------------------------- */

typedef enum {
  SCALE_WEIGHT, /* 0 to most, by the root */
  SCALE_SIGN,   /* -most to most, by the root */
  SCALE_EVEN    /* -most to most, evenly */
} page_scale;

colour page_colour(const palette *c, page_scale scale, double x, double most);
void page_legend_scale(page *p, page_scale scale, double most, const char *title);
void page_legend_chip(page *p, colour paint, const char *title);
void page_legend_hatch(page *p, const char *title);
void page_legend_end(page *p);

/* "0.042", "1.3e-05", "12": three digits that count. */
const char *page_number(double x, char to[24]);
/* The same; below 0.0005 "<0.001". */
const char *page_weight(double w, char to[24]);

#endif
