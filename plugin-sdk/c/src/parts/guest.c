// What the host calls, and what it offers: the packed world by the canonical ABI of the component model. Nothing here
// is for operators. An interface that the contract has later is a file beside this one.

#include <stdlib.h>
#include <wasi/api.h>

#include "inside.h"

#define PACKED "tidegate:operator/packed@1.0.0#"
#define EXPORTED(name) __attribute__((export_name(name)))

// Batches come into one piece of memory that is used again. What is asked for while it is in use is allocated.
static struct {
    uint8_t *at;
    size_t room;
    bool is_used;
} input;

EXPORTED("cabi_realloc") void *cabi_realloc(void *old, size_t had, size_t align, size_t size) {
    (void)had;
    // malloc aligns to 16, and nothing asks for more.
    if (size == 0) return (void *)align;
    if (!old && !input.is_used) {
        if (input.room < size) {
            free(input.at);
            input.room = size < 4096 ? 4096 : tg_sum(size, size / 8);
            input.at = (uint8_t *)malloc(input.room);
            if (!input.at) tg_end("there is no memory left for the batch");
        }
        input.is_used = true;
        return input.at;
    }
    if (old == input.at && input.is_used) {
        // It is another's from here on.
        input.at = NULL;
        input.room = 0;
        input.is_used = false;
    }
    void *at = realloc(old, size);
    if (!at) tg_end("there is no memory left for what the host gives");
    return at;
}

static void given_back(const void *given, size_t length) {
    if (given == input.at) {
        input.is_used = false;
    } else if (length != 0) {
        free((void *)(uintptr_t)given);
    }
}

typedef struct list {
    const void *at;
    uint32_t length;
} list;

typedef struct metric {
    list name;
    uint8_t kind;
    list help, labels, bounds;
} metric;

typedef struct description {
    list name, version, config_schema;
    uint8_t reads;
    list outputs, metrics, handlers, extensions;
} description;

typedef struct failure {
    uint8_t failure;
    list code, message;
} failure;

// `result<T, failure>` for each T.
static struct {
    uint8_t is_failure;
    union {
        description description;
        list bytes;
        failure failure;
    };
} result;

static list text_of(tg_bytes bytes) {
    list text = {bytes.at, bytes.length};
    return text;
}

static list of_string(const char *text) { return text_of(tg_str(text ? text : "")); }

static const void *failed(void) {
    const tg_failure *why = &tg_running.failure;
    result.is_failure = 1;
    result.failure.failure = (uint8_t)why->failure;
    result.failure.code = text_of(tg_as_text(tg_str(why->code)));
    result.failure.message = text_of(why->message);
    return &result;
}

static list names_of(const char *const *names) {
    uint32_t count = 0;
    while (names && names[count]) count++;
    list *labels = (list *)tg_keep(count * sizeof *labels);
    for (uint32_t label = 0; label < count; label++) labels[label] = of_string(names[label]);
    list all = {labels, count};
    return all;
}

static list metrics_of(const tg_metric *declared, uint32_t count) {
    metric *metrics = (metric *)tg_keep(count * sizeof *metrics);
    for (uint32_t index = 0; index < count; index++) {
        metrics[index].name = of_string(declared[index].name);
        metrics[index].kind = (uint8_t)declared[index].kind;
        metrics[index].help = of_string(declared[index].help);
        metrics[index].labels = names_of(declared[index].labels);
        metrics[index].bounds.at = declared[index].bounds;
        metrics[index].bounds.length = declared[index].bound_count;
    }
    list all = {metrics, count};
    return all;
}

EXPORTED(PACKED "describe") const void *tg_guest_describe(const uint8_t *config, size_t length) {
    const tg_operator *with = &tg_the_operator;
    bool is_right = tg_begin(with, tg_bytes_of(config, length), false);
    given_back(config, length);
    if (!is_right) return failed();
    result.is_failure = 0;
    description *described = &result.description;
    described->name = of_string(with->name);
    described->version = of_string(with->version);
    described->config_schema = text_of(tg_schema(with->config));
    described->reads = (uint8_t)with->reads;
    list *outputs = (list *)tg_keep(tg_running.output_count * sizeof *outputs);
    for (uint32_t output = 0; output < tg_running.output_count; output++) {
        outputs[output] = text_of(tg_running.outputs[output]);
    }
    described->outputs.at = outputs;
    described->outputs.length = tg_running.output_count;
    described->metrics = metrics_of(with->metrics, tg_running.metric_count);
#ifdef TIDEGATE_TOKENS
    static const list tokens = {"tokens", 6};
    described->handlers.at = &tokens;
    described->handlers.length = 1;
#else
    described->handlers.length = 0;
#endif
    described->extensions.length = 0;
    return &result;
}

EXPORTED(PACKED "init") const void *tg_guest_init(const uint8_t *config, size_t length) {
    bool is_right = tg_begin(&tg_the_operator, tg_bytes_of(config, length), true);
    given_back(config, length);
    if (!is_right) return failed();
    result.is_failure = 0;
    return &result;
}

EXPORTED(PACKED "process") const void *tg_guest_process(const uint8_t *batch, size_t length) {
    tg_bytes answer = tg_process(&tg_the_operator, tg_bytes_of(batch, length));
    given_back(batch, length);
    if (!answer.at) return failed();
    result.is_failure = 0;
    // The answer lies where the next one will: the host has copied it by then.
    result.bytes = text_of(answer);
    return &result;
}

__attribute__((import_module("tidegate:operator/log@1.0.0"), import_name("write"))) extern void
tg_imported_log(uint32_t level, const uint8_t *line, size_t length);

void tg_host_log(tg_level level, tg_bytes line) { tg_imported_log((uint32_t)level, line.at, line.length); }

void tg_end(const char *why) {
    (void)why;
    __builtin_trap();
}

void tg_panicked(tg_bytes why) {
    const __wasi_ciovec_t text = {why.at, why.length};
    __wasi_size_t written;
    // Whether it can be told or not, this is the end.
    __wasi_errno_t told = __wasi_fd_write(2, &text, 1, &written);
    (void)told;
    __builtin_trap();
}
