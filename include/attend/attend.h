/* attend/attend.h - everything, in the order in which data flows. */
#ifndef ATTEND_ATTEND_H
#define ATTEND_ATTEND_H

#include "attend/base.h"
#include "attend/json.h"
#include "attend/file.h"
#include "attend/lines.h"
#include "attend/text.h"
#include "attend/text_train.h"
#include "attend/attention.h"
#include "attend/state.h"
#include "attend/observe.h"
#include "attend/centrality.h"
#include "attend/definition.h"
#include "attend/predict.h"
#include "attend/problem.h"
#include "attend/machine.h"
#include "attend/layers.h"
#include "attend/hooks.h"
#include "attend/trace.h"
#include "attend/find.h"
#include "attend/model.h"
#include "attend/lens.h"
#include "attend/generate.h"
#include "attend/score.h"
#include "attend/train.h"
#include "attend/data.h"
#include "attend/training.h"
#include "attend/plot.h"
#include "attend/design.h"
#include "attend/study.h"

#endif
