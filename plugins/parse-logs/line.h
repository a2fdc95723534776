// A line of a web server's access log: Common or Combined Log Format.

#ifndef LINE_H
#define LINE_H

#include "tidegate/tidegate.h"

/// Fields of a line, in their order in the JSON.
enum { REMOTE, IDENT, USER, TIME, METHOD, PATH, QUERY, PROTOCOL, REQUEST, STATUS, BYTES, REFERRER, AGENT, FIELD_COUNT };

/// Which formats a line may have.
typedef enum form { ANY, COMMON, COMBINED } form;

/// A line taken apart. Texts are views of the line, with the escapes that the server wrote; null where it wrote `-`.
/// Method, path and protocol are null where the request is not these three; the request is null where it is.
typedef struct line {
    tg_bytes remote, ident, user, method, path, query, protocol, request, referrer, agent;
    /// Microseconds since the Unix epoch.
    int64_t time;
    uint32_t status;
    /// -1 where the server wrote `-`.
    int64_t bytes;
    /// Whether it ends within its last field.
    bool is_cut;
} line;

/// Takes a line apart. NULL, or what was expected at byte `*at`.
const char *line_read(tg_bytes text, form form, line *line, uint32_t *at);

/// A text without the server's escapes, in the record's memory if it had any.
tg_bytes line_unescape(tg_bytes text);

/// Whether the agent says that it is a program that reads by itself.
bool line_is_bot(const line *line);

/// Whether the path is that of a picture, style, script or font.
bool line_is_asset(const line *line);

#endif
