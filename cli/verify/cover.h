/* The problems of `attend verify --all`.
 *
 * Chosen here, run by cmd_verify.c.
 */
#ifndef CLI_COVER_H
#define CLI_COVER_H

#include "cli.h"

/* Problem strings in which every two choices (of form, mask, bias, dtype,
 * heads, layout, operation and sizes) that go together meet at least once,
 * and the corner cases. Each string and the list are the caller's to free.
 * light: shorter lengths and fewer of them, for emulators. */
size_t cover_problems(bool light, char ***problems);

#endif
