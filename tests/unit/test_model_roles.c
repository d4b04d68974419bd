/* Forms of attention by role: named and read back; what is not of the role keeps
 * the bits of softmax; asked for and learnt with, in models, trainers, lenses;
 * gradients through mixed forms are what differences say; decoding is reading. */
#include "attend/lens.h"
#include "attend/problem.h"
#include "unequal_sides.h"

static attend_form form_of(const char *text) {
  attend_form form = {0};
  OK(context(), attend_form_parse(context(), text, &form));
  return form;
}

/* ---- names ----------------------------------------------------------------------- */

static void check_names(const char *text, unsigned want, const char *back) {
  unsigned roles = 99;
  char written[ATTEND_ROLES_TEXT];
  OK(context(), attend_roles_parse(context(), text, &roles));
  CHECK_EQ(roles, want);
  CHECK(!strcmp(attend_roles_text(roles, written), back));
}

TEST(roles_have_names) {
  unsigned roles;
  check_names("encoder", ATTEND_IN_ENCODER, "encoder");
  check_names("cross, encoder", ATTEND_IN_ENCODER | ATTEND_IN_CROSS, "encoder,cross");
  check_names(" cross decoder encoder ", 7, "encoder,decoder,cross");
  static const char *const wrong[] = {"encoders", "enc", "all", "", " , ", "cross;decoder"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_EQ(attend_roles_parse(context(), wrong[i], &roles), ATTEND_INVALID);
    CHECK_SAYS(attend_message(context()), "encoder, decoder");
  }
}

static attend_config write_and_read_roles(const char *family, const char *attention,
                                          unsigned roles) {
  attend_architecture a = sides(family, true);
  a.attention = attention;
  a.roles = roles;
  return write_and_read(&a);
}

TEST(roles_go_through_config_json) {
  attend_config c = write_and_read_roles("bart", "favor(m=8)", ATTEND_IN_ENCODER);
  CHECK(c.roles == ATTEND_IN_ENCODER && c.form.kind == ATTEND_FAVOR);
  CHECK_EQ(write_and_read_roles("t5", "elu", 0).roles, 0);
  attend_architecture a = sides("bart", true);
  a.roles = ATTEND_IN_CROSS;
  refuse_write(a, "say where a form is: name one");
  a = (attend_architecture){ATTEND_INIT(attend_architecture), .family = "gpt2", .vocab = 50,
                            .attention = "elu", .roles = ATTEND_IN_CROSS};
  refuse_write(a, "a gpt2 has no attention of the role cross");
}

/* ---- what runs -------------------------------------------------------------------- */

/* What a model made of a text, down to the bits. */
typedef struct {
  float *encoder, *first, *logits; /* encoder's last, decoder's first mix */
  size_t n[3];
} run_outputs;

typedef struct {
  run_outputs *d;
  int layers;
} watcher;

static float *copy_sight(const attend_hooked *s, size_t *n) {
  *n = (size_t)s->shape[1] * (size_t)s->shape[2] * (size_t)s->shape[3];
  float *to = zeroed_block(*n, sizeof *to), *at = to;
  for (int h = 0; h < s->shape[1]; h++)
    for (int i = 0; i < s->shape[2]; i++, at += s->shape[3])
      memcpy(at, (const float *)s->view.data + h * s->view.stride[1] + i * s->view.stride[2],
             (size_t)s->shape[3] * sizeof *at);
  return to;
}

static void see(const attend_hooked *s, void *user) {
  watcher *w = user;
  if (s->point == ATTEND_AT_RESIDUAL && s->role == ATTEND_ENCODER_SELF && s->layer == w->layers)
    w->d->encoder = copy_sight(s, &w->d->n[0]);
  if (s->point == ATTEND_AT_HEAD_OUTPUT && s->role == ATTEND_DECODER_SELF && s->layer == 0)
    w->d->first = copy_sight(s, &w->d->n[1]);
}

enum { SOURCE = 9, ANSWER = 6 };

static run_outputs run_it(const subject *s, const attend_model *model) {
  run_outputs d = {0};
  watcher w = {&d, s->config->encoder.layers};
  subject mine = *s;
  mine.model = (attend_model *)model;
  attend_session *run = open_run(&mine, 1, 0);
  attend_hook hook = {ATTEND_INIT(attend_hook),
                      .points = ATTEND_AT_RESIDUAL | ATTEND_AT_HEAD_OUTPUT, .read = see,
                      .user = &w};
  int32_t *ids = random_ids(s->config, 5, ANSWER);
  attend_session_set_hooks(run, 1, &hook);
  read_source(run, s, 1, SOURCE);
  OK(s->ctx, attend_session_extend(run, 1, ANSWER, ids, NULL));
  d.n[2] = (size_t)(ANSWER * s->config->vocab);
  d.logits = zeroed_block(d.n[2], sizeof *d.logits);
  OK(s->ctx, attend_session_logits(run, ANSWER, NULL, d.logits));
  attend_session_free(run);
  free(ids);
  return d;
}

static void free_outputs(run_outputs *d) {
  free(d->encoder);
  free(d->first);
  free(d->logits);
}

/* Of encoder, decoder's first layer, logits: which have the same bits. */
static unsigned same_parts(const run_outputs *a, const run_outputs *b) {
  return (same_bits(a->encoder, b->encoder, a->n[0]) ? 1u : 0u) |
         (same_bits(a->first, b->first, a->n[1]) ? 2u : 0u) |
         (same_bits(a->logits, b->logits, a->n[2]) ? 4u : 0u);
}

static unsigned like_softmax(const subject *s, const run_outputs *plain, const attend_form *form,
                             unsigned roles) {
  attend_model *model;
  OK(s->ctx, attend_model_with_roles(s->model, form, roles, &model));
  run_outputs d = run_it(s, model);
  unsigned same = same_parts(plain, &d);
  free_outputs(&d);
  attend_model_free(model);
  return same;
}

TEST(what_is_not_of_the_role_keeps_its_bits) {
  static const char *const forms[] = {"elu", "favor(m=16)", "argmax"};
  subject s = open_path(context(), model_path("bart", NULL), NULL);
  run_outputs plain = run_it(&s, s.model);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    attend_form form = form_of(forms[i]);
    CHECK_EQ(like_softmax(&s, &plain, &form, ATTEND_IN_ENCODER), 2);
    CHECK_EQ(like_softmax(&s, &plain, &form, ATTEND_IN_DECODER), 1);
    CHECK_EQ(like_softmax(&s, &plain, &form, ATTEND_IN_CROSS), 3);
    CHECK_EQ(like_softmax(&s, &plain, &form, 0), 0);
    CHECK_EQ(like_softmax(&s, &plain, &form, 7), 0);
  }
  free_outputs(&plain);
  close_files(&s);
}

TEST(all_roles_are_no_roles) {
  attend_form form = form_of("elu");
  attend_model_options every = {ATTEND_INIT(attend_model_options), .form = &form};
  attend_model_options named = {ATTEND_INIT(attend_model_options), .form = &form, .roles = 7};
  subject a = open_path(context(), model_path("bart", NULL), &every);
  subject b = open_path(context(), model_path("bart", NULL), &named);
  run_outputs x = run_it(&a, a.model), y = run_it(&b, b.model);
  CHECK_EQ(same_parts(&x, &y), 7);
  free_outputs(&x);
  free_outputs(&y);
  close_files(&a);
  close_files(&b);
}

/* ---- asked for, and learnt with ---------------------------------------------------- */

static void check_kinds(const attend_form *f, int encoder, int decoder, int cross) {
  CHECK_EQ(f[ATTEND_ENCODER_SELF].kind, encoder);
  CHECK_EQ(f[ATTEND_DECODER_SELF].kind, decoder);
  CHECK_EQ(f[ATTEND_CROSS].kind, cross);
}

TEST(asked_for_goes_before_learnt_with) {
  enum { S = ATTEND_SOFTMAX, F = ATTEND_FAVOR, E = ATTEND_ELU };
  attend_form elu = form_of("elu"), forms[ATTEND_ROLES];
  attend_config c = write_and_read_roles("bart", "favor(m=8)", ATTEND_IN_ENCODER | ATTEND_IN_CROSS);
#define FORMS(form, roles) OK(context(), attend_config_forms(context(), &c, form, roles, forms))
  FORMS(NULL, 0);
  check_kinds(forms, F, S, F);
  FORMS(&elu, 0);
  check_kinds(forms, E, E, E);
  FORMS(&elu, ATTEND_IN_DECODER);
  check_kinds(forms, F, E, F);
  FORMS(&elu, ATTEND_IN_CROSS);
  check_kinds(forms, F, S, E);
  c.roles = 0;
  FORMS(&elu, ATTEND_IN_ENCODER);
  check_kinds(forms, E, F, F);
#undef FORMS
  CHECK_EQ(attend_config_forms(context(), &c, NULL, 1, forms), ATTEND_INVALID);
}

/* A model that learnt with a form in some roles runs it there by itself, and so
 * does a trainer. */
TEST(roles_in_config_json_are_obeyed) {
  attend_form elu = form_of("elu");
  attend_architecture a = sides("bart", false);
  attend_checkpoint *files;
  attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .form = &elu,
                              .roles = ATTEND_IN_ENCODER};
  attend_trainer *l = begin(&a, &o, &files);
  copy_task b;
  grow_weights(l);
  make_copy_task(attend_trainer_config(l), 5, &b);
  double asked = loss_of(l, &b);
  OK(context(), attend_trainer_save(l, in_folder("model.safetensors"), ATTEND_STORED_F32));
  end(l, files);
  subject plain = open_path(context(), models_folder(), NULL);
  attend_model *mixed;
  OK(context(), attend_model_with_roles(plain.model, &elu, ATTEND_IN_ENCODER, &mixed));
  a.attention = "elu";
  a.roles = ATTEND_IN_ENCODER;
  write_and_read(&a);
  subject own = open_path(context(), models_folder(), NULL);
  run_outputs x = run_it(&plain, mixed), y = run_it(&own, own.model),
              z = run_it(&plain, plain.model);
  CHECK_EQ(same_parts(&x, &y), 7);
  CHECK_EQ(same_parts(&x, &z), 2);
  CHECK_EQ(attend_model_role_form(own.model, ATTEND_ENCODER_SELF)->kind, ATTEND_ELU);
  CHECK_EQ(attend_model_role_form(own.model, ATTEND_CROSS)->kind, ATTEND_SOFTMAX);
  OK(context(), attend_trainer_create(own.files, NULL, &l));
  CHECK(loss_of(l, &b) == asked);
  attend_trainer_free(l);
  OK(context(), attend_trainer_create(plain.files, NULL, &l));
  CHECK(loss_of(l, &b) != asked);
  attend_trainer_free(l);
  free_outputs(&x);
  free_outputs(&y);
  free_outputs(&z);
  attend_model_free(mixed);
  close_files(&own);
  close_files(&plain);
}

/* ---- gradients, decoding ------------------------------------------------------------- */

static const struct {
  const char *family, *form;
  unsigned roles;
} mixes[] = {{"bart", "elu", ATTEND_IN_ENCODER | ATTEND_IN_CROSS},
             {"bart", "favor(m=12)", ATTEND_IN_ENCODER},
             {"bart", "elu", ATTEND_IN_DECODER},
             {"t5", "elu", ATTEND_IN_CROSS}};

TEST(gradients_of_mixed_forms_are_what_differences_say) {
  for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
    attend_architecture a = sides(mixes[i].family, i % 2);
    attend_form form = form_of(mixes[i].form);
    attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .form = &form,
                                .roles = mixes[i].roles};
    attend_checkpoint *files;
    attend_trainer *l = begin(&a, &o, &files);
    CHECK(check_gradients(l) > 20);
    end(l, files);
  }
}

TEST(mixed_forms_decode_as_they_read) {
  for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
    attend_form form = form_of(mixes[i].form);
    attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &form,
                              .roles = mixes[i].roles};
    subject s = open_path(context(), model_path(mixes[i].family, NULL), &o);
    copy_task b;
    make_copy_task(s.config, 3, &b);
    float *alone = logits_alone(&s, &b), *at_once = logits_at_once(&s, &b);
    CHECK(same_bits(alone, at_once, (size_t)(TEXTS * WRITTEN * s.config->vocab)));
    free(alone);
    free(at_once);
    close_files(&s);
  }
}

/* ---- lenses ------------------------------------------------------------------------------ */

static float *seen_weights(const subject *s, attend_role role, int n, attend_lens_shape *shape) {
  attend_trace_options what = {
      ATTEND_INIT(attend_trace_options),
      .points = ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE | ATTEND_AT_DENOMINATOR};
  attend_trace *trace;
  attend_lens *lens;
  OK(s->ctx, attend_trace_create(s->ctx, &what, &trace));
  attend_hook hook = attend_trace_hook(trace);
  attend_session *run = open_run(s, 1, 0);
  int32_t *ids = random_ids(s->config, 5, ANSWER);
  attend_session_set_hooks(run, 1, &hook);
  read_source(run, s, 1, SOURCE);
  OK(s->ctx, attend_session_extend(run, 1, ANSWER, ids, NULL));
  OK(s->ctx, attend_lens_create(s->model, trace, NULL, 0, &lens));
  CHECK(attend_lens_role(lens, role, shape));
  float *weights = zeroed_block((size_t)(n * shape->keys), sizeof *weights);
  OK(s->ctx, attend_lens_block(lens, (attend_head_id){role, 0, 1}, 0, n, 0, shape->keys, weights));
  attend_lens_free(lens);
  attend_trace_free(trace);
  attend_session_free(run);
  free(ids);
  return weights;
}

/* Weights of fourier features may be negative, those of softmax beside them may
 * not, and are the bits that they are without. */
TEST(a_lens_shows_the_form_of_the_role) {
  attend_form form = form_of("fourier(m=32)");
  attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &form,
                            .roles = ATTEND_IN_ENCODER};
  subject plain = open_path(context(), model_path("bart", NULL), NULL);
  subject mixed = open_path(context(), model_path("bart", NULL), &o);
  attend_lens_shape shape;
  float *a = seen_weights(&plain, ATTEND_DECODER_SELF, ANSWER, &shape);
  float *b = seen_weights(&mixed, ATTEND_DECODER_SELF, ANSWER, &shape);
  CHECK(!shape.is_signed);
  CHECK(same_bits(a, b, (size_t)(ANSWER * shape.keys)));
  free(a);
  free(b);
  a = seen_weights(&plain, ATTEND_ENCODER_SELF, SOURCE, &shape);
  CHECK(!shape.is_signed);
  b = seen_weights(&mixed, ATTEND_ENCODER_SELF, SOURCE, &shape);
  CHECK(shape.is_signed);
  CHECK(!same_bits(a, b, (size_t)(SOURCE * shape.keys)));
  free(a);
  free(b);
  close_files(&plain);
  close_files(&mixed);
}
