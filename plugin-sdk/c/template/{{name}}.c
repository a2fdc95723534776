// {{name}}: puts a mask over words that nobody else should read.

#include "tidegate/tidegate.h"

// The configuration, filled in before the first record.
typedef struct config {
    tg_list words;
    tg_bytes mask;
} config;

static config settings;

// What its members are: the JSON Schema is made of this table.
static const tg_field word = {TG_ITEM(TG_KIND_TEXT), .minimum = 1};
static const tg_field fields[] = {
    {TG_LIST(config, words, "words"), .help = "Words to look for, as they are written", .fallback = "[]", .item = &word},
    {TG_TEXT(config, mask, "mask"), .help = "What stands in their place", .fallback = "\"***\""},
    TG_END,
};
static const tg_table table = {"Which words are masked", sizeof(config), fields};

// The length of the listed word that a text begins with; 0 if it begins with none.
static uint32_t listed(tg_bytes text) {
    for (size_t index = 0; index < settings.words.count; index++) {
        tg_bytes one = tg_texts(settings.words)[index];
        if (one.length <= text.length && memcmp(one.at, text.at, one.length) == 0) return one.length;
    }
    return 0;
}

// Says what becomes of a record. If it says nothing, the record passes.
static void process(tg_record *record) {
    tg_bytes text;
    // A value that is no text is a dead letter, and its reason is said.
    if (!tg_text(record, &text)) return;
    tg_writer masked = {0};
    bool is_changed = false;
    while (text.length != 0) {
        uint32_t found = listed(text), taken = found ? found : 1;
        tg_write(&masked, found ? settings.mask : tg_bytes_of(text.at, 1));
        is_changed |= found != 0;
        text = tg_bytes_of(text.at + taken, text.length - taken);
    }
    if (is_changed) tg_set_value(record, tg_written(&masked));
}

TG_OPERATOR(.name = "{{name}}", .version = "0.1.0", .reads = TG_READS_VALUE, .config = &table, .settings = &settings,
            .process = process);
