/* Training on the GPU: the CPU's losses; and killed at any instant it goes on to the same bits. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/base.h"
#include "training_runs.h"

/* ---- beside the CPU ------------------------------------------------------------------- */

enum { STEPS = 50, MOST_KILLS = 60 };

static void take_losses(const char *device, const char *model, attend_form_kind form,
                        double loss[STEPS]) {
  const attend_form chosen = {.kind = form};
  setenv("ATTEND_DEVICE", device, 1);
  training_run c = open_training(&(training_plan){
      .from = model_path(model, NULL), .tokens = 3000, .batch = 8, .threads = 4, .form = &chosen});
  CHECK(!strcmp(attend_context_device(c.ctx), "cpu") == !strcmp(device, "cpu"));
  for (int i = 0; i < STEPS; i++) {
    const attend_step_report r = take_steps(&c, 1);
    loss[i] = r.loss / (double)r.scored;
  }
  close_training(&c);
}

TEST(losses_of_50_steps_are_the_cpus) {
  static const struct {
    const char *model;
    attend_form_kind form;
  } cases[] = {{"gpt2", ATTEND_SOFTMAX}, {"llama-gqa", ATTEND_SOFTMAX}, {"gpt2", ATTEND_ELU}};
  for (size_t m = 0; m < sizeof cases / sizeof *cases; m++) {
    double here[STEPS], there[STEPS], worst = 0;
    take_losses("cpu", cases[m].model, cases[m].form, here);
    take_losses("cuda", cases[m].model, cases[m].form, there);
    for (int i = 0; i < STEPS; i++) {
      CHECK_NEAR(there[i], here[i], 1e-3);
      worst = fmax(worst, fabs(there[i] - here[i]));
    }
    CHECK(here[STEPS - 1] < here[0] - 0.01);
    printf("%s: %.4f to %.4f, at most %.1e apart\n", cases[m].model, there[0], there[STEPS - 1],
           worst);
  }
}

/* ---- killed --------------------------------------------------------------------------- */

/* A process of its own takes the steps that are left in a folder: it is this program again, which
 * the variable CHILD tells the folder. CUDA does not survive a fork. */
enum { LAST = 300, EVERY = 10 };

static char *in(const char *folder, const char *name) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_standing(const training_run *c, const char *path) {
  standing s = stand(c);
  FILE *f = fopen(path, "wb");
  bool written = f && fwrite(s.values, sizeof(float), s.count, f) == s.count &&
                 fwrite(s.first, sizeof(float), s.count, f) == s.count &&
                 fwrite(s.second, sizeof(float), s.count, f) == s.count;
  if (!f || fclose(f) || !written) exit(1);
  free_standing(&s);
}

static void go_on(const char *folder) {
  char path[600];
  snprintf(path, sizeof path, "%s", in(folder, "step"));
  const bool old = access(path, F_OK) == 0;
  attend_json *notes = NULL;
  training_run c = open_training(&(training_plan){
      .from = old ? path : NULL, .threads = 2, .dropout = 0.1f, .accumulate = 2, .tokens = 3000});
  if (old) OK(c.ctx, attend_training_resume(c.training, path, &notes));
  attend_json_free(notes);
  while (attend_training_steps(c.training) < LAST) {
    take_steps(&c, 1);
    attend_save_options keep = {ATTEND_INIT(attend_save_options),
                                .beside = model_path("gpt2", NULL)};
    if (attend_training_steps(c.training) % EVERY == 0)
      OK(c.ctx, attend_training_save(c.training, path, &keep));
  }
  write_standing(&c, in(folder, "end"));
  close_training(&c);
}

__attribute__((constructor)) static void be_the_child(void) {
  const char *folder = getenv("CHILD");
  if (!folder) return;
  go_on(folder);
  fflush(stdout);
  _exit(check_failures != 0);
}

/* True if it ended by itself, without a fault, before it was killed. */
static bool run_child(const char *folder, int milliseconds) {
  char name[] = "/proc/self/exe";
  char *const words[] = {name, NULL};
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    setenv("CHILD", folder, 1);
    setenv("ATTEND_DEVICE", "cuda", 1);
    execv(name, words);
    _exit(127);
  }
  if (milliseconds) {
    usleep((useconds_t)milliseconds * 1000);
    kill(child, SIGKILL);
  }
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

static char *read_all(const char *path, size_t *n) {
  char *text = NULL;
  FILE *f = fopen(path, "rb");
  long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : 0;
  *n = (size_t)size;
  if (f) rewind(f), text = malloc(*n + 1);
  if (f && fread(text, 1, *n, f) != *n) *n = 0;
  if (f) fclose(f);
  return text;
}

TEST(killed_and_resumed_it_has_the_same_bits) {
  char whole[] = "/tmp/attend-whole-XXXXXX", killed[] = "/tmp/attend-killed-XXXXXX";
  size_t n, m;
  int kills = 0;
  CHECK(mkdtemp(whole) && mkdtemp(killed));
  const double start = seconds_now();
  CHECK(run_child(whole, 0));
  /* Kills fall ever later, so that starts get further. */
  const double span = 1000 * (seconds_now() - start);
  while (kills < MOST_KILLS && !run_child(killed, (int)(span * (0.3 + 0.02 * kills)))) kills++;
  char *a = read_all(in(whole, "end"), &n);
  char *b = read_all(in(killed, "end"), &m);
  CHECK(n > 0 && n == m && !memcmp(a, b, n));
  CHECK(kills > 2);
  printf("%d kills\n", kills);
  free(a), free(b);
  remove_below(whole), remove_below(killed);
}
