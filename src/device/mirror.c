/* Host copies of device tensors that callers read and write: a trainer's parameters and
 * gradients, an optimizer's moments.
 */
#include "device/device.h"

attend_status mirror_make(attend_context *ctx, size_t count, const char *what, mirror *m) {
  size_t bytes = size_times(count, sizeof(float));
  m->count = count;
  ATTEND_TRY(device_take(ctx, bytes, what, &m->device));
  return ctx->device->host ? ATTEND_OK : take_zeroed(ctx, bytes, what, &m->host);
}

void mirror_free(const attend_context *ctx, mirror *m) {
  device_give(ctx, m->device);
  give(ctx, m->host);
}

float *mirror_out(attend_context *ctx, mirror *m) {
  if (!m->host) return m->device;
  if (!m->fresh) ctx->device->read(ctx, m->host, m->device, m->count * sizeof(float));
  m->fresh = true;
  return m->host;
}

void mirror_back(attend_context *ctx, mirror *m) {
  if (m->host && m->fresh) ctx->device->write(ctx, m->device, m->host, m->count * sizeof(float));
}
