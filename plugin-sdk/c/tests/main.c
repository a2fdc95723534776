// The SDK's own tests, run in this directory: sdk-tests WIT/GOLDEN

#include "sdk_tests.h"

static void (*doing)(tg_record *record);

static void process(tg_record *record) { doing(record); }

static const char *const outputs[] = {"left", "right", NULL};
static const char *const one_label[] = {"a", NULL}, *const two_labels[] = {"a", "b", NULL};
static const tg_metric metrics[] = {
    {.name = "amounts_total", .kind = TG_COUNTER, .help = "A counter"},
    {.name = "level", .kind = TG_GAUGE, .help = "A gauge", .labels = one_label},
    {.name = "spread", .kind = TG_HISTOGRAM, .help = "A histogram", .labels = two_labels},
    {.name = NULL},
};

TG_OPERATOR(.name = "sdk-tests", .version = "1.0.0",
            .reads = TG_READS_KEY | TG_READS_VALUE | TG_READS_HEADERS | TG_READS_ATTRIBUTES, .outputs = outputs,
            .metrics = metrics, .process = process);

void operate(void (*process)(tg_record *record)) {
    doing = process;
    TG_EXPECT(tg_test_start("{}"));
}

bool configure(const tg_table *table, void *settings, const char *config) {
    tg_operator with = {.name = "sdk-tests", .version = "1.0.0", .config = table, .settings = settings};
    return tg_begin(&with, tg_str(config), true);
}

int main(int count, char **arguments) {
    test_golden(count == 2 ? arguments[1] : "wit/golden");
    test_answers();
    test_text();
    test_json();
    test_config();
    test_cases();
    test_declared();
    test_tokens();
    return tg_test_end();
}
