/* attend_pull, with the hub of tests/cli: without memory, stopped, resumed, offline. */
#include "attend/pull.h"

#include "golden_models.h"

static const char start_hub[] =
    "mkdir -p $W/models/a/b && head -c 8000000 /dev/urandom >$W/models/a/b/model.safetensors &&"
    "{ timeout 60 python3 tests/cli/hub_server.py $W >$W/says 2>&1 & echo $! >$W/server; } &&"
    "while ! [ -e $W/ports ]; do sleep .1; done && cat $W/ports";
static attend_pulled *got;
static int64_t before;

static int report(const attend_pull_progress *now, void *stop) {
  if (now->before) before = now->before;
  return stop && now->done > 0 && now->done < now->total;
}

static attend_status fetch(attend_context *ctx, const char *name, bool offline, void *stop) {
  attend_pull_options o = {ATTEND_INIT(attend_pull_options), .offline = offline, .sha256 = true};
  o.progress = report, o.user = stop;
  return attend_pull(ctx, name, &o, &got);
}

TEST(a_pull) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  char endpoint[64] = "http://127.0.0.1:", *blob;
  setenv("W", models_folder(), 1), setenv("HF_HUB_CACHE", in_folder("cache"), 1);
  setenv("no_proxy", "*", 1), unsetenv("HF_TOKEN"), unsetenv("HF_HUB_OFFLINE");
  const char *option = getenv("ATTEND_PULL");
  const bool built = !option || strcmp(option, "OFF");
  CHECK_EQ(fetch(ctx, "hf:a/b", true, NULL), built ? ATTEND_IO : ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_message(ctx), built ? "pull without --offline" : "this build has no pull");
  if (!built) return;
  FILE *hub = popen(start_hub, "r");
  CHECK(hub && fscanf(hub, "%5s", endpoint + strlen(endpoint)) == 1 && !pclose(hub));
  setenv("HF_ENDPOINT", endpoint, 1);
  attend_status status = ATTEND_NO_MEMORY;
  for (long n = 1, live = memory.live; status == ATTEND_NO_MEMORY && n < 100; n++) {
    memory.fail_at = memory.taken + n;
    status = fetch(ctx, "hf:a/b", false, &got);
    CHECK(!got && memory.live == live);
  }
  CHECK_EQ(status, ATTEND_STOPPED);
  memory.fail_at = 0;
  CHECK_EQ(fetch(ctx, "hf:a/b", false, NULL), ATTEND_OK);
  const attend_pulled_file *file = attend_pulled_get(got, 0);
  CHECK(before > 0 && file->bytes == 8000000 && !file->already);
  blob = realpath(file->path, NULL); /* is named by its hash */
  CHECK(blob && strlen(file->sha256) == 64 && strstr(blob, file->sha256));
  free(blob), attend_pulled_free(got);
  CHECK_EQ(fetch(ctx, "hf:a/b", true, NULL), ATTEND_OK);
  CHECK(attend_pulled_get(got, 0)->already && !attend_pulled_get(got, 1));
  attend_pulled_free(got), attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
  CHECK(!system("kill $(cat $W/server); rm -r $W"));
}
