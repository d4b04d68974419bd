/* Axes as numbers: their ends, their ticks, and what is written at these.
 *
 * Ticks are 1, 2 or 5 times a power of ten apart. On a log scale they are the
 * numbers 1, 2, 5 of every decade, or decades if these would be too many, or
 * evenly spaced if the whole is less than a decade or so.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plot/plot.h"

/* Beyond these, differences and powers would overflow or vanish. */
static const double HUGE_END = 1e300, TINY_END = 1e-290;

/* ---- ends ---------------------------------------------------------------------- */

extent extent_start(bool log) { return (extent){log, HUGE_END, -HUGE_END}; }

void extent_see(extent *e, double x) {
  if (!isfinite(x) || (e->log && x <= 0)) return;
  x = fmax(-HUGE_END, fmin(x, HUGE_END));
  if (e->log) x = fmax(x, TINY_END);
  e->low = fmin(e->low, x);
  e->high = fmax(e->high, x);
}

/* Values that do not differ get an axis around them. */
static void widen(scale *s) {
  if (s->log) {
    if (s->high / s->low > 1 + 1e-9) return;
    s->low /= 2;
    s->high *= 2;
    return;
  }
  double size = fmax(fabs(s->low), fabs(s->high));
  if (s->high - s->low > fmax(1e-12 * size, TINY_END)) return;
  double capacity = size > TINY_END ? size / 2 : 1;
  s->low -= capacity;
  s->high += capacity;
}

static void choose_ends(scale *s, const attend_plot_axis *axis, extent seen) {
  bool empty = seen.low > seen.high;
  s->low = empty ? (s->log ? 1 : 0) : seen.low;
  s->high = empty ? (s->log ? 10 : 1) : seen.high;
  if (axis->zero && !s->log) {
    s->low = fmin(s->low, 0);
    s->high = fmax(s->high, 0);
  }
  widen(s);
}

/* ---- ticks ---------------------------------------------------------------------- */

/* .., 0.5, 1, 2, 5, 10, ..: number k, and k of 1 is 0. Multiplied by i it is the
 * double nearest to what one would write. */
static double nice(int k, double i) {
  static const double digit[] = {1, 2, 5};
  int power = (int)floor(k / 3.0);
  double n = i * digit[k - 3 * power];
  return power < 0 ? n / pow(10, -power) : n * pow(10, power);
}

typedef struct {
  int k;
  double first, last; /* multiples of nice(k) */
} ladder;

static ladder ladder_at(int k, double low, double high, axis_ends ends) {
  const double slack = 1e-9; /* 0.3 / 0.1 is less than 3 */
  double a = low / nice(k, 1), b = high / nice(k, 1);
  if (ends == ROUND_ENDS) return (ladder){k, floor(a + slack), ceil(b - slack)};
  return (ladder){k, ceil(a - slack), floor(b + slack)};
}

static ladder ladder_choose(double low, double high, axis_ends ends, int max) {
  int k = 3 * (int)floor(log10(high - low)) - 6;
  ladder l = ladder_at(k, low, high, ends);
  while (l.last - l.first + 1 > max) l = ladder_at(++k, low, high, ends);
  return l;
}

static void linear_ticks(scale *s, axis_ends ends, int max) {
  ladder l = ladder_choose(s->low, s->high, ends, max);
  for (double i = l.first; i <= l.last && s->count < MOST_TICKS; i++)
    s->at[s->count++] = nice(l.k, i);
}

/* Numbers 1, 2, 5 of the decades. */
static int first_nice(double low) {
  int k = 3 * (int)floor(log10(low)) + 3;
  while (nice(k, 1) > low * (1 + 1e-9)) k--;
  return k;
}

static int last_nice(double high) {
  int k = 3 * (int)floor(log10(high)) - 1;
  while (nice(k, 1) < high * (1 - 1e-9)) k++;
  return k;
}

/* Decades from a to b, every so many of them that few enough are there. */
static void decade_ticks(scale *s, axis_ends ends, int max) {
  double a = log10(s->low), b = log10(s->high);
  int step = 1;
  ladder l;
  do {
    double low = a / step, high = b / step;
    l = ends == ROUND_ENDS ? (ladder){0, floor(low + 1e-9), ceil(high - 1e-9)}
                           : (ladder){0, ceil(low - 1e-9), floor(high + 1e-9)};
  } while (l.last - l.first + 1 > max && step++);
  for (double i = l.first; i <= l.last; i++) s->at[s->count++] = nice(3 * (int)i * step, 1);
}

static void log_ticks(scale *s, axis_ends ends, int max) {
  int first = first_nice(s->low), last = last_nice(s->high);
  if (ends == TIGHT_ENDS) {
    first += nice(first, 1) < s->low * (1 - 1e-9);
    last -= nice(last, 1) > s->high * (1 + 1e-9);
  }
  int count = last - first + 1;
  if (count < 4)
    linear_ticks(s, ends, max);
  else if (count > MOST_TICKS)
    decade_ticks(s, ends, max);
  else
    for (int k = first; k <= last; k++) s->at[s->count++] = nice(k, 1);
}

static bool is_tick(const scale *s, double x) {
  for (int i = 0; i < s->count; i++)
    if (fabs(s->at[i] / x - 1) < 1e-9) return true;
  return false;
}

/* The numbers 1 to 9 of the decades, where these are few enough. */
static void log_minors(scale *s) {
  int first = (int)floor(log10(s->low)), last = (int)floor(log10(s->high));
  if ((last - first + 1) * 9 > MOST_MINOR || s->high / s->low < 2) return;
  for (int power = first; power <= last; power++)
    for (int i = 1; i < 10; i++) {
      double x = nice(3 * power, i);
      bool inside = x >= s->low * (1 - 1e-9) && x <= s->high * (1 + 1e-9);
      if (inside && !is_tick(s, x)) s->minor[s->minors++] = x;
    }
}

/* ---- what is written at them ------------------------------------------------------ */

static void put_power(double x, int decimals, char text[40]) {
  int power = (int)floor(log10(fabs(x)) + 1e-12);
  double front = power < -300 ? x : x / pow(10, power);
  char digits[40];
  if (fabs(front) * pow(10, decimals) + 0.5 >= pow(10, decimals + 1))
    front /= 10, power++; /* 9.9999 is written as 10 */
  svg_number(front, decimals, digits);
  snprintf(text, 40, "%.24se%d", digits, power);
}

/* x, exact to `step`. */
static void put_label(double x, double step, double largest, char text[40]) {
  static const char *const suffix[] = {"", "k", "M", "G", "T"};
  double size = fabs(x);
  int thousands = 0;
  if (x == 0) {
    memcpy(text, "0", 2);
    return;
  }
  int decimals = (int)ceil(-log10(step) - 1e-9);
  if (largest < 1e-3 || largest >= 1e15) {
    int power = (int)floor(log10(size) + 1e-12);
    put_power(x, (int)fmax(0, fmin(power + decimals, 15)), text);
    return;
  }
  if (largest >= 1e4)
    while (size >= 1e3 * (1 - 1e-9) && thousands < 4) size /= 1e3, thousands++;
  decimals = (int)fmax(0, fmin(decimals + 3 * thousands, 15));
  svg_number(copysign(size, x), decimals, text);
  strcat(text, suffix[thousands]);
}

/* Numbers that differ in their last digits alone: the first, and how much more
 * the others are. */
static void write_offsets(scale *s, double step) {
  double max = s->at[s->count - 1] - s->at[0];
  put_label(s->at[0], step, 1, s->label[0]);
  for (int i = 1; i < s->count; i++) {
    char more[40];
    put_label(s->at[i] - s->at[0], step, max, more);
    snprintf(s->label[i], sizeof s->label[i], "+%.38s", more);
  }
}

static void write_labels(scale *s) {
  double largest = 0, step = s->high - s->low;
  for (int i = 0; i < s->count; i++) {
    largest = fmax(largest, fabs(s->at[i]));
    if (i) step = fmin(step, s->at[i] - s->at[i - 1]);
  }
  /* on a log scale each stands for itself: 1, 2 or 5 and zeros */
  bool far = s->log && s->high / s->low > 3;
  if (!far && largest / step > 1e6 && largest < 1e15) {
    write_offsets(s, step);
    return;
  }
  for (int i = 0; i < s->count; i++) {
    double x = s->at[i];
    if (far && (x < 1e-3 || x >= 1e4))
      short_number(x, 6, s->label[i]);
    else
      put_label(x, far ? fmin(step, x) : step, far ? 1 : largest, s->label[i]);
  }
}

void short_number(double x, int digits, char text[40]) {
  if (x == 0 || !isfinite(x)) {
    memcpy(text, x == 0 ? "0" : "-", 2);
    return;
  }
  int power = (int)floor(log10(fabs(x)) + 1e-12);
  double step = power < -300 ? TINY_END : pow(10, power - digits + 1);
  put_label(round(x / step) * step, step, fabs(x), text);
}

/* ---- the scale -------------------------------------------------------------------- */

void scale_make(scale *s, const attend_plot_axis *axis, extent seen, axis_ends ends, int max) {
  *s = (scale){.log = axis->log != 0};
  if (max > MOST_TICKS) max = MOST_TICKS;
  if (max < 3) max = 3;
  bool fixed = axis->low < axis->high && isfinite(axis->low) && isfinite(axis->high) &&
               (!s->log || axis->low > 0);
  if (fixed) {
    seen = extent_start(s->log);
    extent_see(&seen, axis->low);
    extent_see(&seen, axis->high);
    ends = TIGHT_ENDS;
  }
  choose_ends(s, axis, seen);
  if (s->log)
    log_ticks(s, ends, max);
  else
    linear_ticks(s, ends, max);
  if (s->count && ends == ROUND_ENDS) {
    s->low = fmin(s->low, s->at[0]);
    s->high = fmax(s->high, s->at[s->count - 1]);
  }
  if (s->log) log_minors(s);
  write_labels(s);
}

/* log(a / b), exact for what is close, without overflow for what is far. */
static double log_ratio(double a, double b) {
  return a < 2 * b && a > b / 2 ? log1p((a - b) / b) : log(a) - log(b);
}

double scale_place(const scale *s, double x) {
  if (!isfinite(x) || (s->log && x <= 0)) return NAN;
  if (s->log) return log_ratio(x, s->low) / log_ratio(s->high, s->low);
  return (x - s->low) / (s->high - s->low);
}
