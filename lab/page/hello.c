/* States, and hello: the first answer of a page, with the gallery (the course documents'
 * examples and their questions).
 */
#include <stdio.h>
#include <string.h>

#include "page/page.h"

int viewer_model(const viewer *v, const char *id) {
  for (int i = 0; attend_viewer_get_model(v->session, i); i++) {
    char own[12];
    snprintf(own, sizeof own, "%d", i);
    if (!strcmp(own, id)) return i;
  }
  return -1;
}

attend_training_run *viewer_training(const viewer *v, int model) {
  return model ? NULL : v->training;
}

bool viewer_run(viewer *v, const attend_viewer_case *c, int new_tokens,
                const attend_viewer_run **run, char error[VIEW_ERROR]) {
  attend_viewer_generate_options g = {ATTEND_INIT(attend_viewer_generate_options),
                                      .new_tokens = new_tokens};
  attend_status status = new_tokens ? attend_viewer_generate(v->session, c, &g, v->listener, run)
                                    : attend_viewer_run_case(v->session, c, v->listener, run);
  if (status) snprintf(error, VIEW_ERROR, "%s", attend_message(v->ctx));
  return !status;
}

/* ---- states --------------------------------------------------------------------------------- */

static const char *const views[] = {"model",   "head",     "neuron",     "matrix",    "flow",
                                    "compare", "generate", "embeddings", "intervene", "attribute"};

bool view_exists(const char *name) {
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (!strcmp(name, views[i])) return true;
  return false;
}

/* What a view shows of tensors; a view that is not here needs a model. */
static const char *tensors_lack(const viewer *v, const attend_viewer_run *run, const char *view) {
  bool vectors = false, self = false;
  for (int i = 0; i < ATTEND_ROLES; i++) {
    vectors |= run->has_role[i] && run->shape[i].dim && run->shape[i].dim_v;
    self |= run->has_role[i] && i != ATTEND_CROSS;
  }
  if (!strcmp(view, "model") || !strcmp(view, "head") || !strcmp(view, "matrix")) return NULL;
  if (!strcmp(view, "neuron"))
    return vectors ? NULL
                   : "it shows queries, keys and values, and these are attention weights alone";
  if (!strcmp(view, "flow"))
    return self ? NULL
                : "it follows tokens through self-attention, and this is cross-attention alone";
  if (!strcmp(view, "compare"))
    return vectors || attend_viewer_get_model(v->session, 1)
               ? NULL
               : "it needs a second file or model, or queries, keys and values";
  return "it runs a model, and these are tensors";
}

const char *view_lacks(const viewer *v, int model, const char *view) {
  const attend_viewer_model *m = attend_viewer_get_model(v->session, model);
  return m && m->run ? tensors_lack(v, m->run, view) : NULL;
}

bool view_applies(const viewer *v, const view_state *s, char error[VIEW_ERROR]) {
  const char *why = view_lacks(v, s->c.model, s->view);
  if (why)
    snprintf(error, VIEW_ERROR, "the view %s does not apply to %s: %s", s->view,
             attend_viewer_get_model(v->session, s->c.model)->name, why);
  return !why;
}

void write_lacks(json_writer *w, const viewer *v, int model) {
  json_member(w, "without");
  json_open(w, '{');
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    const char *why = view_lacks(v, model, views[i]);
    if (why) json_member_string(w, views[i], why);
  }
  json_close(w, '}');
}

view_state view_defaults(void) {
  return (view_state){.view = "model",
                      .c = {ATTEND_INIT(attend_viewer_case), .attention = "softmax", .step = -1},
                      .other = {ATTEND_INIT(attend_viewer_case), .step = -1},
                      .role = "",
                      .layer = -1,
                      .head = -1,
                      .token = -1,
                      .key = -1,
                      .other_layer = -1,
                      .other_head = -1,
                      .other_token = -1,
                      .filter = "all",
                      .pool = "max",
                      .way = "rollout",
                      .form = "",
                      .sort = "",
                      .target = -1,
                      .against = -1,
                      .method = "gradient",
                      .metric = "logit",
                      .change = "ablate",
                      .point = "head_output"};
}

/* ---- hello -------------------------------------------------------------------------------------- */

/* An example is for one kind of model; it opens on the first model of that kind, or on
 * the first of all. */
typedef struct {
  const char *id, *title;
  attend_parts kind;
  const char *view, *text, *second;
  const char *other_text, *other_second; /* compared with; NULL: nothing */
  bool untrained;                        /* the other has untrained weights */
  attend_parts beside;                   /* compared with a model of this kind; 0: with none */
  /* The head that it opens at: of the largest weight from a word on another, of the largest score
   * of a pattern, or of the largest distance to the other text; measured when it is opened. */
  const char *query, *key, *pattern;
  bool distance;
  const char *questions[4];
} example;

static const example examples[] = {
    {.id = "dog-ran",
     .title = "The dog ran",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "The dog ran",
     .query = "ran",
     .key = "dog",
     .questions = {"Which earlier word does \"ran\" look at, and in which heads? Would you need "
                   "that word to go on?",
                   "Open neurons: which numbers of query and key make their product large?"}},
    {.id = "dog-car",
     .title = "The dog sitting in the car",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "The dog sitting in the car",
     .query = "car",
     .key = "dog",
     .questions =
         {"Does the last word look more at the subject, \"dog\", or at the words around it?",
          "What is alike in \"The dog ran\", and what is different?"}},
    {.id = "salazar",
     .title = "A name, and who is meant later",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "Jaime Salazar is running for election. Despite his party affiliation, Mr.",
     .query = "Mr.",
     .key = "Salazar",
     .questions = {"After \"Mr.\" a name must follow: which heads look back at it?",
                   "How does attention change from the first layers to the last? Watch how much "
                   "falls on the first token."}},
    {.id = "ablate-name",
     .title = "Which heads find the name?",
     .kind = ATTEND_DECODER,
     .view = "intervene",
     .text = "When Mary and John went to the store, John gave a drink to",
     .questions = {"Sweep: which heads, switched off, take most from the likeliest token?",
                   "Switch the strongest one off: does another take over? Open Head to see what "
                   "the others attend to then.",
                   "Patch the stream from the same sentence with the names exchanged: at which "
                   "token and layer does the answer follow?"}},
    {.id = "attribute-name",
     .title = "Which words does the answer come from?",
     .kind = ATTEND_DECODER,
     .view = "attribute",
     .text = "The keys to the old cabinet that the boy found",
     .questions = {"Which token raises the likeliest word most, and which lowers it? Do gradient x "
                   "input and integrated gradients agree?",
                   "In the logit lens, from which layer on is the last prediction there?"}},
    {.id = "party-cake",
     .title = "Two sentences: a party and a cake",
     .kind = ATTEND_ENCODER,
     .view = "head",
     .text = "We went to her birthday party.",
     .second = "Everyone had a piece of the cake.",
     .query = "cake",
     .key = "party",
     .questions = {"Which kinds of tokens are looked at in which layers: the next, the one before, "
                   "[CLS], [SEP]?",
                   "Filter A to B and B to A: which words connect the two sentences?",
                   "How does this differ from GPT, and what about the models makes it differ?"}},
    {.id = "play",
     .title = "\"play\" as verb and as noun",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "We like to play outside.",
     .other_text = "We saw a play outside.",
     .distance = true,
     .questions = {"The sentences are built alike: do the maps look alike?",
                   "Open neurons for \"play\" in both: where do its key and its value differ?",
                   "Open embeddings: from which layer on do the two vectors of \"play\" differ?"}},
    {.id = "gpt-bert",
     .title = "GPT beside BERT",
     .kind = ATTEND_DECODER,
     .view = "compare",
     .text = "The keys to the old cabinet, which the children lost, are on the table.",
     .beside = ATTEND_ENCODER,
     .query = "are",
     .key = "keys",
     .questions = {"How does attention differ between GPT and BERT? Compare the visible pairs and "
                   "the weight on later tokens.",
                   "Which patterns do the heads of each have, and at which depth?",
                   "Which words does \"are\" look at in either? Only one of them can look at "
                   "\"table\"."}},
    {.id = "reversed-words",
     .title = "The same words, backwards",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "the cat chased the small grey mouse",
     .other_text = "mouse grey small the chased cat the",
     .pattern = "positional",
     .questions = {"Which heads follow places, and which follow words? Those that follow words "
                   "turn around with the text.",
                   "Does training on real sentences show?"}},
    {.id = "reversed-order",
     .title = "The same sentences in the other order",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "She baked a cake.",
     .second = "Then the guests arrived.",
     .other_text = "Then the guests arrived.",
     .other_second = "She baked a cake.",
     .pattern = "separator",
     .questions = {"BERT was trained to tell whether one sentence follows another: where would you "
                   "look for that?",
                   "What do the heads on [CLS] and [SEP] do in both?"}},
    {.id = "heads",
     .title = "Many heads at once",
     .kind = ATTEND_ENCODER,
     .view = "model",
     .text = "The keys to the old cabinet are on the table.",
     .questions =
         {"Do different heads do different things? Why would they?",
          "Which can you name: the token before, [SEP], everything alike, the same word?"}},
    {.id = "untrained",
     .title = "Trained against untrained weights",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "I am happy",
     .second = "I am not sad",
     .untrained = true,
     .distance = true,
     .questions = {"What differs between the patterns of random and of trained weights?",
                   "Between which words would you expect strong attention, and what would the "
                   "gradient of such a head do there?"}}};

/* -1: no model, but tensors. */
static int model_for(const viewer *v, attend_parts kind) {
  const attend_viewer_model *m;
  int first = -1;
  for (int i = 0; (m = attend_viewer_get_model(v->session, i)); i++) {
    if (!m->run && attend_config_parts(m->config) == kind) return i;
    if (!m->run && first < 0) first = i;
  }
  return first;
}

static const char *kind_name(attend_parts kind) {
  return kind == ATTEND_DECODER ? "decoder" : "encoder";
}

static void write_example_case(json_writer *w, int model, const char *text, const char *second,
                               bool untrained) {
  char id[12];
  snprintf(id, sizeof id, "%d", model);
  json_open(w, '{');
  json_member_string(w, "model", id);
  json_member_string(w, "text", text);
  if (second) json_member_string(w, "second", second);
  json_member_boolean(w, "untrained", untrained);
  json_close(w, '}');
}

static void write_shown(json_writer *w, const example *e) {
  json_member(w, "shows");
  json_open(w, '{');
  if (e->query) json_member_string(w, "query", e->query);
  if (e->key) json_member_string(w, "key", e->key);
  if (e->pattern) json_member_string(w, "pattern", e->pattern);
  if (e->distance) json_member_boolean(w, "distance", true);
  json_close(w, '}');
}

static void write_example(json_writer *w, const viewer *v, const example *e) {
  int model = model_for(v, e->kind);
  if (model < 0) return;
  json_open(w, '{');
  json_member_string(w, "id", e->id);
  json_member_string(w, "title", e->title);
  json_member_string(w, "for", kind_name(e->kind));
  json_member_string(w, "beside", e->beside ? kind_name(e->beside) : NULL);
  json_member(w, "questions");
  json_open(w, '[');
  for (int i = 0; i < 4 && e->questions[i]; i++) json_put_string(w, e->questions[i]);
  json_close(w, ']');
  write_shown(w, e);
  json_member(w, "state");
  json_open(w, '{');
  json_member_string(w, "view", e->view);
  json_member(w, "case");
  write_example_case(w, model, e->text, e->second, false);
  if (e->other_text || e->untrained || e->beside) {
    json_member(w, "other");
    write_example_case(w, e->beside ? model_for(v, e->beside) : model,
                       e->other_text ? e->other_text : e->text,
                       e->other_text ? e->other_second : e->second, e->untrained);
  }
  json_close(w, '}');
  json_close(w, '}');
}

/* The sentences of the pictures, with names in braces that the page fills in. */
static void write_captions(json_writer *w) {
  int count;
  const picture_caption *captions = picture_captions(&count);
  json_member(w, "captions");
  json_open(w, '{');
  for (int i = 0; i < count; i++) json_member_string(w, captions[i].name, captions[i].text);
  json_close(w, '}');
}

void write_hello(json_writer *w, const viewer *v) {
  const view_state defaults = view_defaults();
  json_open(w, '{');
  json_member_string(w, "version", attend_version());
  json_member(w, "models");
  json_open(w, '[');
  for (int i = 0; attend_viewer_get_model(v->session, i); i++) write_model(w, v, i);
  json_close(w, ']');
  json_member(w, "training");
  write_training(w, v);
  json_member(w, "start");
  write_state(w, v->start ? v->start : &defaults);
  json_member(w, "gallery");
  json_open(w, '[');
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) write_example(w, v, &examples[i]);
  json_close(w, ']');
  write_captions(w);
  json_member_boolean(w, "open_gallery", v->gallery);
  json_member_boolean(w, "live", v->live);
  json_member_string(w, "command", v->live ? NULL : v->command);
  json_member_number(w, "block_cells", ATTEND_VIEWER_CELLS);
  json_close(w, '}');
}
