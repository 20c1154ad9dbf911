/* Special tokens: which ids have a role, which kinds the file has wrong, what ends a turn. Files say little of this, so well-known
 * spellings are used as llama.cpp uses them. */
#include <string.h>

#include "text/tokenizer_impl.h"

static const char *const eot_spellings[] = { /* the first that the vocabulary has is the end of a turn */
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]",
    "<end_of_utterance>", "<｜end▁of▁sentence｜>", "<|endoftext|>"};

static const char *const end_spellings[] = { /* each of these ends generation */
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<|file_sep|>"};
/* "</s>" too, but only where the file has it as a control token: in other vocabularies it is HTML. */

static const char *const control_spellings[] = { /* control tokens even where the file has them otherwise */
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<|fim_suffix|>", "<fim-suffix>",
    "<fim_suffix>", "<｜fim▁hole｜>", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>"};

static const char *const shown_spellings[] = { /* part of the answer's text in gpt-oss */
    "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static infer_status read_id(const struct infer_tokenizer *t, const char *key, uint32_t absent, uint32_t *out,
                            infer_error *err)
{
    int64_t id;
    *out = absent < t->v.n ? absent : VOCAB_NONE;
    if (!file_has(t->file, key))
        return INFER_OK;
    infer_status st = file_get_i64(t->file, key, &id, err);
    if (st != INFER_OK)
        return st;
    if (id != -1 && id != UINT32_MAX && (id < 0 || id >= t->v.n))
        return TOK_FAIL(t, err, INFER_ERROR_VALUE, key, "token id %lld: the vocabulary has %u tokens", (long long)id,
                        t->v.n);
    *out = id == -1 || id == UINT32_MAX ? VOCAB_NONE : (uint32_t)id;
    return INFER_OK;
}

static infer_status read_ids(struct infer_tokenizer *t, infer_error *err)
{
    static const uint32_t absent[4][6] = { /* bos, eos, unk, sep, pad, mask by kind */
        {VOCAB_NONE, VOCAB_NONE, VOCAB_NONE, VOCAB_NONE, VOCAB_NONE, VOCAB_NONE},
        {1, 2, 0, VOCAB_NONE, VOCAB_NONE, VOCAB_NONE},
        {101, VOCAB_NONE, 100, 102, 0, 103},
        {VOCAB_NONE, 1, 2, VOCAB_NONE, 0, VOCAB_NONE}};
    const uint32_t *d = absent[t->kind - INFER_TOKENIZER_BPE];
    bool cls = t->kind == INFER_TOKENIZER_WORDPIECE && file_has(t->file, "tokenizer.ggml.cls_token_id");
    const struct {
        const char *key;
        uint32_t absent;
        uint32_t *id;
    } ids[] = {{cls ? "tokenizer.ggml.cls_token_id" : "tokenizer.ggml.bos_token_id", d[0], &t->bos},
               {"tokenizer.ggml.eos_token_id", d[1], &t->eos},
               {"tokenizer.ggml.unknown_token_id", d[2], &t->unk},
               {"tokenizer.ggml.seperator_token_id", d[3], &t->sep}, /* so spelled in the format */
               {"tokenizer.ggml.padding_token_id", d[4], &t->pad},
               {"tokenizer.ggml.mask_token_id", d[5], &t->mask},
               {"tokenizer.ggml.eot_token_id", VOCAB_NONE, &t->eot}};
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < COUNT(ids); i++)
        st = read_id(t, ids[i].key, ids[i].absent, ids[i].id, err);
    return st;
}

static infer_status read_flags(struct infer_tokenizer *t, infer_error *err)
{
    bool bpe = t->kind == INFER_TOKENIZER_BPE, spm = t->kind == INFER_TOKENIZER_SPM;
    bool bert = t->kind == INFER_TOKENIZER_WORDPIECE, unigram = t->kind == INFER_TOKENIZER_UNIGRAM;
    const struct {
        const char *key;
        bool absent;
        bool *flag;
    } flags[] = {{"tokenizer.ggml.add_bos_token", spm || bert || (bpe && (t->pre->flags & PRETOK_ADD_BOS)), &t->add_bos},
                 {"tokenizer.ggml.add_eos_token", unigram, &t->add_eos},
                 {"tokenizer.ggml.add_sep_token", bert, &t->add_sep},
                 {"tokenizer.ggml.add_space_prefix", spm, &t->space_prefix},
                 {"tokenizer.ggml.remove_extra_whitespaces", false, &t->merge_spaces},
                 {"tokenizer.ggml.normalizer.lowercase", true, &t->lowercase},
                 {"tokenizer.ggml.normalizer.strip_accents", true, &t->strip_accents}};
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < COUNT(flags); i++)
        st = file_get_bool_or(t->file, flags[i].key, flags[i].absent, flags[i].flag, err);
    if (!file_has(t->file, "tokenizer.ggml.normalizer.strip_accents"))
        t->strip_accents = t->lowercase;
    if (bpe || bert)
        t->space_prefix = t->merge_spaces = false; /* files carry them without meaning */
    return st;
}

/* ---- Spellings. One pass over the vocabulary finds all of them: those without '<' or '[' in front cannot be one. */

struct spelled {
    uint32_t eot[COUNT(eot_spellings)], end[COUNT(end_spellings)], shown[COUNT(shown_spellings)],
        control[COUNT(control_spellings)];
};

static void match_spelling(const char *const *spellings, uint32_t *ids, size_t n, const char *s, size_t len, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == VOCAB_NONE && !strncmp(spellings[i], s, len) && !spellings[i][len])
            ids[i] = id;
}

static void find_spellings(struct vocab *v, struct spelled *f)
{
    memset(f, 0xFF, sizeof *f);
    for (uint32_t i = 0; i < v->n; i++) {
        const char *s = str_of(&v->pieces, i);
        size_t len = v->pieces.at[i].len;
        if (len < 4 || len > 32 || (s[0] != '<' && s[0] != '[' && s[0] != '_'))
            continue;
        if (v->form == FORM_JSON && vocab_kind(v, i) == INFER_TOKEN_NORMAL)
            continue; /* not an added token: text */
        if (len == 4 && !memcmp(s, "</s>", 4) && vocab_kind(v, i) == INFER_TOKEN_CONTROL)
            v->attr[i] |= ATTR_ENDS_TURN;
        match_spelling(eot_spellings, f->eot, COUNT(eot_spellings), s, len, i);
        match_spelling(end_spellings, f->end, COUNT(end_spellings), s, len, i);
        match_spelling(shown_spellings, f->shown, COUNT(shown_spellings), s, len, i);
        match_spelling(control_spellings, f->control, COUNT(control_spellings), s, len, i);
    }
}

static uint32_t end_token(const struct spelled *f, const char *spelling)
{
    for (size_t i = 0; i < COUNT(end_spellings); i++)
        if (!strcmp(end_spellings[i], spelling))
            return f->end[i];
    return VOCAB_NONE;
}

static void set_end(struct vocab *v, uint32_t id)
{
    if (id != VOCAB_NONE)
        v->attr[id] |= ATTR_ENDS_TURN;
}

/* In gpt-oss's vocabulary a spelling of the list means something else. */
static void mend_ends(struct vocab *v, const struct spelled *f)
{
    uint32_t end = end_token(f, "<|end|>");
    bool call = end_token(f, "<|call|>") != VOCAB_NONE || end_token(f, "<|calls|>") != VOCAB_NONE;
    bool more = end_token(f, "<|return|>") != VOCAB_NONE || end_token(f, "<|flush|>") != VOCAB_NONE;
    if (end != VOCAB_NONE && call && more) { /* it ends one message of several */
        v->attr[end] &= (uint8_t)~ATTR_ENDS_TURN;
        vocab_set_kind(v, end, INFER_TOKEN_USER_DEFINED);
    }
}

static void apply_spellings(struct infer_tokenizer *t)
{
    struct vocab *v = &t->v;
    struct spelled f;
    find_spellings(v, &f);
    for (size_t i = 0; i < COUNT(control_spellings); i++)
        if (f.control[i] != VOCAB_NONE)
            vocab_set_kind(v, f.control[i], INFER_TOKEN_CONTROL);
    for (size_t i = 0; i < COUNT(end_spellings); i++) {
        set_end(v, f.end[i]);
        if (f.end[i] != VOCAB_NONE)
            vocab_set_kind(v, f.end[i], INFER_TOKEN_CONTROL);
    }
    for (size_t i = 0; i < COUNT(shown_spellings); i++)
        if (f.shown[i] != VOCAB_NONE)
            vocab_set_kind(v, f.shown[i], INFER_TOKEN_USER_DEFINED);
    mend_ends(v, &f);
    for (size_t i = 0; t->eot == VOCAB_NONE && i < COUNT(eot_spellings); i++)
        if (f.eot[i] != VOCAB_NONE && (v->attr[f.eot[i]] & ATTR_ENDS_TURN))
            t->eot = f.eot[i];
    set_end(v, t->eot);
    if (t->kind != INFER_TOKENIZER_WORDPIECE)
        set_end(v, t->eos);
}

/* ---- Attributes that files lack, by the model's name. */

static bool name_contains(const struct infer_tokenizer *t, const char *key, const char *what)
{
    struct file_str s;
    size_t n = strlen(what);
    if (file_get_string_or(t->file, key, "", &s, NULL) != INFER_OK)
        return false;
    for (uint64_t i = 0; i + n <= s.len; i++) {
        size_t j = 0;
        while (j < n && (s.data[i + j] >= 'A' && s.data[i + j] <= 'Z' ? s.data[i + j] | 32 : s.data[i + j]) == what[j])
            j++;
        if (j == n)
            return true;
    }
    return false;
}

static bool spelled(const struct vocab *v, uint32_t id, const char *s)
{
    return v->pieces.at[id].len == strlen(s) && !memcmp(str_of(&v->pieces, id), s, strlen(s));
}

/* Phi-3's special tokens swallow the white space that follows, mask tokens that which precedes. */
static void apply_names(struct infer_tokenizer *t)
{
    struct vocab *v = &t->v;
    bool phi3 = name_contains(t, "general.name", "phi-3") || name_contains(t, "general.name", "phi3");
    bool mask = name_contains(t, "tokenizer.ggml.pre", "jina-v2-") ||
                name_contains(t, "general.architecture", "nomic-bert-moe") ||
                name_contains(t, "general.architecture", "jina-bert-v3") || name_contains(t, "general.name", "modern-bert");
    for (uint32_t i = 0; (phi3 || mask) && i < v->n; i++) {
        int32_t kind = vocab_kind(v, i);
        bool special = kind == INFER_TOKEN_CONTROL || kind == INFER_TOKEN_USER_DEFINED || kind == INFER_TOKEN_UNKNOWN;
        if (phi3 && special && !spelled(v, i, "<unk>") && !spelled(v, i, "<s>") && !spelled(v, i, "<|endoftext|>"))
            v->attr[i] |= ATTR_RSTRIP;
        if (mask && (spelled(v, i, "<mask>") || spelled(v, i, "[MASK]")))
            v->attr[i] |= ATTR_LSTRIP;
    }
}

infer_status special_load(struct infer_tokenizer *t, infer_error *err)
{
    infer_status st = read_ids(t, err);
    if (st == INFER_OK)
        st = read_flags(t, err);
    if (st != INFER_OK)
        return st;
    apply_spellings(t);
    apply_names(t);
    return INFER_OK;
}

/* A role by the spelling of its token. One that the vocabulary does not have is left out. */
static infer_status read_text_id(const struct infer_tokenizer *t, const char *key, uint32_t *out, infer_error *err)
{
    struct file_str s;
    infer_status st = file_get_string_or(t->file, key, "", &s, err);
    if (st != INFER_OK || !s.len)
        return st;
    uint32_t id = tokjson_find_added(t, s.data, (size_t)s.len);
    if (id != VOCAB_NONE)
        *out = id;
    return INFER_OK;
}

/* The ids that end generation, as generation_config.json lists them; those that the vocabulary does not have are left out. */
static infer_status read_ends(struct infer_tokenizer *t, infer_error *err)
{
    static const char key[] = "tokenizer.huggingface.eos_token_ids";
    struct file_array ids;
    if (!file_has(t->file, key))
        return INFER_OK;
    infer_status st = file_get_ints(t->file, key, &ids, err);
    for (uint64_t i = 0; st == INFER_OK && i < ids.count; i++) {
        int64_t id = file_array_int(&ids, i);
        if (id >= 0 && id < t->v.n)
            set_end(&t->v, (uint32_t)id);
    }
    return st;
}

infer_status special_load_json(struct infer_tokenizer *t, infer_error *err)
{
    const struct {
        const char *key;
        uint32_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &t->bos}, {"tokenizer.ggml.eos_token_id", &t->eos}, {"tokenizer.ggml.eot_token_id", &t->eot},
               {"tokenizer.ggml.seperator_token_id", &t->sep}, {"tokenizer.ggml.padding_token_id", &t->pad},
               {"tokenizer.ggml.mask_token_id", &t->mask}};
    const struct {
        const char *key;
        uint32_t *id;
    } texts[] = {{"tokenizer.huggingface.bos_token", &t->bos}, {"tokenizer.huggingface.eos_token", &t->eos},
                 {"tokenizer.huggingface.sep_token", &t->sep}, {"tokenizer.huggingface.pad_token", &t->pad},
                 {"tokenizer.huggingface.mask_token", &t->mask}};
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < COUNT(texts); i++)
        st = read_text_id(t, texts[i].key, texts[i].id, err);
    for (size_t i = 0; st == INFER_OK && i < COUNT(ids); i++)
        st = read_id(t, ids[i].key, *ids[i].id, ids[i].id, err);
    if (st == INFER_OK)
        st = file_get_bool_or(t->file, "tokenizer.ggml.add_bos_token", t->add_bos, &t->add_bos, err);
    if (st == INFER_OK)
        st = file_get_bool_or(t->file, "tokenizer.ggml.add_eos_token", t->add_eos, &t->add_eos, err);
    if (st == INFER_OK)
        apply_spellings(t);
    return st == INFER_OK ? read_ends(t, err) : st;
}

/* ---- Finding them in text */

static bool build_set(struct infer_tokenizer *t, struct special_set *set, bool control)
{
    const struct vocab *v = &t->v;
    const struct alloc *a = &t->env->alloc;
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++) { /* count, then collect */
        struct trie_key *keys = pass ? mem_array(a, n, sizeof *keys) : NULL;
        if (pass && !keys)
            return false;
        n = 0;
        for (uint32_t i = 0; i < v->n; i++) {
            int32_t kind = vocab_kind(v, i);
            bool in = kind == INFER_TOKEN_USER_DEFINED ||
                      (control && (kind == INFER_TOKEN_CONTROL || kind == INFER_TOKEN_UNKNOWN));
            if (!in || !v->pieces.at[i].len)
                continue;
            if (pass) {
                uint8_t c = (uint8_t)*str_of(&v->pieces, i);
                set->first[c >> 3] |= (uint8_t)(1 << (c & 7));
                keys[n] = (struct trie_key){str_of(&v->pieces, i), v->pieces.at[i].len, i};
            }
            n++;
        }
        if (pass) {
            bool ok = trie_build(&set->trie, a, keys, n);
            mem_free(a, keys);
            return ok;
        }
    }
    return true;
}

infer_status special_build(struct infer_tokenizer *t, infer_error *err)
{
    return build_set(t, &t->user, false) && build_set(t, &t->all, true) ? INFER_OK : err_no_memory(err);
}

bool special_find(const struct special_set *set, const char *s, size_t len, size_t from, size_t *at, size_t *n,
                  uint32_t *id)
{
    if (!set->trie.n)
        return false;
    for (size_t i = from; i < len; i++) {
        uint8_t c = (uint8_t)s[i];
        if (!(set->first[c >> 3] >> (c & 7) & 1))
            continue;
        *id = trie_longest(&set->trie, s + i, len - i, n);
        if (*id != TRIE_NONE) {
            *at = i;
            return true;
        }
    }
    return false;
}

void special_free(struct infer_tokenizer *t)
{
    trie_free(&t->user.trie);
    trie_free(&t->all.trie);
}
