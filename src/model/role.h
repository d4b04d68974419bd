/* What attention a configuration asks for, and how wide its rows lie.
 *
 * Place: model/ - shared by what runs models and what trains them.
 */
#ifndef MODEL_ROLE_H
#define MODEL_ROLE_H

#include "attend/model.h"
#include "base/base.h"

/* Floats from one row to the next: whole lanes. */
static inline int padded(int n) { return (int)round_up((size_t)n, 16); }

/* The problem that a role's attention solves, lengths left 0. forms: of every
 * role (attend_config_forms). relative: the buckets' table, or NULL. 0: there is
 * no such attention. */
int config_attention(const attend_config *c, const attend_form *forms,
                     const float *relative, attend_role role,
                     attend_desc *desc);

#endif
