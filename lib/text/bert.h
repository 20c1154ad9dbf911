/* Classes of characters as the `tokenizers` library has them for BERT. */
#ifndef TEXT_BERT_H
#define TEXT_BERT_H

#include "text/unicode.h"

/* Its 0x2B920 is a slip for 0x2B820 that vocabularies now rely on. */
static inline bool bert_is_ideograph(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static inline bool bert_is_punct(uint32_t c, uint32_t props)
{
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126) ||
           uc_in(props, UC_PUNCTUATION);
}

static inline bool bert_is_control(uint32_t c, uint32_t props)
{
    (void)c;
    return uc_in(props, UC_BIT(UC_CC) | UC_BIT(UC_CF) | UC_BIT(UC_CO));
}

#endif
