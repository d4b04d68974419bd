/* A prediction in a terminal: probabilities with changes and without, then what picture_prediction
 * shows, as terminal_scores and terminal_map print it.
 */
#include <math.h>

#include "pictures/pictures.h"

enum { NAME = 16, BAR = 24, FACT = 44 };

/* A name in so many columns, cut. */
static void print_name(FILE *out, const char *name, int columns) {
  int used = 0;
  for (uint32_t letter; (letter = letters_next(&name)) && used < columns;) {
    char bytes[LETTER_BYTES];
    if (used + letters_columns(letter) > columns) break;
    fwrite(bytes, 1, letters_put(letter, bytes), out);
    used += letters_columns(letter);
  }
  fprintf(out, "%*s", columns - used, "");
}

static void print_shifts(FILE *out, const picture_prediction_data *d) {
  double max = 1e-9;
  for (int i = 0; i < d->shifts; i++) max = fmax(max, fmax(d->shift[i].p, d->shift[i].before));
  fprintf(out, "%-*s without    with\n", NAME, "token");
  for (int i = 0; i < d->shifts; i++) {
    const picture_shift *s = &d->shift[i];
    print_name(out, s->label, NAME);
    fprintf(out, "%6.1f %% %5.1f %% ", s->before * 100, s->p * 100);
    for (int n = (int)lround(s->p / max * BAR); n > 0; n--) fputs("█", out);
    fputc('\n', out);
  }
  fputc('\n', out);
}

static void print_facts(FILE *out, const picture_prediction_data *d) {
  bool compared = false;
  for (int i = 0; i < d->facts; i++) compared |= !isnan(d->fact[i].before);
  if (compared) fprintf(out, "%-*s %9s %9s %10s\n", FACT, "", "without", "with", "difference");
  for (int i = 0; i < d->facts; i++) {
    const picture_fact *f = &d->fact[i];
    print_name(out, f->name, FACT);
    if (isnan(f->before))
      fprintf(out, " %9.3f\n", f->value);
    else
      fprintf(out, " %9.3f %9.3f %+10.3f\n", f->before, f->value, f->value - f->before);
  }
}

void terminal_prediction(FILE *out, const picture_prediction_data *d, const terminal_look *look) {
  fprintf(out, "%s\n%s\n\n", d->title, d->caption);
  if (d->shifts) print_shifts(out, d);
  if (d->scores) terminal_scores(out, d->scores, look);
  for (int i = 0; i < d->maps; i++) {
    fputc('\n', out);
    if (d->map[i].title) fprintf(out, "%s\n", d->map[i].title);
    if (d->map[i].caption) fprintf(out, "%s\n", d->map[i].caption);
    terminal_map(out, &d->map[i], look);
  }
  if (d->facts && (d->scores || d->maps)) fputc('\n', out);
  print_facts(out, d);
}
