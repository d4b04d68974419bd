/* hello, the first request of a page, with the gallery: the course documents' examples
 * and their questions.
 *
 * An example is for one kind of model; it opens on the first model of that kind, or on
 * the first of all.
 */
#include <stdio.h>
#include <string.h>

#include "table.h"
#include "view/state.h"

typedef struct {
  const char *id, *title;
  attend_parts kind;
  const char *view, *text, *second;
  const char *other_text, *other_second; /* compared with; NULL: nothing */
  bool untrained;                        /* the other has untrained weights */
  const char *questions[4];
} example;

static const example examples[] = {
    {.id = "dog-ran",
     .title = "The dog ran",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "The dog ran",
     .questions = {"Which earlier word does \"ran\" look at, and in which "
                   "heads? Would you need that word to go on?",
                   "Open neurons: which numbers of query and key make their "
                   "product large?"}},
    {.id = "dog-car",
     .title = "The dog sitting in the car",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "The dog sitting in the car",
     .questions = {"Does the last word look more at the subject, \"dog\", or at "
                   "the words around it?",
                   "What is alike in \"The dog ran\", and what is different?"}},
    {.id = "salazar",
     .title = "A name, and who is meant later",
     .kind = ATTEND_DECODER,
     .view = "head",
     .text = "Jaime Salazar is running for election. Despite his party "
             "affiliation, Mr.",
     .questions = {"After \"Mr.\" a name must follow: which heads look back at "
                   "it?",
                   "How does attention change from the first layers to the "
                   "last? Watch how much falls on the first token."}},
    {.id = "party-cake",
     .title = "Two sentences: a party and a cake",
     .kind = ATTEND_ENCODER,
     .view = "head",
     .text = "We went to her birthday party.",
     .second = "Everyone had a piece of the cake.",
     .questions = {"Which kinds of tokens are looked at in which layers: the "
                   "next, the one before, [CLS], [SEP]?",
                   "Filter A to B and B to A: which words connect the two "
                   "sentences?",
                   "How does this differ from GPT, and what about the models "
                   "makes it differ?"}},
    {.id = "play",
     .title = "\"play\" as verb and as noun",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "We like to play outside.",
     .other_text = "We saw a play outside.",
     .questions = {"The sentences are built alike: do the maps look alike?",
                   "Open neurons for \"play\" in both: where do its key and its "
                   "value differ?"}},
    {.id = "reversed-words",
     .title = "The same words, backwards",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "the cat chased the small grey mouse",
     .other_text = "mouse grey small the chased cat the",
     .questions = {"Which heads follow places, and which follow words? Those "
                   "that follow words turn around with the text.",
                   "Does training on real sentences show?"}},
    {.id = "reversed-order",
     .title = "The same sentences in the other order",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "She baked a cake.",
     .second = "Then the guests arrived.",
     .other_text = "Then the guests arrived.",
     .other_second = "She baked a cake.",
     .questions = {"BERT was trained to tell whether one sentence follows "
                   "another: where would you look for that?",
                   "What do the heads on [CLS] and [SEP] do in both?"}},
    {.id = "heads",
     .title = "Many heads at once",
     .kind = ATTEND_ENCODER,
     .view = "model",
     .text = "The keys to the old cabinet are on the table.",
     .questions = {"Do different heads do different things? Why would they?",
                   "Which can you name: the token before, [SEP], everything "
                   "alike, the same word?"}},
    {.id = "untrained",
     .title = "Trained against untrained weights",
     .kind = ATTEND_ENCODER,
     .view = "compare",
     .text = "I am happy",
     .second = "I am not sad",
     .untrained = true,
     .questions = {"What differs between the patterns of random and of trained "
                   "weights?",
                   "Between which words would you expect strong attention, and "
                   "what would the gradient of such a head do there?"}}};

static const char *model_for(const viewer *v, attend_parts kind, char id[12]) {
  const attend_view_model *m;
  for (int i = 0; (m = attend_viewer_model(v->session, i)); i++)
    if (attend_config_parts(m->config) == kind) {
      snprintf(id, 12, "%d", i);
      return id;
    }
  return "0";
}

static void put_case(attend_json_writer *w, const char *model, const char *text, const char *second,
                     bool untrained) {
  attend_json_open(w, '{');
  json_text(w, "model", model);
  json_text(w, "text", text);
  if (second) json_text(w, "second", second);
  attend_json_member(w, "untrained");
  attend_json_put_boolean(w, untrained);
  attend_json_close(w, '}');
}

static void put_example(attend_json_writer *w, const viewer *v, const example *e) {
  char id[12];
  const char *model = model_for(v, e->kind, id);
  attend_json_open(w, '{');
  json_text(w, "id", e->id);
  json_text(w, "title", e->title);
  json_text(w, "for", e->kind == ATTEND_DECODER ? "decoder" : "encoder");
  attend_json_member(w, "questions");
  attend_json_open(w, '[');
  for (int i = 0; i < 4 && e->questions[i]; i++) attend_json_put_string(w, e->questions[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "state");
  attend_json_open(w, '{');
  json_text(w, "view", e->view);
  attend_json_member(w, "case");
  put_case(w, model, e->text, e->second, false);
  if (e->other_text || e->untrained) {
    attend_json_member(w, "other");
    put_case(w, model, e->other_text ? e->other_text : e->text,
             e->other_text ? e->other_second : e->second, e->untrained);
  }
  attend_json_close(w, '}');
  attend_json_close(w, '}');
}

static void gallery_write(attend_json_writer *w, const viewer *v) {
  attend_json_open(w, '[');
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) put_example(w, v, &examples[i]);
  attend_json_close(w, ']');
}

static void write_hello(attend_json_writer *w, const encoded *e) {
  const viewer *v = e->v;
  encoded training = encode_training(v);
  attend_json_open(w, '{');
  json_text(w, "version", attend_version());
  attend_json_member(w, "models");
  attend_json_open(w, '[');
  for (int i = 0; attend_viewer_model(v->session, i); i++) write_model(w, v, i);
  attend_json_close(w, ']');
  attend_json_member(w, "training");
  encoded_write(w, &training);
  attend_json_member(w, "start");
  state_write(w, v->start);
  attend_json_member(w, "gallery");
  gallery_write(w, v);
  json_truth(w, "open_gallery", v->gallery);
  json_truth(w, "live", v->live);
  json_number(w, "block_cells", ATTEND_VIEW_CELLS);
  attend_json_close(w, '}');
}

encoded encode_hello(const viewer *v) { return (encoded){.write = write_hello, .v = v}; }

bool answer_hello(request *r) {
  encoded e = encode_hello(r->v);
  return request_steps(r) && request_reply(r, &e);
}
