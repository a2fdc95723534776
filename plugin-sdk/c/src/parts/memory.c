// Memory of a record and of the configuration, and buffers that are used again.

#include <stdlib.h>

#include "inside.h"

// The smallest block of an arena.
enum { TG_BLOCK = 16384 };

typedef struct tg_block {
    struct tg_block *before;
    size_t room;
    // Aligned for anything.
    _Alignas(16) uint8_t bytes[];
} tg_block;

tg_arena tg_scratch, tg_kept;

void *tg_arena_take(tg_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) tg_end("more memory is asked for than there can be");
    size = (size + 15) & ~(size_t)15;
    if (!arena->blocks || arena->blocks->room - arena->used < size) {
        size_t room = size > TG_BLOCK ? size : TG_BLOCK;
        tg_block *block = (tg_block *)malloc(sizeof *block + room);
        if (!block) tg_end("there is no memory left");
        block->before = arena->blocks;
        block->room = room;
        arena->blocks = block;
        arena->used = 0;
    }
    void *at = arena->blocks->bytes + arena->used;
    arena->used += size;
    return at;
}

void tg_arena_clear(tg_arena *arena) {
    // A block of the usual size is kept; one that a large record needed is not.
    tg_block *kept = NULL;
    for (tg_block *block = arena->blocks; block;) {
        tg_block *before = block->before;
        if (!kept && block->room == TG_BLOCK) {
            kept = block;
            kept->before = NULL;
        } else {
            free(block);
        }
        block = before;
    }
    arena->blocks = kept;
    arena->used = 0;
}

void *tg_memory(size_t size) { return tg_arena_take(&tg_scratch, size); }
void *tg_keep(size_t size) { return tg_arena_take(&tg_kept, size); }

tg_bytes tg_kept_copy(tg_bytes bytes) {
    uint8_t *copy = (uint8_t *)tg_keep(bytes.length);
    tg_copy(copy, bytes);
    return tg_bytes_of(copy, bytes.length);
}

void tg_buffer_grow(tg_buffer *buffer, size_t more) {
    size_t wanted = buffer->length + more;
    // An answer's lengths have 32 bits.
    if (wanted < more || wanted > UINT32_MAX) tg_end("the answer would be larger than 4 GiB");
    // Half as much again, where that can be.
    size_t room = wanted < 4096 ? 4096 : wanted > UINT32_MAX / 3 * 2 ? wanted : wanted + wanted / 2;
    uint8_t *moved = (uint8_t *)realloc(buffer->at, room);
    if (!moved) tg_end("there is no memory left for the answer");
    buffer->at = moved;
    buffer->room = room;
}
