/* Classes of characters as the `tokenizers` library has them: its parts use tables of different Unicode versions, so newer characters are
 * not what they are in unicode.h. */
#ifndef TEXT_UNICODE_HF_H
#define TEXT_UNICODE_HF_H

#include "text/unicode.h"

bool hf_is_punct(uint32_t cp);      /* punctuation, and ASCII's symbols */
bool hf_is_number(uint32_t cp);
bool hf_is_control(uint32_t cp);    /* what BERT's cleaning takes out */
bool hf_is_mark(uint32_t cp);       /* what StripAccents takes out */
bool hf_is_nonspacing(uint32_t cp); /* what BERT's stripping of accents takes out */
uint32_t hf_lower(uint32_t cp);
/* Normalisation does not know of its class and decomposition. */
bool hf_is_inert(uint32_t cp);

/* Bytes of the first grapheme cluster of a text that is not empty. Exact for those below 6 bytes: of longer ones (syllables, flags) it may be
 * a part. */
size_t hf_cluster(const char *s, size_t len);

/* The library's 0x2B920 is a slip for 0x2B820 that vocabularies now rely on. */
static inline bool hf_is_ideograph(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

#endif
