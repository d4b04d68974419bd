/* A small untrained model for a study, drawn from its seed.
 *
 * A configuration is read from a folder: there is one for a moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "studies/study.h"

static attend_status fresh(study_run *r, const char *folder, const attend_architecture *a,
                           study_model *m) {
  const char *config = study_format(r, "%s/config.json", folder);
  if (!config) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
  attend_status status = attend_config_write(r->ctx, config, a);
  if (!status) status = attend_checkpoint_init_pytorch(r->ctx, folder, r->seed, &m->files);
  unlink(config);
  return status;
}

attend_status study_untrained(study_run *r, const attend_architecture *a, study_model *m) {
  const char *where = getenv("TMPDIR");
  const char *pattern = study_format(r, "%s/attend-study-XXXXXX", where ? where : "/tmp");
  char *folder = NULL;
  *m = (study_model){0};
  if (!pattern) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
  TAKE(r, &folder, strlen(pattern) + 1);
  strcpy(folder, pattern);
  if (!mkdtemp(folder))
    return study_fail(r, ATTEND_IO, "the folder %s cannot be made: %s", folder, strerror(errno));
  attend_status status = fresh(r, folder, a, m);
  rmdir(folder);
  if (!status) status = attend_model_create(m->files, NULL, &m->model);
  if (status) study_model_free(m);
  return status;
}

void study_model_free(study_model *m) {
  if (m->model) attend_model_free(m->model);
  if (m->files) attend_checkpoint_close(m->files);
  *m = (study_model){0};
}
