/* Questions to `attend view`, whatever they are: the first byte chooses which, the
 * rest is its body, in which RUN stands for a run that there is. Every answer is
 * one of JSON or parts whose header is right; a refusal has a sentence. */
#include "attend/model.h"
#include "program.h"
#include "view/view.h"

static const char *const names[] = {"hello",     "run",     "generate",   "refine",     "thumbs",
                                    "patterns",  "block",   "stats",      "vectors",    "tile",
                                    "flow",      "compare", "candidates", "embeddings", "positions",
                                    "picture",   "nothing", "training",   "effect",     "sweep",
                                    "attribute", "lens"};
enum { NAMES = sizeof names / sizeof *names };

bool answer_picture(request *r) { return request_fail(r, 501, "no pictures"); }

static viewer *open_viewer(void) {
  static viewer v;
  attend_context_options one = {ATTEND_INIT(attend_context_options), .threads = 1};
  attend_viewer_options o = {ATTEND_INIT(attend_viewer_options), .most_bytes = 64 << 20};
  char path[1024];
  const char *golden = getenv("ATTEND_GOLDEN");
  if (v.session) return &v;
  snprintf(path, sizeof path, "%s/models/gpt2", golden ? golden : "tests/golden");
  attend_viewer_source source = {ATTEND_INIT(attend_viewer_source), .path = path};
  MUST(!attend_context_create(&one, &v.ctx));
  MUST(!attend_viewer_create(v.ctx, &o, &v.session));
  MUST(!attend_viewer_add(v.session, &source));
  return &v;
}

/* The run of "1 2 3 4", run again where it was dropped. */
static void run_id(viewer *v, char id[20]) {
  static const char question[] = "{\"text\": \"1 2 3 4\"}";
  view_reply reply;
  view_answer(v, "run", question, sizeof question - 1, NULL, NULL, &reply);
  MUST(reply.status == 200);
  attend_json *root;
  MUST(!attend_json_parse(v->ctx, "a run", reply.bytes, reply.length, &root));
  snprintf(id, 20, "%s", attend_json_string(attend_json_get(root, "run"), NULL));
  attend_json_free(root);
  free(reply.bytes);
}

static char *with_run(const char *body, size_t length, const char *id, size_t *to_length) {
  char *to = malloc(length * 6 + 1), *at = to;
  MUST(to);
  for (size_t i = 0; i < length; i++) {
    if (length - i >= 3 && !memcmp(body + i, "RUN", 3)) {
      at = stpcpy(at, id);
      i += 2;
    } else {
      *at++ = body[i];
    }
  }
  *to_length = (size_t)(at - to);
  return to;
}

static void check_json(viewer *v, const char *text, size_t length, bool failed) {
  attend_json *root;
  MUST(!attend_json_parse(v->ctx, "an answer", text, length, &root));
  const char *why = attend_json_string(attend_json_get(root, "error"), NULL);
  MUST(failed == (why != NULL) && (!why || *why));
  attend_json_free(root);
}

static void check(viewer *v, const view_reply *r) {
  const unsigned char *bytes = r->bytes;
  MUST(bytes && r->length && r->status >= 200 && r->status < 600);
  if (strcmp(r->type, "application/octet-stream")) {
    check_json(v, r->bytes, r->length, r->status != 200);
    return;
  }
  size_t header = 0;
  for (int i = 0; i < 4; i++) header |= (size_t)bytes[i] << (8 * i);
  MUST(r->status == 200 && (4 + header) % 8 == 0 && 4 + header <= r->length);
  check_json(v, (const char *)bytes + 4, header, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  viewer *v = open_viewer();
  char id[20];
  size_t n;
  view_reply reply = {0};
  if (!length) return 0;
  run_id(v, id);
  char *body = with_run((const char *)bytes + 1, length - 1, id, &n);
  view_answer(v, names[bytes[0] % NAMES], body, n, NULL, NULL, &reply);
  check(v, &reply);
  free(reply.bytes);
  free(body);
  return 0;
}
