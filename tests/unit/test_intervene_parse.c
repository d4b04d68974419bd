/* Changes as text: places, lists, and what is refused. */
#include "attend/intervene.h"

#include "attention_fixtures.h"

enum { ROOM = 8 };

static attend_change parsed(attend_context *ctx, const char *text) {
  attend_change list[ROOM];
  int n = 0;
  OK(ctx, attend_changes_parse(ctx, text, ROOM, list, &n));
  CHECK_EQ(n, 1);
  return list[0];
}

TEST(places) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_change c = parsed(ctx, "ablate 1.2");
  CHECK(c.size == sizeof c && c.kind == ATTEND_CHANGE_ZERO && c.point == ATTEND_AT_HEAD_OUTPUT);
  CHECK(c.layer == 1 && c.layers == 1 && c.head == 2 && c.heads == 1 && !c.tokens && !c.in);
  c = parsed(ctx, "patch residual:1:2-3");
  CHECK(c.kind == ATTEND_CHANGE_PATCH && c.point == ATTEND_AT_RESIDUAL);
  CHECK(c.layer == 2 && c.layers == 1 && c.token == 2 && c.tokens == 2);
  c = parsed(ctx, "patch residual:in");
  CHECK(c.point == ATTEND_AT_RESIDUAL && c.layer == 0 && c.layers == 1 && !c.tokens);
  c = parsed(ctx, " mean  mlp:3 ;");
  CHECK(c.kind == ATTEND_CHANGE_MEAN && c.point == ATTEND_AT_MLP && c.layer == 3);
  c = parsed(ctx, "ablate cross:value:0-2.1-3:5");
  CHECK(c.in == ATTEND_IN_CROSS && c.point == ATTEND_AT_VALUE && c.layer == 0 && c.layers == 3);
  CHECK(c.head == 1 && c.heads == 3 && c.token == 5 && c.tokens == 1);
  c = parsed(ctx, "pin 0.3=previous");
  CHECK(c.kind == ATTEND_CHANGE_PIN && c.point == ATTEND_AT_PATTERN);
  CHECK(c.pin == ATTEND_PIN_PREVIOUS && c.layer == 0 && c.head == 3);
  c = parsed(ctx, "ablate 4");
  CHECK(c.layer == 4 && c.layers == 1 && c.head == 0 && c.heads == 0);
  c = parsed(ctx, "ablate 1.*");
  CHECK(c.layer == 1 && c.layers == 1 && c.head == 0 && c.heads == 0);
  c = parsed(ctx, "ablate *.2");
  CHECK(c.layer == 0 && c.layers == 0 && c.head == 2 && c.heads == 1);
  c = parsed(ctx, "pin 3.4:first");
  CHECK(c.pin == ATTEND_PIN_FIRST && c.layer == 3 && c.head == 4 && !c.tokens);
  attend_context_free(ctx);
}

TEST(lists) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_change list[ROOM];
  int n = -1;
  OK(ctx, attend_changes_parse(ctx, "", ROOM, list, &n));
  CHECK_EQ(n, 0);
  OK(ctx,
     attend_changes_parse(ctx, "ablate 1.2,1.3 , mlp:0; patch 0.1;pin 1=first", ROOM, list, &n));
  CHECK_EQ(n, 5);
  CHECK(list[1].head == 3 && list[2].point == ATTEND_AT_MLP);
  CHECK(list[3].kind == ATTEND_CHANGE_PATCH && list[4].kind == ATTEND_CHANGE_PIN);
  attend_context_free(ctx);
}

TEST(what_is_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  static const struct {
    const char *text, *says;
  } bad[] = {{"ablate", "not a place"},
             {"ablate 1.", "not a place"},
             {"ablate x.2", "not a place"},
             {"ablate -1.2", "not a place"},
             {"ablate 3-1.2", "not a place"},
             {"ablate 1.2:", "not a place"},
             {"ablate 99999999999999999999.0", "not a place"},
             {"ablate 1.2=first", "not a place"},
             {"ablate mlp:1.2", "no heads"},
             {"remove 1.2", "not a change"},
             {"pin 1.2", "=previous"},
             {"pin 1.2=next", "=previous"},
             {"ablate 1.2 1.3", "a comma"},
             {"ablate 0,1,2,3,4,5,6,7,8", "more than 8"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    attend_change list[ROOM];
    int n;
    CHECK_EQ(attend_changes_parse(ctx, bad[i].text, ROOM, list, &n), ATTEND_INVALID);
    CHECK_SAYS(attend_message(ctx), bad[i].says);
  }
  attend_context_free(ctx);
}
