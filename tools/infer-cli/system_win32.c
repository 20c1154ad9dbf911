#include "system.h"

#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <shellapi.h>

#include "cli.h"

static void (*interrupt)(void);

static char *utf8_of(const WCHAR *w)
{
    int n = WideCharToMultiByte(CP_UTF8, 0, w, -1, NULL, 0, NULL, NULL);
    char *s = n > 0 ? malloc((size_t)n) : NULL;
    if (s)
        (void)WideCharToMultiByte(CP_UTF8, 0, w, -1, s, n, NULL, NULL);
    return s;
}

void system_start(int *argc, char ***argv)
{
    int n = 0;
    LPWSTR *wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **list = wide ? calloc((size_t)n + 1, sizeof *list) : NULL;
    bool ok = list != NULL;
    for (int i = 0; ok && i < n; i++)
        ok = (list[i] = utf8_of(wide[i])) != NULL;
    LocalFree(wide);
    if (!ok)
        _Exit(EXIT_LIMIT);
    *argc = n;
    *argv = list;
    (void)_setmode(1, _O_BINARY); /* a new line is one byte */
    (void)_setmode(2, _O_BINARY);
    (void)SetConsoleOutputCP(CP_UTF8);
}

static BOOL WINAPI on_event(DWORD event)
{
    if (event != CTRL_C_EVENT)
        return FALSE;
    interrupt();
    return TRUE;
}

bool system_on_interrupt(void (*f)(void))
{
    interrupt = f;
    return SetConsoleCtrlHandler(on_event, TRUE) != 0;
}

_Noreturn void system_quit(int code)
{
    _Exit(code);
}

bool system_executable(char *path, size_t size)
{
    WCHAR wide[4096];
    DWORD n = GetModuleFileNameW(NULL, wide, 4096);
    if (n == 0 || n >= 4096 || !WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)size, NULL, NULL))
        return false;
    for (; *path; path++)
        if (*path == '\\')
            *path = '/';
    return true;
}

#define EPOCH_1601_S 11644473600ll /* from 1601 to 1970 */

int64_t system_local_time(void)
{
    FILETIME utc, local;
    GetSystemTimeAsFileTime(&utc);
    if (!FileTimeToLocalFileTime(&utc, &local))
        local = utc;
    return (int64_t)(((uint64_t)local.dwHighDateTime << 32 | local.dwLowDateTime) / 10000000) - EPOCH_1601_S;
}

double system_seconds(void)
{
    LARGE_INTEGER now, rate;
    (void)QueryPerformanceCounter(&now);
    (void)QueryPerformanceFrequency(&rate);
    return (double)now.QuadPart / (double)rate.QuadPart;
}

static WCHAR *wide_of(const char *s)
{
    int n = MultiByteToWideChar(CP_UTF8, 0, s, -1, NULL, 0);
    WCHAR *w = n > 0 ? malloc((size_t)n * sizeof *w) : NULL;
    if (w)
        (void)MultiByteToWideChar(CP_UTF8, 0, s, -1, w, n);
    return w;
}

FILE *system_open(const char *path, const char *mode)
{
    WCHAR *p = wide_of(path), *m = wide_of(mode);
    FILE *f = p && m ? _wfopen(p, m) : NULL;
    free(p);
    free(m);
    return f;
}

bool system_sync(FILE *f)
{
    return fflush(f) == 0 && _commit(_fileno(f)) == 0;
}

bool system_replace(const char *from, const char *to)
{
    WCHAR *a = wide_of(from), *b = wide_of(to);
    bool ok = a && b && MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
    free(a);
    free(b);
    return ok;
}

bool system_remove(const char *path)
{
    WCHAR *p = wide_of(path);
    bool ok = p && DeleteFileW(p);
    free(p);
    return ok;
}
