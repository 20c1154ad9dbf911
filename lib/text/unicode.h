/* Unicode data for tokenizers, at the version that unicode_tables.h names. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define UNICODE_VERSION "16.0.0"

/* General categories, in the order of scripts/make_unicode.py. */
enum uc_cat {
    UC_CN, UC_CC, UC_CF, UC_CO, UC_CS, UC_LU, UC_LL, UC_LT, UC_LM, UC_LO, UC_MN, UC_MC, UC_ME, UC_ND, UC_NL, UC_NO,
    UC_PC, UC_PD, UC_PS, UC_PE, UC_PI, UC_PF, UC_PO, UC_SM, UC_SC, UC_SK, UC_SO, UC_ZS, UC_ZL, UC_ZP
};

/* Sets of them, for uc_in. */
#define UC_BIT(cat)    (1u << (cat))
#define UC_LETTER      (UC_BIT(UC_LU) | UC_BIT(UC_LL) | UC_BIT(UC_LT) | UC_BIT(UC_LM) | UC_BIT(UC_LO))
#define UC_MARK        (UC_BIT(UC_MN) | UC_BIT(UC_MC) | UC_BIT(UC_ME))
#define UC_NUMBER      (UC_BIT(UC_ND) | UC_BIT(UC_NL) | UC_BIT(UC_NO))
#define UC_SYMBOL      (UC_BIT(UC_SM) | UC_BIT(UC_SC) | UC_BIT(UC_SK) | UC_BIT(UC_SO))
#define UC_PUNCTUATION                                                                                                 \
    (UC_BIT(UC_PC) | UC_BIT(UC_PD) | UC_BIT(UC_PS) | UC_BIT(UC_PE) | UC_BIT(UC_PI) | UC_BIT(UC_PF) | UC_BIT(UC_PO))

/* A code point's properties: its category and flags. Values above U+10FFFF are unassigned. */
enum { UC_CAT_MASK = 31, UC_SPACE = 32 /* White_Space */, UC_HAN = 64 /* Script=Han */, UC_NFC = 128 /* may change under NFC */ };
uint32_t uc_props(uint32_t cp);

struct uc_range {
    uint32_t first, last;
};
bool uc_in_ranges(const struct uc_range *ranges, size_t n, uint32_t cp); /* ranges are sorted */

static inline bool uc_in(uint32_t props, uint32_t set)
{
    return (set >> (props & UC_CAT_MASK) & 1) != 0;
}

/* A character of a word (\w): letters, marks, digits, connectors and what else is Alphabetic. */
bool uc_is_word(uint32_t cp);

/* Simple lower-case mapping. */
uint32_t uc_lower(uint32_t cp);

/* Canonical normalisation (UAX #15) of valid UTF-8; appends to out, whose flags tell of failure. Linear time. */
enum uc_form { UC_FORM_C, UC_FORM_D, UC_FORM_KC, UC_FORM_KD };
void uc_normalize(enum uc_form form, const char *text, size_t len, struct buf *out);
/* The same as the `tokenizers` library does it: with Unicode 9's tables, so newer characters stay as they are. */
void uc_normalize_old(enum uc_form form, const char *text, size_t len, struct buf *out);
/* True when every character stays as it is under NFC whatever surrounds it: then the text is NFC. */
bool uc_is_plain_nfc(const char *text, size_t len);

#endif
