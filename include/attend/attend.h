/* attend/attend.h - the core: contexts, and attention on tensors.
 *
 * Everything else is included by name:
 *
 *   problem.h                    test and measure attention
 *   layers.h                     the other layers of a transformer
 *   model.h, hooks.h, text.h     models, their activations, tokenizers
 *   generate.h, lens.h           generating text; attention weights of a recorded run
 *   train.h, text_train.h        training models and tokenizers
 *   embed.h, evaluate.h, fill.h, summarize.h, extract.h, compare.h      tasks
 *   intervene.h, attribute.h     changing what a model computes; where a prediction comes from
 *   file.h, lines.h, json.h      files
 *
 * and of libattend-lab:
 *
 *   verify.h, bench.h, score.h   is a result right; what it costs; scores of texts
 *   study.h, design.h, plot.h    experiments, transformers designed by hand, plots
 *   view.h                       sessions of `attend view`
 *   pull.h                       fetching models from a Hugging Face hub or npm
 */
#ifndef ATTEND_ATTEND_H
#define ATTEND_ATTEND_H

#include "attend/attention.h"
#include "attend/base.h"

#endif
