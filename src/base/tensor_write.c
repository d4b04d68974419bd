/* Writing safetensors. */
#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "base/files.h"

typedef struct {
  attend_context *ctx;
  const char *path;
  size_t count;
  const attend_tensor *tensors;
  attend_status (*fill)(size_t i, void *to, void *user);
  void *user;
  size_t n_notes;
  const attend_note *notes;
  attend_digest *digest; /* output: of the file; or NULL */
} writing;

static int64_t elements(const attend_tensor *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count *= t->shape[i];
  return count;
}

static size_t tensor_bytes(const attend_tensor *t) {
  return (size_t)elements(t) * attend_stored_size(t->stored);
}

static void put_entry(attend_json_writer *w, const attend_tensor *t, size_t at) {
  attend_json_member(w, t->name);
  attend_json_open(w, '{');
  attend_json_member(w, "dtype");
  attend_json_put_string(w, attend_stored_name(t->stored));
  attend_json_member(w, "shape");
  attend_json_open(w, '[');
  for (int i = 0; i < t->rank; i++) attend_json_put_integer(w, t->shape[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "data_offsets");
  attend_json_open(w, '[');
  attend_json_put_integer(w, (int64_t)at);
  attend_json_put_integer(w, (int64_t)(at + tensor_bytes(t)));
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

/* What Hugging Face's readers want to see. */
static void put_notes(const writing *of, attend_json_writer *w) {
  attend_json_member(w, "__metadata__");
  attend_json_open(w, '{');
  attend_json_member(w, "format");
  attend_json_put_string(w, "pt");
  for (size_t i = 0; i < of->n_notes; i++) {
    attend_json_member(w, of->notes[i].name);
    attend_json_put_string(w, of->notes[i].text);
  }
  attend_json_close(w, '}');
}

/* The header, filled up with spaces so that the data is aligned. */
static attend_status put_header(const writing *w, attend_draft *draft) {
  attend_json_writer json = attend_json_writer_text(w->ctx);
  size_t at = 0;
  attend_json_open(&json, '{');
  put_notes(w, &json);
  for (size_t i = 0; i < w->count; i++) {
    put_entry(&json, &w->tensors[i], at);
    at += tensor_bytes(&w->tensors[i]);
  }
  attend_json_close(&json, '}');
  attend_status status = attend_json_finish(&json);
  if (!status) {
    static const char spaces[8] = "        ";
    size_t padded = round_up(json.length, 8);
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    status = attend_draft_put(draft, length, 8);
    if (!status) status = attend_draft_put(draft, json.text, json.length);
    if (!status) status = attend_draft_put(draft, spaces, padded - json.length);
  }
  attend_json_writer_free(&json);
  return status;
}

static size_t largest_made(const writing *w) {
  size_t most = 0;
  for (size_t i = 0; i < w->count; i++)
    if (!w->tensors[i].data && tensor_bytes(&w->tensors[i]) > most)
      most = tensor_bytes(&w->tensors[i]);
  return most;
}

static attend_status put_tensors(const writing *w, attend_draft *draft, void *made) {
  for (size_t i = 0; i < w->count; i++) {
    size_t bytes = tensor_bytes(&w->tensors[i]);
    const void *data = w->tensors[i].data;
    if (!data && bytes) ATTEND_TRY(w->fill(i, made, w->user));
    ATTEND_TRY(attend_draft_put(draft, data ? data : made, bytes));
  }
  return ATTEND_OK;
}

static attend_status check(const writing *w) {
  for (size_t i = 0; i < w->count; i++) {
    const attend_tensor *t = &w->tensors[i];
    ATTEND_CHECK(
        w->ctx,
        t->name && attend_stored_name(t->stored) && t->rank >= 0 && t->rank <= ATTEND_TENSOR_RANK,
        "tensor %zu of \"%.200s\" has no name, or a kind or rank that "
        "the format does not have",
        i, w->path);
    ATTEND_CHECK(w->ctx, t->data || w->fill || !tensor_bytes(t),
                 "tensor %s of \"%.200s\" has no data", t->name, w->path);
  }
  return ATTEND_OK;
}

static attend_status put_all(attend_draft *draft, void *user) {
  const writing *w = user;
  void *made;
  ATTEND_TRY(put_header(w, draft));
  ATTEND_TRY(take(w->ctx, largest_made(w), "a tensor to be written", &made));
  attend_status status = put_tensors(w, draft, made);
  give(w->ctx, made);
  return status;
}

static attend_status write_file(const writing *w) {
  ATTEND_TRY(check(w));
  return draft_write(w->ctx, w->path, put_all, (void *)w, w->digest);
}

attend_status attend_tensor_file_write(attend_context *ctx, const char *path, size_t count,
                                       const attend_tensor *tensors) {
  writing w = {.ctx = ctx, .path = path, .count = count, .tensors = tensors};
  return write_file(&w);
}

attend_status tensor_file_make(attend_context *ctx, const char *path, size_t count,
                               const attend_tensor *tensors,
                               attend_status (*fill)(size_t i, void *to, void *user), void *user,
                               attend_digest *digest) {
  writing w = {.ctx = ctx,
               .path = path,
               .count = count,
               .tensors = tensors,
               .fill = fill,
               .user = user,
               .digest = digest};
  return write_file(&w);
}

attend_status attend_tensor_file_make(attend_context *ctx, const char *path, size_t count,
                                      const attend_tensor *tensors,
                                      attend_status (*fill)(size_t i, void *to, void *user),
                                      void *user) {
  return tensor_file_make(ctx, path, count, tensors, fill, user, NULL);
}

attend_status attend_tensor_file_write_noted(attend_context *ctx, const char *path, size_t count,
                                             const attend_tensor *tensors, size_t n_notes,
                                             const attend_note *notes) {
  writing w = {.ctx = ctx,
               .path = path,
               .count = count,
               .tensors = tensors,
               .n_notes = n_notes,
               .notes = notes};
  return write_file(&w);
}
