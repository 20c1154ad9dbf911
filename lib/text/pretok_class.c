/* Stages of pre-tokenizers that look for runs of one class of characters. */
#include <string.h>

#include "text/pretok_impl.h"

#define IN(ranges, cp) uc_in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), cp)

bool is_letter(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_LETTER);
}

bool is_number(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_NUMBER);
}

bool is_punct(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_PUNCTUATION);
}

bool is_ascii_digit(uint32_t cp)
{
    return cp >= '0' && cp <= '9';
}

bool is_newline(uint32_t cp)
{
    return cp == '\r' || cp == '\n';
}

static bool one_of(uint32_t cp, const char *ascii)
{
    return cp && cp < 0x80 && strchr(ascii, (int)cp);
}

bool is_punct_default(uint32_t cp)
{
    return is_punct(cp) || one_of(cp, "$+<=>^~|");
}

bool is_punct_falcon(uint32_t cp)
{
    return is_punct(cp) || one_of(cp, "$+<=>^~|`");
}

bool is_punct_ascii_too(uint32_t cp)
{
    return is_punct_falcon(cp); /* [\p{P}!-/:-@\[-`{-~]: the same symbols */
}

/* The letters with case of DeepSeek-LLM's expression. */
static const struct uc_range cased[] = {
    {0x41, 0x5A}, {0x61, 0x7A}, {0xB5, 0xB5}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1BA}, {0x1BC, 0x1BF},
    {0x1C4, 0x293}, {0x295, 0x2AF}, {0x370, 0x373}, {0x376, 0x376}, {0x377, 0x377}, {0x37B, 0x37D},
    {0x37F, 0x37F}, {0x386, 0x386}, {0x388, 0x38A}, {0x38C, 0x38C}, {0x38E, 0x3A1}, {0x3A3, 0x3F5},
    {0x3F7, 0x481}, {0x48A, 0x52F}, {0x531, 0x556}, {0x10A0, 0x10C5}, {0x13A0, 0x13F5}, {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA}, {0x1CBD, 0x1CBF}, {0x1D00, 0x1D2B}, {0x1D6B, 0x1D77}, {0x1D79, 0x1D9A},
    {0x1E00, 0x1F15}, {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D}, {0x1F50, 0x1F57},
    {0x1F59, 0x1F59}, {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D}, {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC}, {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FCC}, {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB}, {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC}, {0x2102, 0x2102},
    {0x2107, 0x2107}, {0x210A, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211D}, {0x2124, 0x2124},
    {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2134}, {0x2139, 0x2139},
    {0x213C, 0x213F}, {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2183}, {0x2184, 0x2184},
    {0x2C00, 0x2C7B}, {0x2C7E, 0x2CE4}, {0x2CEB, 0x2CEE}, {0x2CF2, 0x2CF2}, {0x2CF3, 0x2CF3},
    {0xA640, 0xA66D}, {0xA680, 0xA69B}, {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E},
    {0xAB70, 0xABBF}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}, {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A},
    {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2},
    {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

bool is_cased_deepseek(uint32_t cp)
{
    return IN(cased, cp);
}

bool is_punct_deepseek(uint32_t cp)
{
    static const struct uc_range r[] = {{0x21, 0x2F},     {0x3A, 0x7E},     {0x2018, 0x201F},
                                     {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
    return IN(r, cp);
}

bool is_cjk_kana(uint32_t cp)
{
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}

bool is_cjk_hangul(uint32_t cp)
{
    return (cp >= 0x800 && cp <= 0x9FA5) || (cp >= 0xAC00 && cp <= 0xD7FF);
}

bool is_bloom_word(uint32_t cp)
{
    static const struct uc_range r[] = {{0x60C, 0x60C},   {0x6D4, 0x6D4},   {0x964, 0x964},
                                     {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};
    return !(uc_props(cp) & UC_SPACE) && !one_of(cp, "(|.,!?)") && !IN(r, cp);
}

bool is_asian_afmoe(uint32_t cp)
{
    static const struct uc_range r[] = {
        {0xE40, 0xEFF},     {0x1000, 0x109F}, {0x1100, 0x11FF}, {0x1780, 0x17FF}, {0x2F00, 0x2FDF},
        {0x3040, 0x30FF},   {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xA9E0, 0xA9FF}, {0xAA60, 0xAA7F},
        {0xAC00, 0xD7AF},   {0xF900, 0xFAFF}, {0xFF65, 0xFF9F}};
    return IN(r, cp);
}

static bool is_hangul(uint32_t cp)
{
    return (cp >= 0xAC00 && cp <= 0xD7A3) || (cp >= 0x3131 && cp <= 0x318E);
}

static bool is_wide_punct(uint32_t cp)
{
    static const struct uc_range r[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201C, 0x201D}, {0x2026, 0x2026},
                                     {0x3001, 0x303F}, {0xFE30, 0xFE4F}, {0xFF01, 0xFF01}, {0xFF0C, 0xFF0C},
                                     {0xFF1A, 0xFF1B}};
    return IN(r, cp);
}

static bool is_bopomofo(uint32_t cp)
{
    return cp >= 0x3105 && cp <= 0x312F;
}

/* [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+ */
const struct char_class youtu_classes[] = {
    {.is = is_hangul}, {.is = is_wide_punct}, {.is = is_bopomofo}, {.is = is_cjk_kana}, {.is = NULL}};

static const char *class_run(const struct char_class *c, const char *s, const char *end)
{
    const char *q = s, *e;
    uint32_t n = 0;
    if (c->lead == LEAD_BLANK && *s == ' ')
        q++;
    else if (c->lead == LEAD_SPACE) {
        const char *next = s;
        if (uc_props(next_cp(&next)) & UC_SPACE)
            q = next;
    }
    for (e = q; e < end && (!c->max || n < c->max); n++) {
        const char *next = e;
        if (!c->is(next_cp(&next)))
            break;
        e = next;
    }
    if (!n && q > s) { /* the leading character may itself be of the class */
        const char *next = s;
        return c->is(next_cp(&next)) ? next : s;
    }
    return n >= c->min && n ? e : s;
}

const char *match_class(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    (void)memo;
    return class_run(&st->cls, s, end);
}

const char *match_first_class(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    const char *e = s;
    (void)memo;
    for (const struct char_class *c = st->classes; c->is && e == s; c++)
        e = class_run(c, s, end);
    return e;
}

/* [^\n]+|[\n]+ */
const char *match_lines(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    (void)st;
    (void)memo;
    const char *e = s;
    if (*s != '\n') {
        e = memchr(s, '\n', (size_t)(end - s));
        return e ? e : end;
    }
    while (e < end && *e == '\n')
        e++;
    return e;
}

/* \s+$ */
const char *match_final_space(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    (void)st;
    if (s >= memo->end) /* a run is scanned once */
        for (memo->end = s; memo->end < end;) {
            const char *next = memo->end;
            if (!(uc_props(next_cp(&next)) & UC_SPACE))
                break;
            memo->end = next;
        }
    return memo->end == end ? end : s;
}

static bool is_digit(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_BIT(UC_ND));
}

static bool is_word_char(uint32_t cp)
{
    return uc_in(uc_props(cp), UC_LETTER | UC_MARK | UC_BIT(UC_ND) | UC_BIT(UC_PC));
}

static const char *skip_chars(const char *s, uint64_t n)
{
    while (n--)
        next_cp(&s);
    return s;
}

/* From s to the next place where GROUPS_BEFORE cuts. */
static const char *until_group(const char *s, const char *end)
{
    while (s < end) {
        const char *e = s;
        uint64_t n = 0;
        for (const char *next = e; e < end && is_digit(next_cp(&next)); e = next)
            n++;
        if (n >= 3)
            return skip_chars(s, n % 3);
        s = e;
        if (s < end)
            next_cp(&s);
    }
    return end;
}

const char *match_digit_groups(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    bool (*is)(uint32_t) = st->groups == GROUPS_NUMBER ? is_number : is_digit;
    if (s >= memo->end) {
        const char *next = s;
        memo->left = 0;
        for (memo->end = s; memo->end < end && is(next_cp(&next)); memo->end = next)
            memo->left++;
        next = memo->end;
        if (st->groups == GROUPS_WORD_END && next < end && is_word_char(next_cp(&next)))
            memo->left = 0; /* the run is followed by a letter: no match anywhere in it */
    }
    if (!memo->left)
        return s;
    uint64_t n = memo->left % 3 ? memo->left % 3 : 3;
    if (st->groups == GROUPS_BEFORE && n < 3) { /* these stay with what precedes them */
        memo->left--;
        return s;
    }
    memo->left -= n;
    const char *e = skip_chars(s, n);
    return st->groups == GROUPS_BEFORE && !memo->left ? until_group(e, end) : e;
}

/* <sentinel:[0-9]+>, then IMGIMG, one to four letters A-I, Z */
const char *match_chameleon_image(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    (void)st;
    (void)memo;
    size_t n = (size_t)(end - s), i;
    if (n > 10 && !memcmp(s, "<sentinel:", 10)) {
        for (i = 10; i < n && is_ascii_digit((uint8_t)s[i]);)
            i++;
        return i > 10 && i < n && s[i] == '>' ? s + i + 1 : s;
    }
    if (n < 8 || memcmp(s, "IMGIMG", 6))
        return s;
    for (i = 6; i < n && i < 10 && s[i] >= 'A' && s[i] <= 'I';)
        i++;
    return i > 6 && i < n && s[i] == 'Z' ? s + i + 1 : s;
}

/* ([\t\n]|    |  ) */
const char *match_chameleon_space(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end)
{
    (void)st;
    (void)memo;
    size_t n = (size_t)(end - s);
    if (*s == '\t' || *s == '\n')
        return s + 1;
    if (n >= 4 && !memcmp(s, "    ", 4))
        return s + 4;
    return n >= 2 && !memcmp(s, "  ", 2) ? s + 2 : s;
}
