/* Formulas in pages (formula.c). */
#ifndef STUDIES_FORMULA_H
#define STUDIES_FORMULA_H

#include "svg/svg.h"

/* The first n bytes of a formula in Unicode as MathML; display: on a line of its own. */
void formula_put(svg *s, const char *text, size_t n, bool display);

#endif
