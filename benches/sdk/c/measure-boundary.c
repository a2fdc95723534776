// The operator of the boundary's benches, in C: tests/guests/bench-operator says what it does.

#include "tidegate/tidegate.h"

typedef struct config {
    int mode;
} config;

enum { FILTER, ECHO };
static const char *const modes[] = {"filter", "echo", NULL};
static const tg_field fields[] = {
    {TG_CHOICE(config, mode, "mode"), .help = "What it does", .choices = modes},
    TG_END,
};
static const tg_table table = {"The configuration", sizeof(config), fields};
static config settings;

static void process(tg_record *record) {
    tg_bytes value = tg_value(record);
    if (tg_is_null(value)) return;
    if (settings.mode == ECHO) {
        tg_set_value(record, value);
    } else if (value.length > 10 && value.at[10] % 2 == 1) {
        tg_drop(record);
    }
}

TG_OPERATOR(.name = "measure-boundary", .version = "1.0.0", .reads = TG_READS_VALUE, .config = &table,
            .settings = &settings, .process = process);
