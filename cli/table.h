/* Output: rows printed as a table or as JSON; members of JSON objects. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/json_write.h"
#include "text.h"

typedef enum {
  CELL_TEXT,
  CELL_COUNT,   /* a whole number */
  CELL_SMALL,   /* an error or a bound: 1.23e-07 */
  CELL_NUMBER,  /* four digits, with k, M, G */
  CELL_PLAIN,   /* four digits, as they are: 1024, 0.06093 */
  CELL_RATE,    /* 123.4 */
  CELL_RATIO,   /* 1.234 */
  CELL_SECONDS, /* 12.3 ms */
  CELL_BYTES,   /* 1.5 MiB */
  CELL_OK       /* ok or FAILED */
} cell_kind;

typedef struct {
  const char *name;  /* in JSON; "": only in a table */
  const char *title; /* of the column; NULL: only in JSON */
  cell_kind kind;
} column;

typedef struct {
  const char *text; /* NULL: the number */
  double number;    /* NaN: null in JSON, a dash in a table */
} cell;

typedef struct {
  const column *columns; /* ends with a name of NULL */
  int width;             /* number of columns */
  size_t rows, capacity;
  cell *cells;
} table;

static inline cell cell_text(const char *text) { return (cell){text, 0}; }
static inline cell cell_number(double n) { return (cell){NULL, n}; }
cell cell_none(void);

table table_start(const column *columns);
void table_add(table *t, const cell *row); /* copies the texts */
/* Both return an exit code and report write errors. */
int table_print(const table *t, FILE *out);
int table_print_json(const table *t, attend_context *ctx, FILE *out);
void table_free(table *t);
/* Prints to the standard output, as JSON or as a table, and frees it. */
int table_finish(table *t, attend_context *ctx, bool json);

/* A list of JSON objects on the standard output, one line each. */
json_writer json_rows_open(attend_context *ctx);
void json_row_open(json_writer *w);
/* The members of a row, for an object that has more. */
void table_put_members(const table *t, size_t row, json_writer *w);
/* Frees the writer; an exit code. */
int json_rows_close(json_writer *w, attend_context *ctx);

/* "12.3 ms", "1.5 MiB", "51.5 G". */
void format_cell(cell_kind kind, double number, char *text, size_t size);
/* Prints an error unless everything written to the stream arrived. */
int check_written(FILE *out, const char *name);

#endif
