/* Which form of attention has which role: the encoder's self-attention, the
 * decoder's, cross-attention.
 *
 * Place: model/ - between the configuration, which names one form and where it
 * is, and the plans of a session or a learner, which are one a role.
 */
#include <stdio.h>
#include <string.h>

#include "model/transformer.h"

static const char gaps[] = ", ";

attend_status attend_roles_parse(attend_context *ctx, const char *text,
                                 unsigned *roles) {
  *roles = 0;
  for (const char *at = text + strspn(text, gaps); *at;
       at += strspn(at, gaps)) {
    size_t n = strcspn(at, gaps);
    unsigned found = 0;
    for (int i = 0; i < ATTEND_ROLES; i++) {
      const char *name = attend_role_name((attend_role)i);
      if (strlen(name) == n && !strncmp(name, at, n)) found = 1u << i;
    }
    ATTEND_CHECK(ctx, found,
                 "attention has the roles encoder, decoder and cross, not "
                 "\"%.*s\"",
                 n < 40 ? (int)n : 40, at);
    *roles |= found;
    at += n;
  }
  ATTEND_CHECK(ctx, *roles,
               "name a role of attention: encoder, decoder or cross");
  return ATTEND_OK;
}

const char *attend_roles_text(unsigned roles, char text[ATTEND_ROLES_TEXT]) {
  size_t n = 0;
  *text = 0;
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (roles & 1u << i)
      n += (size_t)snprintf(text + n, ATTEND_ROLES_TEXT - n, "%s%s",
                            n ? "," : "", attend_role_name((attend_role)i));
  return text;
}

static unsigned roles_of(attend_parts parts) {
  return (parts & ATTEND_ENCODER ? ATTEND_IN_ENCODER : 0u) |
         (parts & ATTEND_DECODER ? ATTEND_IN_DECODER : 0u) |
         (parts == ATTEND_BOTH ? ATTEND_IN_CROSS : 0u);
}

attend_status attend_config_forms(attend_context *ctx, const attend_config *c,
                                  const attend_form *form, unsigned roles,
                                  attend_form forms[ATTEND_ROLES]) {
  char text[ATTEND_ROLES_TEXT];
  ATTEND_CHECK(ctx, form || !roles,
               "roles of attention say where a form is: name one");
  ATTEND_CHECK(ctx, !roles || roles & roles_of(c->parts),
               "a %s has no attention of the role %s", c->family,
               attend_roles_text(roles, text));
  for (int i = 0; i < ATTEND_ROLES; i++) {
    bool asked = form && (!roles || roles & 1u << i);
    bool learnt = !c->roles || c->roles & 1u << i;
    forms[i] = asked ? *form : learnt ? c->form : (attend_form){0};
  }
  return ATTEND_OK;
}

int model_attention(const attend_model *m, attend_role role, int layer,
                    attend_desc *desc) {
  const attend_config *c = &m->config;
  const bool encoder = role == ATTEND_ENCODER_SELF;
  const attend_stack *s = encoder ? &c->encoder : &c->decoder;
  const stack *side = encoder ? &m->encoder : &m->decoder;
  if (!(roles_of(c->parts) & 1u << role)) return 0;
  *desc = (attend_desc){.form = m->forms[role],
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .dim = s->dim,
                        .dim_v = s->dim_v,
                        .scale = c->score_factor,
                        .soft_cap = c->score_cap};
  if (role == ATTEND_DECODER_SELF) {
    desc->mask.causal = ATTEND_CAUSAL;
    if (layer_kind(c, side, layer) == SLIDING) desc->mask.window = c->window;
  }
  if (role != ATTEND_CROSS && side->relative.t.data)
    desc->bias = (attend_bias){.kind = ATTEND_BUCKETS,
                               .table = side->relative.t.data,
                               .buckets = c->buckets,
                               .max_distance = c->max_distance,
                               .one_sided = !encoder};
  return 1;
}

int attend_model_attention(const attend_model *m, attend_role role, int layer,
                           attend_desc *desc) {
  const stack *s = role == ATTEND_ENCODER_SELF ? &m->encoder : &m->decoder;
  int found = model_attention(m, role, layer, desc);
  if (found && desc->bias.table) desc->bias.table = s->relative_host;
  return found;
}
