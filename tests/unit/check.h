/* A test harness in one header: no dependency, so that the tests run wherever
 * the library does, an emulator included.
 *
 *   TEST(name) { CHECK(1 + 1 == 2); }
 *
 * A failed check is printed and counted, and the test continues. Each test file is a
 * program; an argument selects the tests whose names contain it.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct check_case {
  const char *name;
  void (*run)(void);
  struct check_case *next;
} check_case;

static check_case *check_first, **check_last = &check_first;
static int check_failures; /* in the test that runs */

#define TEST(name)                                                       \
  static void name(void);                                                \
  __attribute__((constructor)) static void check_register_##name(void) { \
    static check_case c = {#name, name, NULL};                           \
    *check_last = &c;                                                    \
    check_last = &c.next;                                                \
  }                                                                      \
  static void name(void)

enum { CHECK_SHOWN = 20 }; /* failures printed per test; all are counted */

#define CHECK_FAIL(...)                         \
  do {                                          \
    if (check_failures++ >= CHECK_SHOWN) break; \
    printf("%s:%d: ", __FILE__, __LINE__);      \
    printf(__VA_ARGS__);                        \
    putchar('\n');                              \
  } while (0)

#define CHECK(condition)                            \
  do {                                              \
    if (!(condition)) CHECK_FAIL("%s", #condition); \
  } while (0)

#define CHECK_EQ(got, want)                                                   \
  do {                                                                        \
    long long got_ = (long long)(got), want_ = (long long)(want);             \
    if (got_ != want_) CHECK_FAIL("%s is %lld, not %lld", #got, got_, want_); \
  } while (0)

/* A NaN is near nothing. */
#define CHECK_NEAR(got, want, tolerance)                       \
  do {                                                         \
    double got_ = (got), want_ = (want);                       \
    if (!(got_ == want_ || fabs(got_ - want_) <= (tolerance))) \
      CHECK_FAIL("%s is %.17g, not %.17g", #got, got_, want_); \
  } while (0)

#define CHECK_SAYS(text, part)                                                       \
  do {                                                                               \
    const char *text_ = (text);                                                      \
    if (!strstr(text_, part)) CHECK_FAIL("\"%s\" does not say \"%s\"", text_, part); \
  } while (0)

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  for (check_case *c = check_first; c; c = c->next) {
    if (argc > 1 && !strstr(c->name, argv[1])) continue;
    check_failures = 0;
    c->run();
    if (check_failures) printf("FAILED %s, %d checks\n", c->name, check_failures);
    *(check_failures ? &failed : &passed) += 1;
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed;
}

#endif
