#include "line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "output.h"
#include "text.h"

#ifdef CLI_LIBEDIT
#include <editline/readline.h>
#include <locale.h>

static char *edited_line(const char *prompt)
{
    static bool ready;
    if (!ready) {
        setlocale(LC_CTYPE, ""); /* how wide characters are; numbers keep the C locale */
        using_history();
        stifle_history(1000);
        ready = true;
    }
    char *line;
    do {
        errno = 0;
        line = readline(prompt);
    } while (!line && errno == EINTR); /* Ctrl-C drops the line, not the conversation */
    if (line && line[0])
        add_history(line);
    return line;
}
#endif

/* Standard input, unbuffered: what follows the line stays for whoever reads next. */
static char *plain_line(bool *failed)
{
    struct text t = {0};
    for (;;) {
        char c;
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && errno == EINTR)
            continue;
        *failed = n < 0 || t.failed;
        if (*failed || (n == 0 && t.len == 0)) {
            text_free(&t);
            return NULL;
        }
        if (n == 0 || c == '\n')
            break;
        text_put(&t, &c, 1);
    }
    text_put(&t, "", 0); /* an empty line is a string too */
    *failed = t.failed;
    return t.data;
}

char *line_read(const char *prompt, bool *failed)
{
    *failed = false;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return plain_line(failed);
#ifdef CLI_LIBEDIT
    return edited_line(prompt);
#else
    out_puts(prompt);
    return plain_line(failed);
#endif
}
