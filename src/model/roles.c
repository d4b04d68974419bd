/* Which form of attention has which role: the encoder's self-attention, the
 * decoder's, cross-attention.
 *
 * Place: model/ - between the configuration, which names one form and where it
 * is, and the plans of a session or a learner, which are one a role.
 */
#include "model/role.h"

#include <stdio.h>
#include <string.h>

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

int config_attention(const attend_config *c, const attend_form *forms,
                     const float *relative, attend_role role,
                     attend_desc *desc) {
  attend_parts of =
      role == ATTEND_ENCODER_SELF ? ATTEND_ENCODER : ATTEND_DECODER;
  const attend_stack *s = of == ATTEND_ENCODER ? &c->encoder : &c->decoder;
  if (!(c->parts & of) || (role == ATTEND_CROSS && c->parts != ATTEND_BOTH))
    return 0;
  *desc = (attend_desc){.form = forms[role],
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .dim = s->dim,
                        .dim_v = s->dim_v,
                        .scale = c->score_factor,
                        .soft_cap = c->score_cap};
  if (role == ATTEND_DECODER_SELF) {
    desc->mask.causal = ATTEND_CAUSAL;
    desc->mask.window = c->window;
  }
  if (role != ATTEND_CROSS && relative)
    desc->bias = (attend_bias){.kind = ATTEND_BUCKETS,
                               .table = relative,
                               .buckets = c->buckets,
                               .max_distance = c->max_distance,
                               .one_sided = role == ATTEND_DECODER_SELF};
  return 1;
}
