/* Forms: what can be known from a form alone, before there is a plan.
 *
 * desc.c, the definition, the engines and callers ask.
 */
#include "attention/desc.h"
#include "attention/features.h"

bool form_has_scale(attend_form_kind kind) {
  return kind == ATTEND_SOFTMAX || kind == ATTEND_ARGMAX ||
         kind == ATTEND_FOURIER || kind == ATTEND_FAVOR;
}

int form_directions(const attend_form *form) {
  switch (form->kind) {
    case ATTEND_FAVOR:
      return form->pairs ? form->features / 2 : form->features;
    case ATTEND_FOURIER:
      return form->features / 2;
    case ATTEND_GAUSSIAN:
      return form->map == ATTEND_TRIGONOMETRIC ? form->features / 2
                                               : form->features;
    case ATTEND_SOFTMAX:
    case ATTEND_ARGMAX:
    case ATTEND_POLY:
    case ATTEND_ELU:
    case ATTEND_CUSTOM:
      break;
  }
  return 0;
}

int attend_form_signed(const attend_form *form) {
  bool waves = form->features > 0 && form->map == ATTEND_TRIGONOMETRIC;
  return form->kind == ATTEND_POLY || form->kind == ATTEND_CUSTOM ||
         form->kind == ATTEND_FOURIER ||
         (form->kind == ATTEND_GAUSSIAN && waves);
}

/* Monomials of dim variables up to a degree: dim + degree over degree, or
 * INT64_MAX where that is less. After step n the product is n' + n over n, a
 * whole number, and it only grows. */
static int64_t monomials(int dim, int degree) {
  int few = dim < degree ? dim : degree, many = dim < degree ? degree : dim;
  int64_t count = 1;
  for (int64_t n = 1; n <= few; n++) {
    __int128 next = (__int128)count * (many + n) / n;
    if (next > INT64_MAX) return INT64_MAX;
    count = (int64_t)next;
  }
  return count;
}

int64_t attend_form_features(const attend_form *form, int dim) {
  switch (form->kind) {
    case ATTEND_POLY:
      return monomials(dim, form->degree ? form->degree : FORM_DEGREE);
    case ATTEND_ELU:
      return dim;
    case ATTEND_FOURIER:
    case ATTEND_FAVOR:
      return form->features ? form->features : FORM_FEATURES;
    case ATTEND_GAUSSIAN:
      return form->features;
    case ATTEND_CUSTOM:
      return form->phi ? form->features : 0;
    case ATTEND_SOFTMAX:
    case ATTEND_ARGMAX:
      break;
  }
  return 0;
}
