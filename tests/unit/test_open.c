/* attend_open and attend_model_find: folders, models that ship, the two caches. */
#include "attend/model.h"

#include "golden_models.h"

#define CHECK_SAME(got, want) CHECK(!strcmp(got, want))

/* ---- a machine of its own: HOME, caches and shipped models below one folder ------- */

static void make_folders(const char *path) {
  char copy[1024];
  snprintf(copy, sizeof copy, "%s", path);
  for (char *at = copy + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    mkdir(copy, 0777);
  }
  mkdir(copy, 0777);
}

static const char *golden(const char *family) {
  static char path[4096];
  return realpath(model_path(family, NULL), path);
}

/* `name`, below the folder, becomes a link to the golden checkpoint. */
static void link_model(const char *family, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s", in_folder(name));
  *strrchr(path, '/') = 0;
  make_folders(path);
  CHECK(!symlink(golden(family), in_folder(name)));
}

/* A folder with links to its files: packages are searched for config.json. */
static void link_files(const char *family, const char *folder) {
  static const char *const files[] = {"config.json", "model.safetensors"};
  make_folders(in_folder(folder));
  for (int i = 0; i < 2; i++) {
    char from[4200], to[600];
    snprintf(from, sizeof from, "%s/%s", golden(family), files[i]);
    snprintf(to, sizeof to, "%s/%s", in_folder(folder), files[i]);
    CHECK(!symlink(from, to));
  }
}

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void set_up(void) {
  static const char *const variables[] = {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"};
  for (int i = 0; i < 3; i++) unsetenv(variables[i]);
  setenv("HOME", models_folder(), 1);
  setenv("ATTEND_MODELS", in_folder("ships"), 1);
  const char hub[] = ".cache/huggingface/hub/models--small--gpt/";
  char path[200];
  snprintf(path, sizeof path, "%ssnapshots/" COMMIT, hub);
  link_model("gpt2", path);
  snprintf(path, sizeof path, "%srefs", hub);
  make_folders(in_folder(path));
  snprintf(path, sizeof path, "%srefs/main", hub);
  write_in_folder(path, COMMIT "\n", 41);
  link_model("llama-gqa", ".cache/attend/npm/@own/llama/1.9.0");
  link_files("bart", ".cache/attend/npm/@own/llama/1.10.0/model");
  link_model("t5", ".cache/attend/npm/@own/llama/1.11.0-rc.1");
  link_model("bert", "ships/tiny");
  link_model("t5", "run/last");
}

static void tear_down(void) {
  char command[400];
  snprintf(command, sizeof command, "rm -r '%s'", models_folder());
  CHECK(!system(command));
}

/* ---- tests ------------------------------------------------------------------------- */

static const struct {
  const char *name, *family;
} there[] = {
    {"hf:small/gpt", "gpt2"},
    {"hf:small/gpt@main", "gpt2"},
    {"hf:small/gpt@" COMMIT, "gpt2"},
    {"npm:@own/llama@1.9.0", "llama"},
    {"npm:@own/llama", "bart"}, /* 1.10 is newer than 1.9 and than 1.11-rc */
    {"npm:@own/llama@latest", "bart"},
    {"npm:@own/llama@1.11.0-rc.1", "t5"},
    {"attend:tiny", "bert"},
    {"run", "t5"}, /* what training wrote: no best step, so the last */
};

/* Every name opens the right model, and freeing the model frees all of it. */
TEST(names_open_models) {
  set_up();
  for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
    bool folder = !strchr(there[i].name, ':');
    attend_model *model = NULL;
    ledger memory = {0};
    attend_context *ctx = open_context(NULL, 1, &memory);
    OK(ctx, attend_open(ctx, folder ? in_folder(there[i].name) : there[i].name, &model));
    if (model) CHECK_SAME(attend_model_config(model)->family, there[i].family);
    attend_model_free(model);
    attend_context_free(ctx);
    CHECK_EQ(memory.live, 0);
  }
  tear_down();
}

static bool add_name(const char *name, void *user) {
  char *list = user;
  strcat(strcat(list, name), " ");
  return !strstr(name, "gpt"); /* ends the first list */
}

/* What the caches hold, each name once, those of the hub first. */
TEST(caches_are_listed) {
  char list[200] = "";
  set_up();
  attend_context *ctx = context();
  make_folders(in_folder(".cache/huggingface/hub/datasets--a--b"));
  make_folders(in_folder(".cache/huggingface/hub/models--a--interrupted"));
  OK(ctx, attend_models_pulled(ctx, add_name, list));
  CHECK_SAME(list, "hf:small/gpt ");
  setenv("HF_HUB_CACHE", in_folder("nowhere"), 1);
  OK(ctx, attend_models_pulled(ctx, add_name, list));
  CHECK_SAME(list, "hf:small/gpt npm:@own/llama ");
  unsetenv("HF_HUB_CACHE");
  tear_down();
}

/* A model with another form shares the weights and does not close them. */
TEST(shared_weights_are_closed_once) {
  attend_model *model, *other;
  attend_form form;
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  OK(ctx, attend_open(ctx, golden("gpt2"), &model));
  OK(ctx, attend_form_parse(ctx, "elu", &form));
  OK(ctx, attend_model_with_form(model, &form, &other));
  attend_model_free(other);
  attend_model_free(model);
  attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
}

static void refused(const char *name, attend_status status, const char *why) {
  attend_context *ctx = context();
  attend_model *model;
  CHECK_EQ(attend_open(ctx, name, &model), status);
  CHECK(!model);
  CHECK_SAYS(attend_message(ctx), why);
}

TEST(names_that_are_refused_say_why) {
  set_up();
  refused("hf:a/b/c", ATTEND_INVALID, "names no model: write hf:OWNER/NAME");
  refused("hf:../x", ATTEND_INVALID, "names no model");
  refused("hf:small/gpt@../..", ATTEND_INVALID, "names no model");
  refused("npm:../x", ATTEND_INVALID, "names no package: write npm:PACKAGE");
  refused("npm:a@", ATTEND_INVALID, "names no package");
  refused("hf:no/body", ATTEND_IO, "run attend pull hf:no/body");
  refused("hf:small/gpt@v2", ATTEND_IO, "run attend pull hf:small/gpt@v2");
  refused("npm:nothing", ATTEND_IO, "run attend pull npm:nothing");
  refused("npm:@own/llama@2.0.0", ATTEND_IO, "has not been pulled");
  refused("attend:nothing", ATTEND_IO, "these do: attend:tiny");
  refused("attend:../ships/tiny", ATTEND_IO, "does not come with");
  refused(in_folder("ships"), ATTEND_IO, "config.json");
  tear_down();
}

TEST(caches_are_where_the_environment_says) {
  char path[ATTEND_PATH_SIZE];
  attend_model_name name;
  attend_context *ctx = context();
  set_up();
  OK(ctx, attend_model_name_parse(ctx, "hf:small/gpt@v1/beta", &name));
  CHECK_EQ(name.source, ATTEND_SOURCE_HUB);
  CHECK_SAME(name.name, "small/gpt");
  CHECK_SAME(name.revision, "v1/beta");
  setenv("HF_HUB_CACHE", "/hub", 1);
  OK(ctx, attend_model_cache(ctx, &name, path));
  CHECK_SAME(path, "/hub/models--small--gpt");
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "~/hf", 1);
  OK(ctx, attend_model_cache(ctx, &name, path));
  CHECK_SAME(path, in_folder("hf/hub/models--small--gpt"));
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  OK(ctx, attend_model_name_parse(ctx, "npm:@own/llama", &name));
  OK(ctx, attend_model_cache(ctx, &name, path));
  CHECK_SAME(path, "/xdg/attend/npm/@own/llama");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  CHECK_EQ(attend_model_cache(ctx, &name, path), ATTEND_IO);
  tear_down();
}

/* A path of any length is refused or found, never cut. */
TEST(long_paths_are_refused) {
  char *name = zeroed_block(3 * ATTEND_PATH_SIZE, 1);
  set_up();
  for (size_t n = ATTEND_PATH_SIZE - 20; n < ATTEND_PATH_SIZE + 20; n++) {
    attend_model *model;
    memset(name, 'a', n);
    CHECK(attend_open(context(), name, &model) != ATTEND_OK);
  }
  free(name);
  tear_down();
}
