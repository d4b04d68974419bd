/* The designs that ship: models/designs, as part of the program.
 *
 * A new file there needs two lines here.
 */
#include "design/show.h"

#include "incbin.h"

EMBED(spec_content, DESIGN_FOLDER "/content.json");
EMBED(spec_position, DESIGN_FOLDER "/position.json");
EMBED(spec_unique, DESIGN_FOLDER "/unique.json");
EMBED(spec_previous, DESIGN_FOLDER "/previous.json");
EMBED(spec_induction, DESIGN_FOLDER "/induction.json");
EMBED(spec_sort, DESIGN_FOLDER "/sort.json");
EMBED(spec_brackets, DESIGN_FOLDER "/brackets.json");

static const struct {
  const char *name;
  const unsigned char *text;
  const uint64_t *length;
} specs[] = {
    {"content", spec_content, &spec_content_length},
    {"position", spec_position, &spec_position_length},
    {"unique", spec_unique, &spec_unique_length},
    {"previous", spec_previous, &spec_previous_length},
    {"induction", spec_induction, &spec_induction_length},
    {"sort", spec_sort, &spec_sort_length},
    {"brackets", spec_brackets, &spec_brackets_length},
};

bool design_spec_get(int i, design_spec *spec) {
  if (i < 0 || i >= (int)(sizeof specs / sizeof *specs)) return false;
  *spec = (design_spec){specs[i].name, (const char *)specs[i].text, (size_t)*specs[i].length};
  return true;
}
