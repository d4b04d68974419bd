/* The sentence under each picture and each view of the page: what is seen, and how to read it.
 * One list for .svg, .png, terminal and page, which gets it with hello.
 */
#include <stdio.h>
#include <string.h>

#include "pictures/pictures.h"

/* What stands in braces is replaced: see picture_facts. */
static const picture_caption captions[] = {
    {"model",
     "Every head of the {attention}, a layer in each row: in each map rows are queries and columns "
     "keys; the stronger the colour, the larger the weight. Each map has its own scale, up to its "
     "largest weight; below it stands the pattern of the head, if it has one."},
    {"head",
     "Queries (left) and the keys they attend to (right): the more solid a line, the larger its "
     "weight in {attention}; weights under {least} are left out."},
    {"cross",
     "A row is a step of the decoder: “→ {query}” is where it looked when it wrote “{query}”."},
    {"head.token", "What “{query}” attends to: the weights of {attention}."},
    {"neuron",
     "The query of “{query}” (token {position}) and each key in {attention}: the products add up "
     "to a score, the scores become weights, and the output is the weighted sum of the values."},
    {"matrix",
     "What each token (row) attends to: the weights of {attention} on the tokens in the columns."},
    {"flow.rollout",
     "Attention rollout of “{query}”: the share of each token in its state, where a layer keeps "
     "half of a state and mixes half by {attention}."},
    {"flow.argmax",
     "The tokens that reach “{query}” if every head of the {attention} takes the key with the "
     "largest weight alone."},
    {"compare",
     "The weights of one head under each, and their difference, first minus second: blue where "
     "{first} is larger, orange where {second} is ({attention})."},
    {"beside",
     "What {first} and {second} have in common though tokens, layers and heads differ: a head of "
     "each word by word, head patterns counted, and how broadly heads attend, by relative depth."},
    {"neuron.pair",
     "The query of “{query}” in both texts: its products with each key, element by element, in the "
     "same colours; their sum, scaled, and the weight ({attention})."},
    {"embeddings.between",
     "Rows are tokens of the first text, columns tokens of the second: the cosine of their states "
     "before layer {layer}."},
    {"generate",
     "Each token that the model chose with {attention}, its probability, and the alternatives."},
    {"embeddings",
     "How similar two tokens are: the cosine of the angle between their states before layer "
     "{layer}."},
    {"intervene",
     "What the model predicts at token {position}, “{query}”, with the changes (filled bars) and "
     "without them (outlined bars)."},
    {"intervene.sweep",
     "Each cell is one more run with a change in that place alone: the {metric}, minus that "
     "without "
     "changes; blue above zero, orange below."},
    {"attribute.gradient",
     "Gradient × input of the logit of “{answer}” at token {position}: what each token adds to it, "
     "to first order; blue raises it, orange lowers it."},
    {"attribute.integrated",
     "Integrated gradients of the logit of “{answer}” at token {position}, on the way from a text "
     "of blanks to this one: what each token adds to the logit; blue raises it, orange lowers it."},
    {"attribute.attention",
     "Weight × gradient of the logit of “{answer}” at token {position}, summed over each head of "
     "the {attention}, and over each key; blue raises the logit, orange lowers it."},
    {"attribute.direct",
     "What each head and MLP writes straight to the logit of “{answer}” at token {position}; with "
     "the embedding and the rest (biases) the numbers add up to the logit."},
    {"attribute.lens",
     "Logit lens: what the model's head makes of the residual stream before each layer and after "
     "the last one, at each token: the likeliest token and its probability."},
};

const picture_caption *picture_captions(int *count) {
  *count = (int)(sizeof captions / sizeof *captions);
  return captions;
}

static const char *template_of(const char *name) {
  for (size_t i = 0; i < sizeof captions / sizeof *captions; i++)
    if (!strcmp(captions[i].name, name)) return captions[i].text;
  return "";
}

const char *picture_spelled(const char *label) {
  static const char *const marks[] = {"·", "–"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    size_t n = strlen(marks[i]);
    if (!strncmp(label, marks[i], n) && label[n]) return label + n;
  }
  return label;
}

/* The value of the name in braces at `at`; NULL: it is none of them. */
static const char *value_of(const picture_facts *f, const char *at, size_t length) {
  const struct {
    const char *name, *value;
  } values[] = {{"attention", f->attention}, {"query", f->query},   {"position", f->position},
                {"least", f->least},         {"layer", f->layer},   {"first", f->first},
                {"second", f->second},       {"answer", f->answer}, {"metric", f->metric}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (strlen(values[i].name) == length && !strncmp(values[i].name, at, length))
      return values[i].value ? values[i].value : "";
  return NULL;
}

char *picture_caption_fill(const char *name, const picture_facts *facts, char *to, size_t size) {
  size_t n = 0;
  for (const char *at = template_of(name); *at && n + 1 < size;) {
    const char *end = *at == '{' ? strchr(at, '}') : NULL;
    const char *value = end ? value_of(facts, at + 1, (size_t)(end - at - 1)) : NULL;
    if (!value) {
      to[n++] = *at++;
      continue;
    }
    int wide = snprintf(to + n, size - n, "%s", value);
    n = n + (size_t)wide < size ? n + (size_t)wide : size - 1;
    at = end + 1;
  }
  to[n] = 0;
  return to;
}

const char *picture_attention(const picture_about *about, char to[PICTURE_WORDS]) {
  const char *role = about->role ? about->role : "";
  const char *form = about->form ? about->form : "";
  const char *gap = *form ? " " : "";
  if (!strcmp(role, "cross"))
    snprintf(to, PICTURE_WORDS, "%.120s%scross-attention", form, gap);
  else if (*role)
    snprintf(to, PICTURE_WORDS, "%.110s%sself-attention of the %.20s", form, gap, role);
  else
    snprintf(to, PICTURE_WORDS, "%.120s%sattention", form, gap);
  return to;
}
