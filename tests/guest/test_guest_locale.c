/* Locales: with a comma as the decimal point, and with a Turkish i, everything is as it is in the locale "C". The locales are made here, for this test alone. */
#define _GNU_SOURCE
#include "guest.h"

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wctype.h>

static const char *make_locale(const char *name, char out[64])
{
    char command[1024];
    (void)snprintf(out, 64, "%s.UTF-8", name);
    (void)setenv("LOCPATH", guest_folder(), 1);
    guest_quick_exit = true; /* glibc's setlocale keeps a copy of LOCPATH, which is a leak to LSan. Other programs here look for the library's */
    (void)snprintf(command, sizeof command, "command -v localedef >/dev/null 2>&1 && localedef --no-archive -c -i %s -f UTF-8 '%s' >/dev/null 2>&1", name, guest_path(out));
    /* Not asked by setlocale, which would remember that there is none. localedef's status says little: with warnings it makes the locale all the same. */
    int status = access(guest_path(out), F_OK) == 0 ? 0 : system(command);
    if (!setlocale(LC_ALL, out))
        return skip("no locale %s: localedef or its sources are missing (status %d)", out, status);
    return NULL;
}

static const char *scenario(struct guest_text *out)
{
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder()};
    return guest_scenario(&s, out);
}

static const char *as_in_c(const char *name, struct guest_text *local)
{
    char locale[64];
    struct guest_text plain = {NULL, 0, 0};
    RUN(scenario(&plain));
    CHECK(strstr(plain.data, "rendered 1234567.891|0.30000000000000004|") && strstr(plain.data, "|TITLE I|"), "the scenario renders something else");
    RUN(make_locale(name, locale));
    RUN(scenario(local));
    CHECK(strcmp(setlocale(LC_ALL, NULL), locale) == 0, "the locale became %s", setlocale(LC_ALL, NULL));
    RUN(guest_differs(&plain, local, locale));
    guest_text_free(&plain);
    return NULL;
}

static const char *german(void)
{
    struct guest_text out = {NULL, 0, 0};
    char text[32];
    RUN(as_in_c("de_DE", &out));
    (void)snprintf(text, sizeof text, "%.1f %f", 0.5, strtod("0,25", NULL));
    CHECK(strcmp(text, "0,5 0,250000") == 0, "the locale is not in force: %s", text);
    guest_text_free(&out);
    return NULL;
}

static const char *turkish(void)
{
    struct guest_text out = {NULL, 0, 0};
    RUN(as_in_c("tr_TR", &out));
    CHECK(towupper(L'i') == 0x130 && towlower(L'I') == 0x131, "the locale is not in force");
    guest_text_free(&out);
    return NULL;
}

/* uselocale: what the thread has set beside the process. */
static const char *thread_locale(void)
{
    struct guest_text a = {NULL, 0, 0}, b = {NULL, 0, 0};
    char locale[64];
    RUN(scenario(&a));
    RUN(make_locale("de_DE", locale));
    locale_t own = newlocale(LC_ALL_MASK, locale, (locale_t)0);
    CHECK(own, "no locale");
    (void)setlocale(LC_ALL, "C");
    (void)uselocale(own);
    RUN(scenario(&b));
    CHECK(uselocale((locale_t)0) == own, "the thread's locale changed");
    (void)uselocale(LC_GLOBAL_LOCALE);
    freelocale(own);
    RUN(guest_differs(&a, &b, "a thread's own locale"));
    guest_text_free(&a);
    guest_text_free(&b);
    return NULL;
}

static const struct guest_case cases[] = {
    {"de_DE.UTF-8", german},
    {"tr_TR.UTF-8", turkish},
    {"a thread's own de_DE.UTF-8", thread_locale},
};
GUEST_MAIN(cases)
