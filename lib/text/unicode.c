#include "text/unicode.h"

#include <string.h>

#include "base/utf8.h"
#include "text/unicode_hf.h"

struct lower_run {
    uint32_t first;
    uint16_t count, stride;
    int32_t delta;
};
struct ccc_run {
    uint32_t first;
    uint8_t count, ccc;
};
struct pair {
    uint32_t first, second, composite;
};

#include "text/unicode_tables.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BLOCK    128

uint32_t uc_props(uint32_t cp)
{
    return cp > 0x10FFFF ? 0 : prop_data[(size_t)prop_index[cp / BLOCK] * BLOCK + cp % BLOCK];
}

bool uc_is_word(uint32_t cp)
{
    uint32_t set = UC_LETTER | UC_MARK | UC_BIT(UC_ND) | UC_BIT(UC_NL) | UC_BIT(UC_PC);
    if (uc_in(uc_props(cp), set))
        return true;
    /* Other_Alphabetic symbols (circled and squared letters), and the two joiners. */
    return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
           (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C || cp == 0x200D;
}

uint32_t uc_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    size_t lo = 0, hi = COUNT(lower_runs);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const struct lower_run *r = &lower_runs[mid];
        uint32_t last = r->first + (uint32_t)(r->count - 1) * r->stride;
        if (cp < r->first)
            hi = mid;
        else if (cp > last)
            lo = mid + 1;
        else
            return (cp - r->first) % r->stride ? cp : (uint32_t)((int32_t)cp + r->delta);
    }
    return cp;
}

/* ---- Normalisation. Hangul by arithmetic (The Unicode Standard, 3.12); the rest by tables. */

enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28,
       S_COUNT = L_COUNT * V_COUNT * T_COUNT };

static uint8_t combining_class(uint32_t cp)
{
    size_t lo = 0, hi = COUNT(ccc_runs);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp < ccc_runs[mid].first)
            hi = mid;
        else if (cp >= ccc_runs[mid].first + ccc_runs[mid].count)
            lo = mid + 1;
        else
            return ccc_runs[mid].ccc;
    }
    return 0;
}

/* A run of code points that is normalised together. */
struct segment {
    const struct alloc *alloc;
    uint32_t *cps;
    uint8_t *ccc;
    uint32_t *spare; /* for sorting */
    size_t len, cap;
    bool no_memory;
    bool compat, old; /* NFKC, NFKD; characters newer than Unicode 9 do not change */
};

static bool segment_grow(struct segment *s)
{
    size_t cap = s->cap ? s->cap * 2 : 64;
    uint32_t *block = mem_array(s->alloc, cap, 9); /* cps, spare, ccc */
    if (!block) {
        s->no_memory = true;
        return false;
    }
    uint8_t *ccc = (uint8_t *)(block + 2 * cap);
    if (s->len) {
        memcpy(block, s->cps, s->len * sizeof *block);
        memcpy(ccc, s->ccc, s->len);
    }
    mem_free(s->alloc, s->cps);
    s->cps = block;
    s->spare = block + cap;
    s->ccc = ccc;
    s->cap = cap;
    return true;
}

static void segment_put(struct segment *s, uint32_t cp)
{
    if (s->len == s->cap && !segment_grow(s))
        return;
    s->cps[s->len] = cp;
    s->ccc[s->len++] = s->old && hf_is_inert(cp) ? 0 : combining_class(cp);
}

/* The decomposition of cp in a table: its first place in the table's data and the one behind its last. False: none. */
static bool find_decomposition(const uint32_t *cps, const uint16_t *off, size_t n, uint32_t cp, size_t *from, size_t *to)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cps[mid] < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == n || cps[lo] != cp)
        return false;
    *from = off[lo];
    *to = off[lo + 1];
    return true;
}

static void segment_decompose(struct segment *s, uint32_t cp)
{
    size_t from, to;
    if (s->old && hf_is_inert(cp)) {
        segment_put(s, cp);
        return;
    }
    if (s->compat && cp >= 0xA0 && find_decomposition(compat_cp, compat_off, COUNT(compat_cp), cp, &from, &to)) {
        for (size_t i = from; i < to; i++)
            segment_put(s, compat_data[i]);
        return;
    }
    if (cp < 0xC0) {
        segment_put(s, cp);
        return;
    }
    if (cp - S_BASE < S_COUNT) {
        uint32_t i = cp - S_BASE;
        segment_put(s, L_BASE + i / (V_COUNT * T_COUNT));
        segment_put(s, V_BASE + i % (V_COUNT * T_COUNT) / T_COUNT);
        if (i % T_COUNT)
            segment_put(s, T_BASE + i % T_COUNT);
        return;
    }
    if (!find_decomposition(decomp_cp, decomp_off, COUNT(decomp_cp), cp, &from, &to)) {
        segment_put(s, cp);
        return;
    }
    for (size_t i = from; i < to; i++)
        segment_put(s, decomp_data[i]);
}

/* Stable counting sort by combining class: a hostile run of marks must not take quadratic time. */
static void sort_marks(struct segment *s, size_t from, size_t to)
{
    size_t at[257] = {0};
    for (size_t i = from; i < to; i++)
        at[s->ccc[i] + 1]++;
    for (size_t c = 1; c < 257; c++)
        at[c] += at[c - 1];
    for (size_t i = from; i < to; i++)
        s->spare[at[s->ccc[i]]++] = s->cps[i];
    memcpy(s->cps + from, s->spare, (to - from) * sizeof *s->cps);
    for (size_t i = from; i < to; i++)
        s->ccc[i] = combining_class(s->cps[i]); /* none of them is inert: that one's class would be 0 */
}

static void segment_order(struct segment *s)
{
    for (size_t i = 0; i < s->len;) {
        size_t from = i;
        bool sorted = true;
        for (; i < s->len && s->ccc[i]; i++)
            sorted = sorted && (i == from || s->ccc[i - 1] <= s->ccc[i]);
        if (!sorted)
            sort_marks(s, from, i);
        while (i < s->len && !s->ccc[i])
            i++;
    }
}

/* 0: the two do not compose. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    size_t lo = 0, hi = COUNT(compose_pairs);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const struct pair *p = &compose_pairs[mid];
        if (p->first == a && p->second == b)
            return p->composite;
        if (p->first < a || (p->first == a && p->second < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

static void segment_compose(struct segment *s)
{
    size_t out = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < s->len; i++) {
        uint32_t cp = s->cps[i];
        uint8_t ccc = s->ccc[i];
        /* Blocked: something between the starter and this has no lower class. */
        bool blocked = starter == SIZE_MAX || (out > starter + 1 && (s->ccc[out - 1] >= ccc || !s->ccc[out - 1]));
        uint32_t c = blocked ? 0 : compose(s->cps[starter], cp);
        if (c && !(s->old && hf_is_inert(c))) {
            s->cps[starter] = c;
            continue;
        }
        if (!ccc)
            starter = out;
        s->cps[out] = cp;
        s->ccc[out++] = ccc;
    }
    s->len = out;
}

static void segment_flush(struct segment *s, enum uc_form form, struct buf *out)
{
    segment_order(s);
    if (form == UC_FORM_C || form == UC_FORM_KC)
        segment_compose(s);
    for (size_t i = 0; i < s->len; i++) {
        char utf8[4];
        buf_put(out, utf8, utf8_encode(s->cps[i], utf8));
    }
    s->len = 0;
}

/* Whether the compatibility decomposition begins with a character that may join what stands before it. */
static bool compat_joins(uint32_t cp)
{
    size_t from, to;
    return cp >= 0xA0 && find_decomposition(compat_cp, compat_off, COUNT(compat_cp), cp, &from, &to) &&
           (uc_props(compat_data[from]) & UC_NFC);
}

/* A segment begins at a character that neither changes nor joins what stands before it. */
static void normalize(enum uc_form form, bool old, const char *text, size_t len, struct buf *out)
{
    struct segment s = {.alloc = out->alloc, .old = old, .compat = form == UC_FORM_KC || form == UC_FORM_KD};
    size_t used = 0;
    for (size_t i = 0; i < len && buf_ok(out) && !s.no_memory; i += used) {
        uint32_t cp = (uint8_t)text[i];
        used = 1;
        if (cp >= 0x80)
            cp = utf8_decode(text + i, len - i, &used);
        if (cp == UTF8_BAD)
            cp = 0xFFFD;
        if (s.len && !(uc_props(cp) & UC_NFC) && !(s.compat && compat_joins(cp)))
            segment_flush(&s, form, out);
        segment_decompose(&s, cp);
    }
    segment_flush(&s, form, out);
    if (s.no_memory)
        out->no_memory = true;
    mem_free(s.alloc, s.cps);
}

void uc_normalize(enum uc_form form, const char *text, size_t len, struct buf *out)
{
    normalize(form, false, text, len, out);
}

void uc_normalize_old(enum uc_form form, const char *text, size_t len, struct buf *out)
{
    normalize(form, true, text, len, out);
}

bool uc_is_plain_nfc(const char *text, size_t len)
{
    size_t used;
    for (size_t i = 0; i < len; i += used) {
        used = 1;
        if ((uint8_t)text[i] < 0xCC) /* below U+0300, where the first such character is */
            continue;
        if (uc_props(utf8_decode(text + i, len - i, &used)) & UC_NFC)
            return false;
    }
    return true;
}

bool uc_in_ranges(const struct uc_range *r, size_t n, uint32_t cp)
{
    size_t lo = 0;
    while (lo < n) {
        size_t mid = (lo + n) / 2;
        if (cp < r[mid].first)
            n = mid;
        else if (cp > r[mid].last)
            lo = mid + 1;
        else
            return true;
    }
    return false;
}
