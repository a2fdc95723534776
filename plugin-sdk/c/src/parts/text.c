// Text: UTF-8, text that grows, JSON strings.

#include "inside.h"

// How many bytes of a UTF-8 sequence stand here, and whether it is whole. Of what is none the first byte counts, as
// everywhere where U+FFFD stands for what is not UTF-8 (The Unicode Standard, section 3.9: maximal subparts).
static size_t sequence(const uint8_t *at, size_t left, bool *is_whole) {
    uint8_t first = at[0];
    *is_whole = first < 0x80;
    if (first < 0xc2 || first > 0xf4) return 1;
    // Neither longer than need be, nor a surrogate, nor beyond the last character.
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2, n = 1;
    for (; n < length && n < left && at[n] >= least && at[n] <= most; n++) {
        least = 0x80;
        most = 0xbf;
    }
    *is_whole = n == length;
    return n;
}

uint32_t tg_utf8_until(tg_bytes bytes) {
    uint32_t at = 0;
    while (at < bytes.length) {
        // Most text is ASCII: eight bytes at a time.
        if (bytes.length - at >= 8 && !(tg_read_64(bytes.at + at) & UINT64_C(0x8080808080808080))) {
            at += 8;
            continue;
        }
        bool is_whole;
        size_t length = sequence(bytes.at + at, bytes.length - at, &is_whole);
        if (!is_whole) return at;
        at += (uint32_t)length;
    }
    return at;
}

bool tg_is_utf8(tg_bytes bytes) { return bytes.at && tg_utf8_until(bytes) == bytes.length; }

// Writes runs of UTF-8, and U+FFFD for what stands between them.
static void as_text(tg_writer *writer, tg_bytes bytes) {
    while (bytes.length != 0) {
        uint32_t until = tg_utf8_until(bytes);
        tg_write(writer, tg_bytes_of(bytes.at, until));
        if (until == bytes.length) return;
        bool is_whole;
        tg_write_text(writer, "\xef\xbf\xbd");
        until += (uint32_t)sequence(bytes.at + until, bytes.length - until, &is_whole);
        bytes = tg_bytes_of(bytes.at + until, bytes.length - until);
    }
}

tg_bytes tg_as_text(tg_bytes bytes) {
    if (bytes.length == 0 || tg_is_utf8(bytes)) return bytes;
    tg_writer writer = {NULL, 0, 0};
    as_text(&writer, bytes);
    return tg_written(&writer);
}

const char *tg_file_name(const char *path) {
    const char *name = path;
    for (; *path; path++) {
        if (*path == '/' || *path == '\\') name = path + 1;
    }
    return name;
}

// Room at the end of a writer.
static uint8_t *more(tg_writer *writer, size_t size) {
    if (writer->room - writer->length < size) {
        size_t room = tg_sum(writer->length, size);
        room = room < 512 ? 1024 : tg_sum(room, room);
        uint8_t *moved = (uint8_t *)tg_memory(room);
        if (writer->length) memcpy(moved, writer->at, writer->length);
        writer->at = moved;
        writer->room = room;
    }
    uint8_t *at = writer->at + writer->length;
    writer->length += size;
    return at;
}

void tg_write(tg_writer *writer, tg_bytes bytes) {
    if (bytes.length != 0) tg_copy(more(writer, bytes.length), bytes);
}

static const char DIGITS[] = "0123456789abcdef";

void tg_write_hex(tg_writer *writer, tg_bytes bytes) {
    uint8_t *to = more(writer, tg_sum(bytes.length, bytes.length));
    for (uint32_t n = 0; n < bytes.length; n++) {
        *to++ = (uint8_t)DIGITS[bytes.at[n] >> 4];
        *to++ = (uint8_t)DIGITS[bytes.at[n] & 15];
    }
}

// Where the next byte is that a JSON string cannot have as it is, or the end.
static uint32_t plain_until(tg_bytes text, uint32_t at) {
    const uint64_t each = UINT64_C(0x0101010101010101), high = each << 7;
    for (; at < text.length; at++) {
        // Eight bytes at a time: those below a number borrow from their highest bit when it is subtracted.
        while (text.length - at >= 8) {
            uint64_t word = tg_read_64(text.at + at), quote = word ^ each * '"', backslash = word ^ each * '\\';
            uint64_t found =
                ((word - each * 0x20) & ~word) | ((quote - each) & ~quote) | ((backslash - each) & ~backslash);
            if (found & high) break;
            at += 8;
        }
        if (at == text.length) break;
        uint8_t byte = text.at[at];
        if (byte < 0x20 || byte == '"' || byte == '\\') break;
    }
    return at;
}

void tg_write_json(tg_writer *writer, tg_bytes text) {
    static const char SHORT[] = "btn\0fr";
    text = tg_as_text(text);
    tg_write_text(writer, "\"");
    uint32_t begin = 0;
    for (uint32_t at = plain_until(text, 0); at < text.length; at = plain_until(text, at + 1)) {
        uint8_t byte = text.at[at];
        tg_write(writer, tg_bytes_of(text.at + begin, at - begin));
        begin = at + 1;
        uint8_t *to = more(writer, 2);
        to[0] = '\\';
        to[1] = byte;
        if (byte >= 0x20) continue;
        if (byte >= 8 && byte <= 13 && byte != 11) {
            to[1] = (uint8_t)SHORT[byte - 8];
            continue;
        }
        to[1] = 'u';
        tg_write_text(writer, "00");
        tg_write_hex(writer, tg_bytes_of(text.at + at, 1));
    }
    tg_write(writer, tg_bytes_of(text.at + begin, text.length - begin));
    tg_write_text(writer, "\"");
}
