/* The hot loops of the lexical index: collecting terms, writing segments, finding the best k documents.
 *
 * The file form is described in segment.py, the formula in bm25.py, the analysis in analysis.py and porter.py; each has
 * a plain Python twin there, and tests compare the two to the last bit. Nothing here keeps global state, and every
 * function may run without the interpreter's lock. Compile with -ffp-contract=off: fused multiply-adds would change the
 * last bit of scores.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define BLOCK 128
#define MAX_TERM 64
#define ONE 4294967296.0

EXPORT int sq_version(void) { return 1; }

/* ---------------------------------------------------------------- segments, as they lie in the file ------------- */

typedef struct {
    char magic[8];
    uint32_t documents, terms;
    uint64_t total_length;
    uint32_t max_length, zero;
    uint64_t numbers, lengths, term_table, strings, postings, check;
} Header;

typedef struct {
    uint64_t postings;
    uint32_t documents, string;
} Term;

typedef struct {
    uint32_t last, place;
    uint8_t gap_bits, frequency_bits;
    uint16_t highest, once, more;
} Meta;

typedef struct {
    const uint8_t *base;
    size_t size;
    const Header *header;
    const uint32_t *numbers, *lengths;
    const Term *terms;
    const uint8_t *strings, *postings;
} Segment;

static const char MAGIC[8] = {'S', 'Q', 'L', 'E', 'X', 0, 0, 2};

/* Whether every section lies in the file, behind the one before. */
static int header_fits(const Header *header, uint64_t size) {
    const uint64_t documents = (uint64_t)header->documents * 4;
    const uint64_t terms = ((uint64_t)header->terms + 1) * sizeof(Term);
    return header->check < size && header->check + 4 == size && header->postings <= header->check &&
           header->strings <= header->postings && header->term_table <= header->strings &&
           terms <= header->strings - header->term_table && header->lengths <= header->term_table &&
           documents <= header->term_table - header->lengths && header->numbers <= header->lengths &&
           documents <= header->lengths - header->numbers && header->numbers >= sizeof(Header) &&
           !((header->numbers | header->lengths | header->term_table) & 7);
}

/* NULL where the file cannot be read or is not a segment. */
EXPORT Segment *sq_segment_open(const char *path) {
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0) return NULL;
    struct stat status;
    if (fstat(handle, &status) || (size_t)status.st_size < sizeof(Header) + 4) {
        close(handle);
        return NULL;
    }
    void *base = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, handle, 0);
    close(handle);
    if (base == MAP_FAILED) return NULL;
    const Header *header = base;
    if (memcmp(header->magic, MAGIC, 8) || !header_fits(header, status.st_size)) {
        munmap(base, status.st_size);
        return NULL;
    }
    Segment *segment = malloc(sizeof(Segment));
    if (!segment) {
        munmap(base, status.st_size);
        return NULL;
    }
    const uint8_t *bytes = base;
    *segment = (Segment){bytes,
                         status.st_size,
                         header,
                         (const uint32_t *)(bytes + header->numbers),
                         (const uint32_t *)(bytes + header->lengths),
                         (const Term *)(bytes + header->term_table),
                         bytes + header->strings,
                         bytes + header->postings};
    return segment;
}

EXPORT void sq_segment_close(Segment *segment) {
    munmap((void *)segment->base, segment->size);
    free(segment);
}

EXPORT const uint32_t *sq_segment_numbers(const Segment *segment) { return segment->numbers; }
EXPORT const uint32_t *sq_segment_lengths(const Segment *segment) { return segment->lengths; }
EXPORT uint32_t sq_segment_documents(const Segment *segment) { return segment->header->documents; }
EXPORT uint32_t sq_segment_terms(const Segment *segment) { return segment->header->terms; }
EXPORT uint64_t sq_segment_total_length(const Segment *segment) { return segment->header->total_length; }

static int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* The term's number, -1 where the segment does not have it. */
EXPORT int64_t sq_segment_find(const Segment *segment, const uint8_t *term, size_t size) {
    uint32_t low = 0, high = segment->header->terms;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const Term *entry = segment->terms + middle;
        int order = compare_bytes(segment->strings + entry->string, entry[1].string - entry->string, term, size);
        if (!order) return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

EXPORT uint32_t sq_segment_frequency(const Segment *segment, int64_t term) { return segment->terms[term].documents; }

/* ---------------------------------------------------------------- packing ---------------------------------------- */

typedef uint32_t Lanes __attribute__((vector_size(16)));

INLINE Lanes load_lanes(const uint8_t *from) {
    Lanes lanes;
    memcpy(&lanes, from, 16);
    return lanes;
}

/* 128 values of a constant number of bits: row r of four values starts at bit r * bits of each lane. */
INLINE void unpack_bits(const uint8_t *in, uint32_t *out, const int bits) {
    const uint32_t all = bits == 32 ? 0xffffffffu : (1u << bits) - 1;
    const Lanes mask = {all, all, all, all};
    Lanes current = load_lanes(in);
    int shift = 0;
#pragma GCC unroll 32
    for (int row = 0; row < 32; row++) {
        Lanes values = current >> shift;
        shift += bits;
        if (shift >= 32 && row < 31) {
            in += 16;
            current = load_lanes(in);
            shift -= 32;
            if (shift) values |= current << (bits - shift);
        }
        values &= mask;
        memcpy(out + 4 * row, &values, 16);
    }
}

static void unpack(const uint8_t *in, uint32_t *out, int bits) {
#define CASE(n) \
    case n: unpack_bits(in, out, n); break;
    switch (bits) {
        case 0: memset(out, 0, 4 * BLOCK); break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24)
        CASE(25) CASE(26) CASE(27) CASE(28) CASE(29) CASE(30) CASE(31) CASE(32)
    }
#undef CASE
}

static void pack(const uint32_t *values, uint8_t *out, int bits) {
    uint32_t words[4 * 32] = {0};
    for (int i = 0; i < BLOCK; i++) {
        int bit = (i / 4) * bits, word = bit / 32, shift = bit % 32;
        if (!bits) break;
        words[4 * word + i % 4] |= values[i] << shift;
        if (shift + bits > 32) words[4 * (word + 1) + i % 4] |= values[i] >> (32 - shift);
    }
    memcpy(out, words, 16 * bits);
}

static int bit_length(uint32_t value) { return value ? 32 - __builtin_clz(value) : 0; }

INLINE const uint8_t *read_varint(const uint8_t *from, uint32_t *value) {
    uint32_t byte = *from++, result = byte & 0x7f;
    for (int shift = 7; byte & 0x80; shift += 7) {
        byte = *from++;
        result |= (byte & 0x7f) << shift;
    }
    *value = result;
    return from;
}

INLINE uint8_t *write_varint(uint8_t *to, uint32_t value) {
    while (value >= 0x80) {
        *to++ = value | 0x80;
        value >>= 7;
    }
    *to++ = value;
    return to;
}

/* Gap and frequency, one after the other; a gap takes 31 bits at most. */
static const uint8_t *read_posting(const uint8_t *from, uint32_t *document, uint32_t *frequency) {
    uint32_t value;
    from = read_varint(from, &value);
    *frequency = 1;
    if (!(value & 1)) from = read_varint(from, frequency);
    *document += (value >> 1) + 1;
    return from;
}

static uint8_t *write_posting(uint8_t *to, uint32_t gap, uint32_t frequency) {
    to = write_varint(to, gap << 1 | (frequency == 1));
    return frequency == 1 ? to : write_varint(to, frequency);
}

/* ---------------------------------------------------------------- reading postings ------------------------------- */

typedef struct {
    const Meta *metas; /* NULL for short lists, which are decoded as a whole */
    const uint8_t *data;
    uint32_t documents, blocks;
    int64_t block;      /* the block decoded below, -1 for none */
    int has_frequencies;
    uint32_t count;
    uint32_t document[BLOCK], frequency[BLOCK];
} List;

static void list_open(List *list, const Segment *segment, int64_t term) {
    const Term *entry = segment->terms + term;
    const uint8_t *start = segment->postings + entry->postings;
    list->documents = entry->documents;
    list->block = -1;
    if (entry->documents >= BLOCK) {
        list->blocks = (entry->documents + BLOCK - 1) / BLOCK;
        list->metas = (const Meta *)start;
        list->data = start + (list->blocks + 1) * sizeof(Meta);
        return;
    }
    list->metas = NULL;
    list->blocks = 1;
    list->block = 0;
    list->count = entry->documents;
    list->has_frequencies = 1;
    uint32_t document = 0xffffffffu;
    for (uint32_t i = 0; i < list->count; i++) {
        start = read_posting(start, &document, &list->frequency[i]);
        list->document[i] = document;
    }
}

static void list_decode(List *list, uint32_t block) {
    if (list->block == block) return;
    const Meta *meta = list->metas + block;
    const uint8_t *data = list->data + meta->place;
    uint32_t document = block ? meta[-1].last : 0xffffffffu;
    list->block = block;
    if ((block + 1) * (uint64_t)BLOCK > list->documents) {
        list->count = list->documents % BLOCK;
        for (uint32_t i = 0; i < list->count; i++) {
            data = read_posting(data, &document, &list->frequency[i]);
            list->document[i] = document;
        }
        list->has_frequencies = 1;
        return;
    }
    list->count = BLOCK;
    list->has_frequencies = 0;
    unpack(data, list->document, meta->gap_bits);
    for (int i = 0; i < BLOCK; i++) {
        document += list->document[i] + 1;
        list->document[i] = document;
    }
}

static void list_decode_frequencies(List *list) {
    if (list->has_frequencies) return;
    const Meta *meta = list->metas + list->block;
    unpack(list->data + meta->place + 16 * meta->gap_bits, list->frequency, meta->frequency_bits);
    for (int i = 0; i < BLOCK; i++) list->frequency[i]++;
    list->has_frequencies = 1;
}

INLINE uint32_t list_last(const List *list, uint32_t block) {
    return list->metas ? list->metas[block].last : list->document[list->count - 1];
}

static int has_bit(const uint8_t *bits, uint32_t i) { return bits[i >> 3] >> (i & 7) & 1; }

/* In how many documents that are not removed the term stands. */
EXPORT uint32_t sq_segment_live(const Segment *segment, int64_t term, const uint8_t *removed) {
    List list;
    uint32_t live = 0;
    list_open(&list, segment, term);
    for (uint32_t block = 0; block < list.blocks; block++) {
        if (list.metas) list_decode(&list, block);
        for (uint32_t i = 0; i < list.count; i++) live += !has_bit(removed, list.document[i]);
    }
    return live;
}

/* ---------------------------------------------------------------- search ----------------------------------------- */

/* Documents are looked at in windows. In each window the terms are ranked by the most they can add there (from the
 * blocks' metas). Those that cannot lift a document above the k-th best score even together are only looked up for
 * documents that the others, the essential ones, bring near enough (MaxScore, Turtle & Flood 1995, with block maxima,
 * Ding & Suel 2011). */

enum { WINDOW = 4096, DENSE_BLOCKS = 4, TABLE_FREQUENCIES = 4, TABLE_LENGTHS = 512, TABLE_FROM = 2048 };

typedef struct {
    List list;
    double weight;
    int64_t *table;      /* scores by frequency and length, NULL for rarer terms */
    uint32_t from;       /* first block that may reach into the current window */
    int64_t bound;       /* the most the term adds in the current window */
} Cursor;

typedef struct {
    int64_t score;
    uint32_t number;
} Found;

typedef struct {
    double k1, b, average;
    double norm[TABLE_LENGTHS];
} Formula;

INLINE double norm_of(const Formula *formula, uint32_t length) {
    return formula->k1 * (1.0 - formula->b + formula->b * (double)length / formula->average);
}

INLINE int64_t addend(const Formula *formula, double weight, uint32_t frequency, uint32_t length) {
    double norm = length < TABLE_LENGTHS ? formula->norm[length] : norm_of(formula, length);
    return (int64_t)(weight * frequency / (frequency + norm) * ONE + 0.5);
}

INLINE int64_t score_of(const Formula *formula, const Cursor *cursor, uint32_t frequency, uint32_t length) {
    if (cursor->table && frequency <= TABLE_FREQUENCIES && length < TABLE_LENGTHS)
        return cursor->table[(frequency - 1) * TABLE_LENGTHS + length];
    return addend(formula, cursor->weight, frequency, length);
}

static int64_t block_bound(const Formula *formula, const Cursor *cursor, const Meta *meta) {
    if (meta->highest == 0xffff) return (int64_t)(cursor->weight * ONE + 1.5);
    int64_t bound = score_of(formula, cursor, 1, meta->once);
    if (meta->highest > 1) {
        int64_t more = score_of(formula, cursor, meta->highest, meta->more);
        if (more > bound) bound = more;
    }
    return bound;
}

/* The worst of the best k stands at the root; of two equal ones the later document is the worse. */
static int worse(const Found *a, const Found *b) {
    return a->score != b->score ? a->score < b->score : a->number > b->number;
}

static void sift_down(Found *heap, int size, int at) {
    Found moved = heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= size) break;
        if (child + 1 < size && worse(heap + child + 1, heap + child)) child++;
        if (!worse(heap + child, &moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void heap_push(Found *heap, int *size, int k, Found found) {
    if (*size == k) {
        heap[0] = found;
        sift_down(heap, k, 0);
        return;
    }
    int at = (*size)++;
    while (at && worse(&found, heap + (at - 1) / 2)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = found;
}

typedef struct {
    const Segment *segment;
    const uint8_t *removed;
    const Formula *formula;
    Cursor *cursors;
    int count;
    Found *heap;
    int found, k;
    int64_t scores[WINDOW];          /* of the window's documents */
    uint64_t touched[WINDOW / 64];   /* which of them have a score, a bit each */
    uint32_t candidates[WINDOW];     /* those that may be among the best, and what they have so far */
    int64_t candidate_scores[WINDOW];
} Search;

static int64_t threshold(const Search *search) { return search->found == search->k ? search->heap[0].score : 0; }

/* Set the cursor to the window from `start` to before `end`, and its bound there. */
static void enter_window(const Search *search, Cursor *cursor, uint32_t start, uint32_t end) {
    List *list = &cursor->list;
    while (cursor->from < list->blocks && list_last(list, cursor->from) < start) cursor->from++;
    cursor->bound = 0;
    if (!list->metas) {
        if (cursor->from) return;
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t document = list->document[i];
            if (document < start) continue;
            if (document >= end) break;
            int64_t score =
                score_of(search->formula, cursor, list->frequency[i], search->segment->lengths[document]);
            if (score > cursor->bound) cursor->bound = score;
        }
        return;
    }
    if (list->blocks > DENSE_BLOCKS * (search->segment->header->documents / WINDOW + 1)) {
        cursor->bound = block_bound(search->formula, cursor, list->metas + list->blocks);
        return;
    }
    for (uint32_t block = cursor->from; block < list->blocks; block++) {
        if (block && list->metas[block - 1].last + 1 >= end) break;
        int64_t bound = block_bound(search->formula, cursor, list->metas + block);
        if (bound > cursor->bound) cursor->bound = bound;
    }
}

/* Add an essential term's scores to the window; `others` is the most that the other terms add there. */
static void accumulate(Search *search, Cursor *cursor, uint32_t start, uint32_t end, int64_t others) {
    List *list = &cursor->list;
    const uint32_t *lengths = search->segment->lengths;
    int64_t bar = threshold(search);
    for (uint32_t block = cursor->from; block < list->blocks; block++) {
        if (list->metas) {
            if (block && list->metas[block - 1].last + 1 >= end) break;
            if (block_bound(search->formula, cursor, list->metas + block) + others <= bar) continue;
            list_decode(list, block);
        }
        uint32_t i = 0, stop = list->count;
        while (i < stop && list->document[i] < start) i++;
        while (stop > i && list->document[stop - 1] >= end) stop--;
        if (i == stop) continue;
        if (list->metas && cursor->table && list->metas[block].highest == 1) {
            for (; i < stop; i++) {
                uint32_t document = list->document[i], length = lengths[document];
                search->scores[document - start] += length < TABLE_LENGTHS
                                                        ? cursor->table[length]
                                                        : addend(search->formula, cursor->weight, 1, length);
                search->touched[(document - start) >> 6] |= 1ull << (document & 63);
            }
            continue;
        }
        list_decode_frequencies(list);
        for (; i < stop; i++) {
            uint32_t document = list->document[i];
            search->scores[document - start] +=
                score_of(search->formula, cursor, list->frequency[i], lengths[document]);
            search->touched[(document - start) >> 6] |= 1ull << (document & 63);
        }
    }
}

/* What a term that is not essential adds to one document; documents ascend from call to call. */
static int64_t look_up(const Search *search, Cursor *cursor, uint32_t *block, uint32_t document) {
    List *list = &cursor->list;
    while (*block < list->blocks && list_last(list, *block) < document) (*block)++;
    if (*block == list->blocks) return 0;
    if (list->metas) list_decode(list, *block);
    uint32_t low = 0;
    for (uint32_t step = BLOCK / 2; step; step /= 2) /* without branches: their outcome cannot be foreseen */
        low += low + step <= list->count && list->document[low + step - 1] < document ? step : 0;
    if (low == list->count || list->document[low] != document) return 0;
    list_decode_frequencies(list);
    return score_of(search->formula, cursor, list->frequency[low], search->segment->lengths[document]);
}

static int compare_cursors(const void *a, const void *b) {
    int64_t x = (*(Cursor *const *)a)->bound, y = (*(Cursor *const *)b)->bound;
    return (x > y) - (x < y);
}

/* By bound, ascending. */
static void sort_cursors(const Search *search, Cursor **order) {
    for (int i = 0; i < search->count; i++) order[i] = search->cursors + i;
    if (search->count > 32) {
        qsort(order, search->count, sizeof(Cursor *), compare_cursors);
        return;
    }
    for (int i = 1; i < search->count; i++) {
        Cursor *cursor = order[i];
        int at = i;
        for (; at && order[at - 1]->bound > cursor->bound; at--) order[at] = order[at - 1];
        order[at] = cursor;
    }
}

static void search_window(Search *search, uint32_t start, uint32_t end, Cursor **order) {
    int64_t sum = 0;
    for (int i = 0; i < search->count; i++) {
        enter_window(search, search->cursors + i, start, end);
        sum += search->cursors[i].bound;
    }
    int64_t bar = threshold(search);
    if (sum <= bar) return;
    sort_cursors(search, order);
    int essential = 0;
    int64_t below = 0;
    while (below + order[essential]->bound <= bar) below += order[essential++]->bound;

    for (int i = search->count - 1; i >= essential; i--)
        if (order[i]->bound) accumulate(search, order[i], start, end, sum - order[i]->bound);

    uint32_t count = 0;
    for (uint32_t group = 0; group < WINDOW / 64; group++) {
        uint64_t bits = search->touched[group];
        search->touched[group] = 0;
        for (; bits; bits &= bits - 1) {
            uint32_t i = 64 * group + __builtin_ctzll(bits);
            int64_t score = search->scores[i];
            search->scores[i] = 0;
            search->candidates[count] = start + i;
            search->candidate_scores[count] = score;
            count += score + below > bar;
        }
    }
    int64_t left = below;
    for (int i = essential - 1; i >= 0 && count; i--) {
        Cursor *cursor = order[i];
        if (!cursor->bound) break;
        left -= cursor->bound;
        uint32_t kept = 0, block = cursor->from;
        for (uint32_t c = 0; c < count; c++) {
            uint32_t document = search->candidates[c];
            int64_t score = search->candidate_scores[c] + look_up(search, cursor, &block, document);
            search->candidates[kept] = document;
            search->candidate_scores[kept] = score;
            kept += score + left > bar;
        }
        count = kept;
    }
    for (uint32_t c = 0; c < count; c++) {
        uint32_t document = search->candidates[c];
        int64_t score = search->candidate_scores[c];
        if (score > threshold(search) && !(search->removed && has_bit(search->removed, document)))
            heap_push(search->heap, &search->found, search->k,
                      (Found){score, search->segment->numbers[document]});
    }
}

static int compare_found(const void *a, const void *b) { return worse(a, b) ? 1 : -1; }

/* The best k documents of one query over all segments, best first; how many there are, or -1 without memory.
 * terms[t * segments + s] is the number of term t in segment s, or -1. */
static int search_one(int segments, Segment *const *segment, const uint8_t *const *removed, int terms,
                      const int64_t *term, const double *weights, const Formula *formula, int k, uint32_t *numbers,
                      int64_t *scores, Cursor *cursors, Cursor **order, int64_t *tables, Search *search) {
    search->formula = formula;
    search->cursors = cursors;
    search->k = k;
    search->found = 0;
    for (int s = 0; s < segments; s++) {
        search->segment = segment[s];
        search->removed = removed[s];
        search->count = 0;
        for (int t = 0; t < terms; t++) {
            int64_t number = term[(int64_t)t * segments + s];
            if (number < 0) continue;
            Cursor *cursor = cursors + search->count;
            list_open(&cursor->list, segment[s], number);
            cursor->weight = weights[t];
            cursor->from = 0;
            cursor->table = NULL;
            if (cursor->list.documents >= TABLE_FROM) {
                int64_t *table = tables + (int64_t)search->count * TABLE_FREQUENCIES * TABLE_LENGTHS;
                for (uint32_t f = 1; f <= TABLE_FREQUENCIES; f++)
                    for (uint32_t length = 0; length < TABLE_LENGTHS; length++)
                        table[(f - 1) * TABLE_LENGTHS + length] = addend(formula, weights[t], f, length);
                cursor->table = table;
            }
            search->count++;
        }
        if (!search->count) continue;
        uint32_t documents = segment[s]->header->documents;
        for (uint32_t start = 0; start < documents; start += WINDOW)
            search_window(search, start, start + WINDOW < documents ? start + WINDOW : documents, order);
    }
    qsort(search->heap, search->found, sizeof(Found), compare_found);
    for (int i = 0; i < search->found; i++) {
        numbers[i] = search->heap[i].number;
        scores[i] = search->heap[i].score;
    }
    return search->found;
}

typedef struct {
    int segments, queries, k;
    Segment *const *segment;
    const uint8_t *const *removed;
    const int64_t *places; /* queries + 1: where each query's terms begin */
    const int64_t *term;
    const double *weights;
    const Formula *formula;
    uint32_t *numbers;
    int64_t *scores;
    int32_t *counts;
    int next, failed;
} Batch;

static void *work(void *argument) {
    Batch *batch = argument;
    int64_t most = 1;
    for (int q = 0; q < batch->queries; q++)
        if (batch->places[q + 1] - batch->places[q] > most) most = batch->places[q + 1] - batch->places[q];
    Search *search = calloc(1, sizeof(Search));
    Found *heap = malloc(batch->k * sizeof(Found));
    Cursor *cursors = malloc(most * sizeof(Cursor));
    Cursor **order = malloc(most * sizeof(Cursor *));
    int64_t *tables = malloc(most * sizeof(int64_t) * TABLE_FREQUENCIES * TABLE_LENGTHS);
    if (!search || !heap || !cursors || !order || !tables) {
        __atomic_store_n(&batch->failed, 1, __ATOMIC_RELAXED);
    } else {
        int q;
        search->heap = heap;
        while ((q = __atomic_fetch_add(&batch->next, 1, __ATOMIC_RELAXED)) < batch->queries) {
            int64_t place = batch->places[q];
            batch->counts[q] = search_one(
                batch->segments, batch->segment, batch->removed, (int)(batch->places[q + 1] - place),
                batch->term + place * batch->segments, batch->weights + place, batch->formula, batch->k,
                batch->numbers + (int64_t)q * batch->k, batch->scores + (int64_t)q * batch->k, cursors, order, tables,
                search);
        }
    }
    free(search), free(heap), free(cursors), free(order), free(tables);
    return NULL;
}

/* Many queries at once, on so many threads; 0, or -1 without memory. */
EXPORT int sq_search(int segments, Segment *const *segment, const uint8_t *const *removed, int queries,
                     const int64_t *places, const int64_t *term, const double *weights, double k1, double b,
                     double average, int k, uint32_t *numbers, int64_t *scores, int32_t *counts, int threads) {
    Formula *formula = malloc(sizeof(Formula));
    if (!formula) return -1;
    formula->k1 = k1, formula->b = b, formula->average = average;
    for (uint32_t length = 0; length < TABLE_LENGTHS; length++) formula->norm[length] = norm_of(formula, length);
    Batch batch = {segments, queries, k,       segment, removed, places, term,
                   weights,  formula, numbers, scores,  counts,  0,      0};
    pthread_t started[64];
    int count = 0;
    for (int i = 1; i < threads && i < 64 && i < queries; i++)
        if (!pthread_create(&started[count], NULL, work, &batch)) count++;
    work(&batch);
    for (int i = 0; i < count; i++) pthread_join(started[i], NULL);
    free(formula);
    return batch.failed ? -1 : 0;
}

/* ---------------------------------------------------------------- vectors ---------------------------------------- */

/* Dot products of a query with rows of half-precision numbers. */

static float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff, bits;
    if (exponent == 0x1f)
        bits = sign | 0x7f800000u | fraction << 13;
    else if (exponent)
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        float value = fraction * 5.9604644775390625e-8f; /* 2 ** -24 */
        return sign ? -value : value;
    }
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void dots_plain(const uint16_t *rows, uint32_t count, uint32_t width, const float *query, float *out) {
    for (uint32_t row = 0; row < count; row++, rows += width) {
        float sum = 0;
        for (uint32_t i = 0; i < width; i++) sum += half_to_float(rows[i]) * query[i];
        out[row] = sum;
    }
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { PLAIN, AVX2, AVX512 };
static int vectors; /* the widest that the CPU has and the system keeps; zig links no __builtin_cpu_supports */

__attribute__((constructor)) static void find_vectors(void) {
    uint32_t a, b, c, d, kept, high;
    const uint32_t wanted = bit_OSXSAVE | bit_FMA | bit_F16C;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & wanted) != wanted || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if ((b & bit_AVX2) && (kept & 0x06) == 0x06) vectors = AVX2;
    if ((b & bit_AVX512F) && (kept & 0xe6) == 0xe6) vectors = AVX512;
}

__attribute__((target("avx512f"))) static void dots_avx512(const uint16_t *rows, uint32_t count, uint32_t width,
                                                          const float *query, float *out) {
    for (uint32_t row = 0; row < count; row++, rows += width) {
        __m512 a = _mm512_setzero_ps(), b = a;
        uint32_t i = 0;
        for (; i + 32 <= width; i += 32) {
            __m512 x = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(rows + i)));
            __m512 y = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(rows + i + 16)));
            a = _mm512_fmadd_ps(x, _mm512_loadu_ps(query + i), a);
            b = _mm512_fmadd_ps(y, _mm512_loadu_ps(query + i + 16), b);
        }
        float sum = _mm512_reduce_add_ps(_mm512_add_ps(a, b));
        for (; i < width; i++) sum += half_to_float(rows[i]) * query[i];
        out[row] = sum;
    }
}

__attribute__((target("avx2,fma,f16c"))) static void dots_avx2(const uint16_t *rows, uint32_t count, uint32_t width,
                                                              const float *query, float *out) {
    for (uint32_t row = 0; row < count; row++, rows += width) {
        __m256 a = _mm256_setzero_ps(), b = a;
        uint32_t i = 0;
        for (; i + 16 <= width; i += 16) {
            __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(rows + i)));
            __m256 y = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(rows + i + 8)));
            a = _mm256_fmadd_ps(x, _mm256_loadu_ps(query + i), a);
            b = _mm256_fmadd_ps(y, _mm256_loadu_ps(query + i + 8), b);
        }
        float parts[8], sum = 0;
        _mm256_storeu_ps(parts, _mm256_add_ps(a, b));
        for (int lane = 0; lane < 8; lane++) sum += parts[lane];
        for (; i < width; i++) sum += half_to_float(rows[i]) * query[i];
        out[row] = sum;
    }
}
#endif

static void dots(const uint16_t *rows, uint32_t count, uint32_t width, const float *query, float *out) {
#if defined(__x86_64__)
    if (vectors == AVX512) {
        dots_avx512(rows, count, width, query, out);
        return;
    }
    if (vectors == AVX2) {
        dots_avx2(rows, count, width, query, out);
        return;
    }
#endif
    dots_plain(rows, count, width, query, out);
}

enum { CHUNK = 512 };

typedef struct {
    const uint16_t *rows;
    uint32_t from, to, width;
    const float *query;
    const uint8_t *hidden;
    int k, found;
    Found *heap; /* scores as the integers that order like the floats */
} Nearest;

static int64_t ordered(float value) {
    int32_t bits;
    memcpy(&bits, &value, 4);
    return bits < 0 ? -(int64_t)(bits & 0x7fffffff) : bits;
}

static float unordered(int64_t value) {
    uint32_t bits = value < 0 ? (uint32_t)-value | 0x80000000u : (uint32_t)value;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

static void *nearest_work(void *argument) {
    Nearest *work = argument;
    float scores[CHUNK];
    for (uint32_t start = work->from; start < work->to; start += CHUNK) {
        uint32_t count = work->to - start < CHUNK ? work->to - start : CHUNK;
        dots(work->rows + (size_t)start * work->width, count, work->width, work->query, scores);
        for (uint32_t i = 0; i < count; i++) {
            Found found = {ordered(scores[i]), start + i};
            if (work->found == work->k && !worse(work->heap, &found)) continue;
            if (work->hidden && has_bit(work->hidden, start + i)) continue;
            heap_push(work->heap, &work->found, work->k, found);
        }
    }
    return NULL;
}

/* The k rows with the largest dot product, best first; how many there are, or -1 without memory. */
EXPORT int sq_nearest(const uint16_t *rows, uint32_t count, uint32_t width, const float *query, const uint8_t *hidden,
                      int k, uint32_t *out_rows, float *out_scores, int threads) {
    if (threads > 64) threads = 64;
    if (threads < 1 || count < 4 * CHUNK) threads = 1;
    Found *heaps = malloc((size_t)threads * k * sizeof(Found));
    if (!heaps) return -1;
    Nearest work[64];
    pthread_t started[64];
    int running[64] = {0};
    for (int t = 0; t < threads; t++) {
        work[t] = (Nearest){rows,  (uint32_t)((uint64_t)count * t / threads), (uint32_t)((uint64_t)count * (t + 1) / threads),
                            width, query,                                     hidden,
                            k,     0,                                         heaps + (size_t)t * k};
        if (t) running[t] = !pthread_create(&started[t], NULL, nearest_work, work + t);
    }
    nearest_work(work);
    int total = work[0].found;
    for (int t = 1; t < threads; t++) {
        if (running[t])
            pthread_join(started[t], NULL);
        else
            nearest_work(work + t);
        memmove(heaps + total, work[t].heap, work[t].found * sizeof(Found));
        total += work[t].found;
    }
    qsort(heaps, total, sizeof(Found), compare_found);
    if (total > k) total = k;
    for (int i = 0; i < total; i++) {
        out_rows[i] = heaps[i].number;
        out_scores[i] = unordered(heaps[i].score);
    }
    free(heaps);
    return total;
}

/* ---------------------------------------------------------------- stems ------------------------------------------ */

static int consonant(const uint8_t *word, int i) {
    switch (word[i]) {
        case 'a': case 'e': case 'i': case 'o': case 'u': return 0;
        case 'y': return i == 0 || !consonant(word, i - 1);
        default: return 1;
    }
}

static int measure(const uint8_t *word, int size) {
    int count = 0, vowel = 0;
    for (int i = 0; i < size; i++) {
        int is_consonant = consonant(word, i);
        count += is_consonant && vowel;
        vowel = !is_consonant;
    }
    return count;
}

static int has_vowel(const uint8_t *word, int size) {
    for (int i = 0; i < size; i++)
        if (!consonant(word, i)) return 1;
    return 0;
}

static int double_consonant(const uint8_t *word, int size) {
    return size >= 2 && word[size - 1] == word[size - 2] && consonant(word, size - 1);
}

static int cvc(const uint8_t *word, int size) {
    return size >= 3 && consonant(word, size - 1) && !consonant(word, size - 2) && consonant(word, size - 3) &&
           !strchr("wxy", word[size - 1]);
}

static int ends(const uint8_t *word, int size, const char *suffix) {
    int length = strlen(suffix);
    return size >= length && !memcmp(word + size - length, suffix, length);
}

typedef struct {
    const char *suffix, *new;
} Rule;

static const Rule STEP2[] = {
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},   {"izer", "ize"},    {"bli", "ble"},
    {"alli", "al"},     {"entli", "ent"},   {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
    {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},
    {"iviti", "ive"},   {"biliti", "ble"},  {"logi", "log"},    {NULL, NULL}};
static const Rule STEP3[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                             {"ical", "ic"},  {"ful", ""},   {"ness", ""},    {NULL, NULL}};
static const Rule STEP4[] = {{"al", ""},  {"ance", ""}, {"ence", ""}, {"er", ""},  {"ic", ""},  {"able", ""}, {"ible", ""},
                             {"ant", ""}, {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ion", ""}, {"ou", ""},   {"ism", ""},
                             {"ate", ""}, {"iti", ""},  {"ous", ""},  {"ive", ""}, {"ize", ""}, {NULL, NULL}};

static const Rule *longest_rule(const uint8_t *word, int size, const Rule *rules) {
    const Rule *best = NULL;
    for (const Rule *rule = rules; rule->suffix; rule++)
        if (ends(word, size, rule->suffix) && (!best || strlen(rule->suffix) > strlen(best->suffix))) best = rule;
    return best;
}

static int replace(uint8_t *word, int size, const Rule *rules) {
    const Rule *rule = longest_rule(word, size, rules);
    if (!rule) return size;
    int base = size - strlen(rule->suffix);
    if (measure(word, base) == 0) return size;
    int length = strlen(rule->new);
    memcpy(word + base, rule->new, length);
    return base + length;
}

static int step1(uint8_t *word, int size) {
    if (ends(word, size, "sses") || ends(word, size, "ies"))
        size -= 2;
    else if (ends(word, size, "s") && !ends(word, size, "ss"))
        size -= 1;
    if (ends(word, size, "eed")) {
        if (measure(word, size - 3) > 0) size -= 1;
    } else {
        int base = ends(word, size, "ed") ? size - 2 : ends(word, size, "ing") ? size - 3 : -1;
        if (base >= 0 && has_vowel(word, base)) {
            size = base;
            if (ends(word, size, "at") || ends(word, size, "bl") || ends(word, size, "iz"))
                word[size++] = 'e';
            else if (double_consonant(word, size) && !strchr("lsz", word[size - 1]))
                size -= 1;
            else if (measure(word, size) == 1 && cvc(word, size))
                word[size++] = 'e';
        }
    }
    if (ends(word, size, "y") && has_vowel(word, size - 1)) word[size - 1] = 'i';
    return size;
}

/* Porter's stemmer in place; the new size. */
static int stem(uint8_t *word, int size) {
    if (size <= 2) return size;
    for (int i = 0; i < size; i++)
        if (word[i] < 'a' || word[i] > 'z') return size;
    size = step1(word, size);
    size = replace(word, size, STEP2);
    size = replace(word, size, STEP3);
    const Rule *rule = longest_rule(word, size, STEP4);
    if (rule) {
        int base = size - strlen(rule->suffix);
        if (measure(word, base) > 1 && (strcmp(rule->suffix, "ion") || (base && strchr("st", word[base - 1])))) size = base;
    }
    if (ends(word, size, "e")) {
        int m = measure(word, size - 1);
        if (m > 1 || (m == 1 && !cvc(word, size - 1))) size -= 1;
    }
    if (ends(word, size, "ll") && measure(word, size - 1) > 1) size -= 1;
    return size;
}

/* ---------------------------------------------------------------- collecting terms ------------------------------- */

/* A growing array of bytes. */
typedef struct {
    uint8_t *data;
    size_t size, room;
} Bytes;

static int bytes_reserve(Bytes *bytes, size_t more) {
    if (bytes->size + more <= bytes->room) return 1;
    size_t room = bytes->room + bytes->room / 2 + more + 4096;
    uint8_t *data = realloc(bytes->data, room);
    if (!data) return 0;
    bytes->data = data;
    bytes->room = room;
    return 1;
}

/* Strings to numbers counted from 0: open addressing over a table of entries. */
typedef struct {
    uint32_t hash, string;
    uint32_t value;
    uint32_t size;
} Entry;

typedef struct {
    Bytes strings;
    Entry *entries;
    uint32_t count, room;
    uint32_t *slots;
    uint32_t mask;
} Dictionary;

static int dictionary_open(Dictionary *dictionary) {
    dictionary->mask = (1u << 12) - 1;
    dictionary->slots = calloc(dictionary->mask + 1, sizeof(uint32_t));
    return dictionary->slots != NULL;
}

static void dictionary_close(Dictionary *dictionary) {
    free(dictionary->strings.data), free(dictionary->entries), free(dictionary->slots);
}

static int dictionary_grow(Dictionary *dictionary) {
    uint32_t mask = dictionary->mask * 2 + 1;
    uint32_t *slots = calloc((size_t)mask + 1, sizeof(uint32_t));
    if (!slots) return 0;
    for (uint32_t i = 0; i < dictionary->count; i++) {
        uint32_t at = dictionary->entries[i].hash & mask;
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->mask = mask;
    return 1;
}

/* The entry of the string, made if it is new (then *is_new is 1); NULL without memory. */
static Entry *dictionary_get(Dictionary *dictionary, const uint8_t *word, uint32_t size, uint32_t hash, int *is_new) {
    *is_new = 0;
    uint32_t at = hash & dictionary->mask;
    for (; dictionary->slots[at]; at = (at + 1) & dictionary->mask) {
        Entry *entry = dictionary->entries + dictionary->slots[at] - 1;
        if (entry->hash == hash && entry->size == size &&
            !memcmp(dictionary->strings.data + entry->string, word, size))
            return entry;
    }
    if (dictionary->count == dictionary->room) {
        uint32_t room = dictionary->room * 2 + 1024;
        Entry *entries = realloc(dictionary->entries, room * sizeof(Entry));
        if (!entries) return NULL;
        dictionary->entries = entries;
        dictionary->room = room;
    }
    if (!bytes_reserve(&dictionary->strings, size)) return NULL;
    Entry *entry = dictionary->entries + dictionary->count++;
    *entry = (Entry){hash, (uint32_t)dictionary->strings.size, 0, size};
    memcpy(dictionary->strings.data + dictionary->strings.size, word, size);
    dictionary->strings.size += size;
    dictionary->slots[at] = dictionary->count;
    *is_new = 1;
    if (dictionary->count > dictionary->mask / 2 && !dictionary_grow(dictionary)) return NULL;
    return dictionary->entries + dictionary->count - 1;
}

/* The postings of a term while they are collected: a chain of slices in one pool, and the newest posting, whose
 * frequency is still counted. A slice begins with the place of the next one (0 for none) and its own size. */
typedef struct {
    uint32_t first, slice, at, end; /* places in the pool: first slice, current slice, next byte, end of the slice */
    uint32_t documents;      /* written to the chain */
    uint32_t written;        /* last document written, plus 1 */
    uint32_t document;       /* the newest, plus 1 */
    uint32_t frequency;
} Chain;

typedef struct {
    int stems;
    Dictionary words, terms; /* words as they stand in texts; their stems */
    Chain *chains;
    uint32_t chain_room;
    Bytes pool;
    uint32_t *numbers, *lengths;
    uint32_t documents, document_room;
    uint64_t total_length;
    uint32_t max_length;
} Builder;

EXPORT void sq_builder_close(Builder *builder) {
    dictionary_close(&builder->words);
    dictionary_close(&builder->terms);
    free(builder->chains), free(builder->pool.data), free(builder->numbers), free(builder->lengths);
    free(builder);
}

EXPORT Builder *sq_builder_open(int stems) {
    Builder *builder = calloc(1, sizeof(Builder));
    if (!builder) return NULL;
    builder->stems = stems;
    if (!dictionary_open(&builder->words) || !dictionary_open(&builder->terms) || !bytes_reserve(&builder->pool, 16)) {
        sq_builder_close(builder);
        return NULL;
    }
    builder->pool.size = 16; /* place 0 means none */
    return builder;
}

EXPORT uint64_t sq_builder_memory(const Builder *builder) {
    return builder->pool.size + builder->words.strings.size + builder->terms.strings.size +
           (uint64_t)(builder->words.count + builder->terms.count) * (sizeof(Entry) + 8) +
           (uint64_t)builder->terms.count * sizeof(Chain) + (uint64_t)builder->documents * 8;
}

enum { SLICE_HEAD = 8 };

static int chain_bytes(Builder *builder, Chain *chain, const uint8_t *from, uint32_t count) {
    while (count) {
        if (chain->at == chain->end) {
            uint32_t n = chain->documents, size = n < 2 ? 8 : n < 32 ? 32 : n < 512 ? 248 : 1016;
            if (builder->pool.size > 0xffff0000u || !bytes_reserve(&builder->pool, SLICE_HEAD + size)) return 0;
            uint32_t place = builder->pool.size, head[2] = {0, size};
            memcpy(builder->pool.data + place, head, SLICE_HEAD);
            builder->pool.size += SLICE_HEAD + size;
            if (chain->first)
                memcpy(builder->pool.data + chain->slice, &place, 4);
            else
                chain->first = place;
            chain->slice = place;
            chain->at = place + SLICE_HEAD;
            chain->end = chain->at + size;
        }
        uint32_t part = chain->end - chain->at < count ? chain->end - chain->at : count;
        memcpy(builder->pool.data + chain->at, from, part);
        chain->at += part;
        from += part;
        count -= part;
    }
    return 1;
}

/* Write the newest posting to the chain. */
static int chain_flush(Builder *builder, Chain *chain) {
    if (chain->document == chain->written) return 1;
    uint8_t bytes[16];
    uint8_t *end = write_posting(bytes, chain->document - chain->written - 1, chain->frequency);
    if (!chain_bytes(builder, chain, bytes, end - bytes)) return 0;
    chain->written = chain->document;
    chain->documents++;
    return 1;
}

static uint32_t hash_bytes(const uint8_t *word, uint32_t size) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
    while (size >= 8) {
        uint64_t part;
        memcpy(&part, word, 8);
        hash = (hash ^ part) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        word += 8, size -= 8;
    }
    if (size) {
        uint64_t part = 0;
        memcpy(&part, word, size);
        hash = (hash ^ part) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return (uint32_t)(hash ^ hash >> 29);
}

/* The number of a word's term; -1 without memory. */
static int64_t term_of(Builder *builder, const uint8_t *word, uint32_t size) {
    int is_new;
    Entry *entry = dictionary_get(&builder->words, word, size, hash_bytes(word, size), &is_new);
    if (!entry) return -1;
    if (!is_new) return entry->value;
    uint32_t word_number = builder->words.count - 1;
    uint8_t stemmed[MAX_TERM + 8];
    memcpy(stemmed, word, size);
    if (builder->stems) size = stem(stemmed, size);
    entry = dictionary_get(&builder->terms, stemmed, size, hash_bytes(stemmed, size), &is_new);
    if (!entry) return -1;
    if (is_new) {
        uint32_t number = builder->terms.count - 1;
        entry->value = number;
        if (number == builder->chain_room) {
            uint32_t room = builder->chain_room * 2 + 1024;
            Chain *chains = realloc(builder->chains, room * sizeof(Chain));
            if (!chains) return -1;
            builder->chains = chains;
            builder->chain_room = room;
        }
        memset(builder->chains + number, 0, sizeof(Chain));
    }
    builder->words.entries[word_number].value = entry->value;
    return entry->value;
}

/* 0 for bytes between words, else the byte in lower case. */
INLINE uint8_t word_byte(uint8_t byte) {
    if (byte >= 'A' && byte <= 'Z') return byte + 32;
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 0x80 ? byte : 0;
}

static int add_document(Builder *builder, uint32_t number, const uint8_t *text, size_t size, const uint8_t *classes) {
    if (builder->documents == builder->document_room) {
        uint32_t room = builder->document_room * 2 + 1024;
        uint32_t *numbers = realloc(builder->numbers, room * sizeof(uint32_t));
        if (numbers) builder->numbers = numbers;
        uint32_t *lengths = realloc(builder->lengths, room * sizeof(uint32_t));
        if (lengths) builder->lengths = lengths;
        if (!numbers || !lengths) return 0;
        builder->document_room = room;
    }
    uint32_t local = builder->documents, length = 0;
    for (size_t i = 0; i < size;) {
        if (!classes[text[i]]) {
            i++;
            continue;
        }
        uint8_t word[MAX_TERM];
        uint32_t letters = 0;
        for (uint8_t byte; i < size && (byte = classes[text[i]]); i++)
            if (letters < MAX_TERM) word[letters++] = byte;
        if (i + 1 < size && text[i] == '\'' && (text[i + 1] | 32) == 's' && (i + 2 == size || !classes[text[i + 2]])) i += 2;
        int64_t term = term_of(builder, word, letters);
        if (term < 0) return 0;
        length++;
        Chain *chain = builder->chains + term;
        if (chain->document == local + 1) {
            chain->frequency++;
            continue;
        }
        if (!chain_flush(builder, chain)) return 0;
        chain->document = local + 1;
        chain->frequency = 1;
    }
    builder->numbers[local] = number;
    builder->lengths[local] = length;
    builder->total_length += length;
    if (length > builder->max_length) builder->max_length = length;
    builder->documents++;
    return 1;
}

/* Folded texts, one after the other; places[i] is where text i begins. 0, or -1 without memory. */
EXPORT int sq_builder_add(Builder *builder, uint32_t count, const uint32_t *numbers, const uint8_t *texts,
                          const uint64_t *places) {
    uint8_t classes[256];
    for (int byte = 0; byte < 256; byte++) classes[byte] = word_byte(byte);
    for (uint32_t i = 0; i < count; i++)
        if (!add_document(builder, numbers[i], texts + places[i], places[i + 1] - places[i], classes)) return -1;
    return 0;
}

/* ---------------------------------------------------------------- writing segments ------------------------------- */

typedef struct {
    int handle, failed;
    uint64_t place;
    size_t size;
    uint8_t buffer[1 << 20];
} Output;

static void output_flush(Output *output) {
    size_t done = 0;
    while (done < output->size && !output->failed) {
        ssize_t part = write(output->handle, output->buffer + done, output->size - done);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0)
            output->failed = 1;
        else
            done += part;
    }
    output->size = 0;
}

static void output_write(Output *output, const void *from, size_t count) {
    const uint8_t *bytes = from;
    output->place += count;
    while (count) {
        if (output->size == sizeof output->buffer) output_flush(output);
        size_t part = sizeof output->buffer - output->size < count ? sizeof output->buffer - output->size : count;
        memcpy(output->buffer + output->size, bytes, part);
        output->size += part;
        bytes += part;
        count -= part;
    }
}

static void output_pad(Output *output, uint64_t start, int to) {
    static const uint8_t zeros[8] = {0};
    uint64_t over = (output->place - start) % to;
    if (over) output_write(output, zeros, to - over);
}

typedef struct {
    const uint8_t *string;
    uint32_t size, number;
} Sorted;

static int compare_sorted(const void *a, const void *b) {
    const Sorted *x = a, *y = b;
    return compare_bytes(x->string, x->size, y->string, y->size);
}

/* A chain's bytes in one piece. */
static int chain_gather(const Builder *builder, const Chain *chain, Bytes *out) {
    out->size = 0;
    for (uint32_t slice = chain->first; slice;) {
        uint32_t head[2];
        memcpy(head, builder->pool.data + slice, SLICE_HEAD);
        uint32_t count = slice == chain->slice ? chain->at - slice - SLICE_HEAD : head[1];
        if (!bytes_reserve(out, count)) return 0;
        memcpy(out->data + out->size, builder->pool.data + slice + SLICE_HEAD, count);
        out->size += count;
        slice = slice == chain->slice ? 0 : head[0];
    }
    return 1;
}

/* The postings of a term with at least BLOCK documents. */
static int write_blocks(const Builder *builder, uint32_t documents, const uint8_t *from, Bytes *metas, Bytes *data,
                        Output *output) {
    uint32_t document = 0xffffffffu;
    Meta whole = {0, 0, 0, 0, 0, 0xffff, 0xffff};
    metas->size = data->size = 0;
    for (uint32_t start = 0; start < documents; start += BLOCK) {
        uint32_t count = documents - start < BLOCK ? documents - start : BLOCK;
        uint32_t gaps[BLOCK], extra[BLOCK], widest_gap = 0, widest_extra = 0, once = 0xffff, more = 0xffff;
        const uint8_t *begin = from;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t before = document, frequency;
            from = read_posting(from, &document, &frequency);
            gaps[i] = document - before - 1;
            extra[i] = frequency - 1;
            if (gaps[i] > widest_gap) widest_gap = gaps[i];
            if (extra[i] > widest_extra) widest_extra = extra[i];
            uint32_t length = builder->lengths[document];
            if (frequency == 1 && length < once) once = length;
            if (frequency > 1 && length < more) more = length;
        }
        Meta meta = {document, (uint32_t)data->size, 0, 0, widest_extra + 1 < 0xffff ? widest_extra + 1 : 0xffff,
                     once,     more};
        if (meta.highest > whole.highest) whole.highest = meta.highest;
        if (meta.once < whole.once) whole.once = meta.once;
        if (meta.more < whole.more) whole.more = meta.more;
        if (!bytes_reserve(metas, 2 * sizeof meta) || !bytes_reserve(data, 16 * 64 + (from - begin))) return 0;
        if (count == BLOCK) {
            meta.gap_bits = bit_length(widest_gap);
            meta.frequency_bits = bit_length(widest_extra);
            pack(gaps, data->data + data->size, meta.gap_bits);
            data->size += 16 * meta.gap_bits;
            pack(extra, data->data + data->size, meta.frequency_bits);
            data->size += 16 * meta.frequency_bits;
        } else {
            memcpy(data->data + data->size, begin, from - begin);
            data->size += from - begin;
        }
        memcpy(metas->data + metas->size, &meta, sizeof meta);
        metas->size += sizeof meta;
    }
    whole.last = document;
    whole.place = data->size;
    memcpy(metas->data + metas->size, &whole, sizeof whole);
    metas->size += sizeof whole;
    output_write(output, metas->data, metas->size);
    output_write(output, data->data, data->size);
    return 1;
}

/* Everything but the check, which the caller appends. 0, -1 without memory, -2 where the file cannot be written. */
EXPORT int sq_builder_write(Builder *builder, int handle) {
    uint32_t terms = builder->terms.count;
    int result = -1;
    Output *output = malloc(sizeof(Output));
    Sorted *sorted = malloc((terms + 1) * sizeof(Sorted));
    Term *table = malloc((terms + 1) * sizeof(Term));
    Bytes bytes = {0}, metas = {0}, data = {0};
    if (!output || !sorted || !table) goto done;
    output->handle = handle, output->failed = 0, output->place = 0, output->size = 0;

    uint64_t strings = 0;
    for (uint32_t i = 0; i < terms; i++) {
        const Entry *entry = builder->terms.entries + i;
        sorted[i] = (Sorted){builder->terms.strings.data + entry->string, entry->size, entry->value};
        if (!chain_flush(builder, builder->chains + i)) goto done;
    }
    qsort(sorted, terms, sizeof(Sorted), compare_sorted);

    Header header = {.documents = builder->documents,
                     .terms = terms,
                     .total_length = builder->total_length,
                     .max_length = builder->max_length};
    memcpy(header.magic, MAGIC, 8);
    uint64_t words = ((uint64_t)builder->documents * 4 + 7) / 8 * 8;
    header.numbers = sizeof header;
    header.lengths = header.numbers + words;
    header.term_table = header.lengths + words;
    header.strings = header.term_table + (uint64_t)(terms + 1) * sizeof(Term);
    for (uint32_t i = 0; i < terms; i++) strings += sorted[i].size;
    header.postings = header.strings + (strings + 7) / 8 * 8;

    if (lseek(handle, header.postings, SEEK_SET) < 0) {
        result = -2;
        goto done;
    }
    uint64_t string = 0;
    for (uint32_t i = 0; i < terms; i++) {
        const Chain *chain = builder->chains + sorted[i].number;
        if (chain->documents >= BLOCK) output_pad(output, 0, 4);
        table[i] = (Term){output->place, chain->documents, (uint32_t)string};
        string += sorted[i].size;
        if (!chain_gather(builder, chain, &bytes)) goto done;
        if (chain->documents < BLOCK)
            output_write(output, bytes.data, bytes.size);
        else if (!write_blocks(builder, chain->documents, bytes.data, &metas, &data, output))
            goto done;
    }
    table[terms] = (Term){output->place, 0, (uint32_t)string};
    output_pad(output, 0, 8);
    header.check = header.postings + output->place;
    output_flush(output);

    if (lseek(handle, 0, SEEK_SET) < 0) output->failed = 1;
    output->place = 0;
    output_write(output, &header, sizeof header);
    output_write(output, builder->numbers, (size_t)builder->documents * 4);
    output_pad(output, 0, 8);
    output_write(output, builder->lengths, (size_t)builder->documents * 4);
    output_pad(output, 0, 8);
    output_write(output, table, (size_t)(terms + 1) * sizeof(Term));
    for (uint32_t i = 0; i < terms; i++) output_write(output, sorted[i].string, sorted[i].size);
    output_pad(output, 0, 8);
    output_flush(output);
    result = output->failed ? -2 : 0;
done:
    free(output), free(sorted), free(table), free(bytes.data), free(metas.data), free(data.data);
    return result;
}
