/* The patterns are facts published with the models (tokenizer.json) or, where a model has none, as llama.cpp has them. The comment at
 * each stage gives the expression that it stands for. */
#include "text/pretok.h"

#include <string.h>

#include "text/pretok_impl.h"

/* ---- The table: stages of each pattern. */

#define END {.match = NULL}

static const struct words gpt2_words = {.contraction = CONTRACT_EXACT, .letters = LETTERS_SPACE, .digits = DIGITS_SPACE};
static const struct words llama3_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_ANY, .digits = DIGITS_3,
                                          .tail = TAIL_NEWLINES, .newlines = true};
static const struct words qwen2_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_ANY, .digits = DIGITS_1,
                                         .tail = TAIL_NEWLINES, .newlines = true};
static const struct words qwen35_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_MARKS, .digits = DIGITS_1,
                                          .punct = PUNCT_NO_MARKS, .tail = TAIL_NEWLINES, .newlines = true};
static const struct words plain_words = {.letters = LETTERS_ANY, .digits = DIGITS_1, .tail = TAIL_NEWLINES,
                                         .newlines = true};
static const struct words seed_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_ANY, .digits = DIGITS_1,
                                        .newlines = true};
static const struct words exaone_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_PHRASE, .digits = DIGITS_1,
                                          .tail = TAIL_ONE, .newlines = true};
static const struct words minicpm_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_ANY, .digits = DIGITS_RUN,
                                           .tail = TAIL_NEWLINES, .newlines = true};
static const struct words jais2_words = {.contraction = CONTRACT_ANY, .letters = LETTERS_ANY, .digits = DIGITS_3,
                                         .tail = TAIL_NEWLINES, .newlines = true, .spaces = SPACES_POWERS};
static const struct words gpt4o_words = {.letters = LETTERS_CASED, .suffix = true, .digits = DIGITS_3,
                                         .tail = TAIL_NEWLINES_SLASH, .newlines = true};
static const struct words youtu_words = {.letters = LETTERS_CASED, .suffix = true, .digits = DIGITS_1,
                                         .tail = TAIL_NEWLINES_SLASH, .newlines = true};
static const struct words tekken_words = {.letters = LETTERS_CASED, .digits = DIGITS_1, .tail = TAIL_NEWLINES_SLASH,
                                          .newlines = true};
static const struct words kimi_words = {.letters = LETTERS_CASED_NO_HAN, .suffix = true, .digits = DIGITS_3,
                                        .tail = TAIL_NEWLINES, .newlines = true};
static const struct words deepseek3_words = {.letters = LETTERS_DEEPSEEK, .punct = PUNCT_SYMBOLS,
                                             .tail = TAIL_NEWLINES, .newlines = true};
static const struct words spark_words = {.letters = LETTERS_DEEPSEEK, .punct = PUNCT_SYMBOLS, .single_newline = true};

#define WORDS(w)          {.match = match_words, .words = &(w)}
#define CLASS(...)        {.match = match_class, .cls = {__VA_ARGS__}}

#define NUMBER_1          CLASS(.is = is_number, .max = 1)                  /* \p{N} */
#define NUMBER_3          CLASS(.is = is_number, .max = 3)                  /* \p{N}{1,3} */
#define NUMBERS           CLASS(.is = is_number)                            /* \p{N}+ */
#define ASCII_DIGITS_3    CLASS(.is = is_ascii_digit, .min = 3, .max = 3)   /* [0-9][0-9][0-9] */
#define NEWLINE_1         CLASS(.is = is_newline, .max = 1)                 /* [\r\n] */
#define LINES             {.match = match_lines}                           /* [^\n]+|[\n]+ */
#define CJK_DEEPSEEK3     CLASS(.is = is_cjk_kana)                          /* [一-龥぀-ゟ゠-ヿ]+ */
#define CJK_DEEPSEEK      CLASS(.is = is_cjk_hangul)                        /* [一-龥ࠀ-一가-퟿]+ */

static const struct pretok_stage st_default[] = {
    CLASS(.is = is_punct_default), /* [\p{P}\$\+<=>\^~\|]+ */
    WORDS(gpt2_words), NUMBERS, ASCII_DIGITS_3, END};
static const struct pretok_stage st_gpt2[] = {WORDS(gpt2_words), END};
static const struct pretok_stage st_llama3[] = {WORDS(llama3_words), END};
static const struct pretok_stage st_qwen2[] = {WORDS(qwen2_words), END};
static const struct pretok_stage st_qwen35[] = {WORDS(qwen35_words), END};
static const struct pretok_stage st_digits_gpt2[] = {NUMBER_1, WORDS(gpt2_words), END};
static const struct pretok_stage st_falcon[] = {
    CLASS(.is = is_punct_falcon), /* [\p{P}\$\+<=>\^~\|`]+ */
    WORDS(gpt2_words), ASCII_DIGITS_3, END};
static const struct pretok_stage st_deepseek_llm[] = {
    NEWLINE_1,
    CLASS(.is = is_cased_deepseek, .lead = LEAD_SPACE), /* \s?[A-Za-z...]+ */
    CLASS(.is = is_punct_deepseek, .lead = LEAD_SPACE), /* \s?[!-/:-~！-／：-～‘-‟　-。]+ */
    {.match = match_final_space},                       /* \s+$ */
    CJK_DEEPSEEK, NUMBERS, END};
static const struct pretok_stage st_deepseek_coder[] = {
    NEWLINE_1,
    CLASS(.is = is_letter, .lead = LEAD_SPACE), /* \s?\p{L}+ */
    CLASS(.is = is_punct, .lead = LEAD_SPACE),  /* \s?\p{P}+ */
    CJK_DEEPSEEK, NUMBER_1, END};
static const struct pretok_stage st_deepseek3[] = {NUMBER_3, CJK_DEEPSEEK3, WORDS(deepseek3_words), END};
static const struct pretok_stage st_spark[] = {NUMBER_3, CJK_DEEPSEEK3, WORDS(spark_words), NUMBER_1, END};
static const struct pretok_stage st_bloom[] = {
    CLASS(.is = is_bloom_word, .lead = LEAD_BLANK), /* ?[^(\s|.,!?…。，、।۔،)]+ */
    END};
static const struct pretok_stage st_viking[] = {CLASS(.is = is_bloom_word, .lead = LEAD_BLANK), NUMBER_1, END};
static const struct pretok_stage st_tekken[] = {WORDS(tekken_words), END};
static const struct pretok_stage st_gpt4o[] = {WORDS(gpt4o_words), END};
static const struct pretok_stage st_kimi[] = {WORDS(kimi_words), END};
static const struct pretok_stage st_jais2[] = {WORDS(jais2_words), END};
static const struct pretok_stage st_tiny_aya[] = {
    {.match = match_digit_groups, .groups = GROUPS_WORD_END}, /* \d{1,3}(?=(?:\d{3})*\b) */
    WORDS(gpt4o_words), END};
static const struct pretok_stage st_superbpe[] = {
    NUMBERS, {.match = match_digit_groups, .groups = GROUPS_BEFORE}, /* (?=(\d{3})+(?!\d)) */
    END};
static const struct pretok_stage st_seed[] = {WORDS(seed_words), END};
static const struct pretok_stage st_plain[] = {WORDS(plain_words), END};
static const struct pretok_stage st_exaone_moe[] = {WORDS(exaone_words), END};
static const struct pretok_stage st_minicpm5[] = {NUMBER_3, WORDS(minicpm_words), END};
static const struct pretok_stage st_youtu[] = {
    {.match = match_first_class, .classes = youtu_classes}, WORDS(youtu_words), END};
static const struct pretok_stage st_afmoe[] = {
    {.match = match_digit_groups, .groups = GROUPS_NUMBER}, /* numbers in threes from the right */
    CLASS(.is = is_asian_afmoe), WORDS(deepseek3_words), END};
static const struct pretok_stage st_laguna[] = {LINES, WORDS(qwen2_words), END};
static const struct pretok_stage st_lines[] = {LINES, END};
static const struct pretok_stage st_chameleon[] = {
    {.match = match_chameleon_image}, /* <sentinel:[0-9]+> and (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z */
    {.match = match_chameleon_space}, /* ([\t\n]|    |  ) */
    NUMBER_1, CLASS(.is = is_punct_ascii_too, .max = 1), WORDS(gpt2_words), END};

#define WHOLE  PRETOK_WHOLE_WORDS
#define LLAMA3 (PRETOK_WHOLE_WORDS | PRETOK_ADD_BOS)

/* Sorted by family. */
static const struct pretok table[] = {
    {"default", st_default, 0},
    {"gpt-2", st_gpt2, 0}, {"phi-2", st_gpt2, 0}, {"jina-es", st_gpt2, 0}, {"jina-de", st_gpt2, 0},
    {"gigachat", st_gpt2, 0}, {"jina-v2-es", st_gpt2, 0}, {"jina-v2-de", st_gpt2, 0}, {"a.x-4.0", st_gpt2, 0},
    {"mellum", st_gpt2, 0}, {"modern-bert", st_gpt2, PRETOK_NFC}, {"jina-v1-en", st_gpt2, 0},
    {"jina-v2-code", st_gpt2, 0}, {"roberta-bpe", st_gpt2, 0}, {"mpt", st_gpt2, PRETOK_NFC},
    {"olmo", st_gpt2, PRETOK_NFC}, {"jais", st_gpt2, 0}, {"trillion", st_gpt2, 0}, {"granite-docling", st_gpt2, 0},
    {"exaone4", st_gpt2, 0},
    {"llama3", st_llama3, LLAMA3}, {"llama-v3", st_llama3, LLAMA3}, {"llama-bpe", st_llama3, LLAMA3},
    {"falcon3", st_llama3, LLAMA3}, {"falcon-h1", st_llama3, LLAMA3}, {"pixtral", st_llama3, LLAMA3},
    {"midm-2.0", st_llama3, LLAMA3}, {"lfm2", st_llama3, LLAMA3}, {"jina-v5-nano", st_llama3, LLAMA3},
    {"dbrx", st_llama3, 0}, {"smaug-bpe", st_llama3, 0}, {"chatglm-bpe", st_llama3, 0},
    {"glm4", st_llama3, WHOLE}, {"glm5", st_llama3, WHOLE},
    {"qwen2", st_qwen2, PRETOK_NFC}, {"deepseek-r1-qwen", st_qwen2, 0}, {"kormo", st_qwen2, 0},
    {"f2llmv2", st_qwen2, PRETOK_NFC}, {"megrez", st_qwen2, 0}, {"stablelm2", st_qwen2, PRETOK_NFC},
    {"hunyuan", st_qwen2, 0}, {"solar-open", st_qwen2, 0}, {"grok-2", st_qwen2, 0},
    {"qwen35", st_qwen35, PRETOK_NFC}, {"ufakzeka", st_plain, 0},
    {"bailingmoe", st_qwen2, 0}, {"bailingmoe2", st_qwen2, 0}, {"llada-moe", st_qwen2, 0},
    {"seed-coder", st_seed, 0}, {"exaone-moe", st_exaone_moe, 0}, {"minicpm5", st_minicpm5, WHOLE},
    {"laguna", st_laguna, 0}, {"jais-2", st_jais2, 0},
    {"starcoder", st_digits_gpt2, 0}, {"refact", st_digits_gpt2, 0}, {"command-r", st_digits_gpt2, PRETOK_NFC},
    {"smollm", st_digits_gpt2, 0}, {"codeshell", st_digits_gpt2, 0}, {"exaone", st_digits_gpt2, 0},
    {"minerva-7b", st_digits_gpt2, 0}, {"mellum2", st_digits_gpt2, 0},
    {"falcon", st_falcon, 0},
    {"deepseek-llm", st_deepseek_llm, 0}, {"deepseek-coder", st_deepseek_coder, 0},
    {"deepseek-v3", st_deepseek3, 0}, {"hunyuan-dense", st_deepseek3, 0}, {"joyai-llm", st_deepseek3, 0},
    {"hy_v4", st_deepseek3, 0}, {"spark2_5", st_spark, 0}, {"afmoe", st_afmoe, 0},
    {"bloom", st_bloom, 0}, {"poro-chat", st_bloom, 0}, {"gpt3-finnish", st_bloom, 0}, {"viking", st_viking, 0},
    {"tekken", st_tekken, LLAMA3}, {"youtu", st_youtu, WHOLE},
    {"gpt-4o", st_gpt4o, WHOLE}, {"llama4", st_gpt4o, WHOLE}, {"kanana2", st_gpt4o, 0}, {"talkie", st_gpt4o, 0},
    {"minimax-m2", st_gpt4o, 0}, {"granite-embed-multi-97m", st_gpt4o, WHOLE},
    {"tiny_aya", st_tiny_aya, 0}, {"cohere2moe", st_tiny_aya, 0}, {"kimi-k2", st_kimi, 0},
    {"superbpe", st_superbpe, 0}, {"chameleon", st_chameleon, PRETOK_ADD_BOS},
    {"gemma4", st_lines, PRETOK_RAW | PRETOK_ADD_BOS}, {"granite-embed-multi-311m", st_lines, PRETOK_RAW | PRETOK_ADD_BOS},
    {"sarvam-moe", st_lines, PRETOK_RAW},
};

const struct pretok *pretok_find(const char *name, size_t len)
{
    if (!len)
        return &table[0];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == len && !memcmp(table[i].name, name, len))
            return &table[i];
    return NULL;
}

/* ---- Expressions as tokenizer.json has them. Others that match the same are not recognised: they go through PCRE2. */

static const struct {
    const char *text;
    const struct pretok_stage *stage;
} expressions[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", st_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", st_gpt2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_llama3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_qwen2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_qwen2},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+", st_qwen2},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+", st_llama3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_qwen35},
    {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_plain},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_gpt4o},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", &st_youtu[1]},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_tekken},
    {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", st_kimi},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", &st_deepseek3[2]},
    {"\\p{N}{1,3}", &st_deepseek3[0]},
    {"[一-龥぀-ゟ゠-ヿ]+", &st_deepseek3[1]},
    {"[一-龥ࠀ-一가-퟿]+", &st_deepseek_coder[3]},
    {"[\\r\\n]", &st_deepseek_coder[0]},
    {"\\s?\\p{L}+", &st_deepseek_coder[1]},
    {"\\s?\\p{P}+", &st_deepseek_coder[2]},
    {"\\p{N}", &st_deepseek_coder[4]},
    {"\\p{N}+", &st_default[2]},
    {"[0-9][0-9][0-9]", &st_default[3]},
    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", &st_falcon[0]},
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", &st_default[0]},
    {" ?[^(\\s|.,!?…。，、।۔،)]+", st_bloom},
    {" ?[^(\\s|[.,!?…。，、।۔،])]+", st_bloom},
    {"\\d{1,3}(?=(?:\\d{3})*\\b)", st_tiny_aya},
    {"[^\\n]+|[\\n]+", st_lines},
};

/* Whether s, in which newlines may stand for themselves, is this expression. */
static bool same_expression(const char *expression, const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++, n++) {
        bool newline = s[i] == '\r' || s[i] == '\n';
        if (newline && expression[n++] != '\\')
            return false;
        if (!expression[n] || expression[n] != (s[i] == '\r' ? 'r' : s[i] == '\n' ? 'n' : s[i]))
            return false;
    }
    return !expression[n];
}

const struct pretok_stage *pretok_expression(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        if (same_expression(expressions[i].text, text, len))
            return expressions[i].stage;
    return NULL;
}

const struct pretok_stage *pretok_gpt2(void)
{
    return st_gpt2;
}

const char *pretok_next(const struct pretok_stage *st, struct pretok_memo *memo, const char *s, const char *end, const char **stop)
{
    while (s < end) {
        *stop = st->match(st, memo, s, end);
        if (*stop > s)
            return s;
        next_cp(&s);
    }
    return NULL;
}

struct run {
    pretok_emit emit;
    void *user;
};

/* Cuts [s, end) by the first of these stages, and each part by those after it. At most a handful of levels. What a pattern does not match,
 * up to its next match, is a part too. */
static bool split(const struct run *r, const struct pretok_stage *st, const char *s, const char *end)
{
    if (s == end)
        return true;
    if (!st->match)
        return r->emit(r->user, s, (size_t)(end - s));
    struct pretok_memo memo = {0};
    const char *gap = s;
    while (s < end) {
        const char *stop = st->match(st, &memo, s, end);
        if (stop == s) {
            next_cp(&s);
            continue;
        }
        if (!split(r, st + 1, gap, s) || !split(r, st + 1, s, stop))
            return false;
        gap = s = stop;
    }
    return split(r, st + 1, gap, end);
}

bool pretok_split(const struct pretok *p, const char *text, size_t len, pretok_emit emit, void *user)
{
    struct run r = {emit, user};
    return split(&r, p->stages, text, text + len);
}
