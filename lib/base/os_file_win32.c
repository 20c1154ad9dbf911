/* Files on Windows. A descriptor is one of the C runtime that this library was linked with; paths are UTF-8. */
#include "base/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define PATH_UNITS 4096 /* longer ones are not opened */
#define EPOCH_1601_S 11644473600ll /* from 1601 to 1970 */

static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd);
}

static infer_status last_error(int *os_error)
{
    *os_error = (int)GetLastError();
    return INFER_ERROR_IO;
}

static infer_status file_open(const char *path, int *fd, int *os_error)
{
    WCHAR wide[PATH_UNITS];
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_UNITS))
        return last_error(os_error);
    HANDLE h = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                           FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        (void)last_error(os_error);
        return *os_error == ERROR_FILE_NOT_FOUND || *os_error == ERROR_PATH_NOT_FOUND ? INFER_ERROR_NOT_FOUND : INFER_ERROR_IO;
    }
    *fd = _open_osfhandle((intptr_t)h, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
    if (*fd >= 0)
        return INFER_OK;
    *os_error = errno;
    (void)CloseHandle(h);
    return INFER_ERROR_IO;
}

static infer_status file_dup(int fd, int *copy, int *os_error)
{
    *copy = _dup(fd);
    *os_error = errno;
    return *copy >= 0 ? INFER_OK : INFER_ERROR_IO;
}

static void file_close(int fd)
{
    (void)_close(fd);
}

static infer_status file_stat(int fd, struct os_stat *out, int *os_error)
{
    LARGE_INTEGER size;
    FILETIME written;
    HANDLE h = handle_of(fd);
    if (h == INVALID_HANDLE_VALUE) {
        *os_error = errno;
        return INFER_ERROR_IO;
    }
    if (GetFileType(h) != FILE_TYPE_DISK) {
        *os_error = 0;
        return INFER_ERROR_UNSUPPORTED;
    }
    if (!GetFileSizeEx(h, &size) || !GetFileTime(h, NULL, NULL, &written))
        return last_error(os_error);
    int64_t t = (int64_t)((uint64_t)written.dwHighDateTime << 32 | written.dwLowDateTime); /* units of 100 ns */
    out->size = (uint64_t)size.QuadPart;
    out->mtime_s = t / 10000000 - EPOCH_1601_S;
    out->mtime_ns = t % 10000000 * 100;
    return INFER_OK;
}

static infer_status file_read(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    char *p = dst;
    while (n > 0) {
        OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
        DWORD chunk = n < ((size_t)1 << 30) ? (DWORD)n : (DWORD)1 << 30, got = 0;
        BOOL ok = ReadFile(handle_of(fd), p, chunk, &got, &at);
        if (!ok && GetLastError() != ERROR_HANDLE_EOF)
            return last_error(os_error);
        if (!ok || got == 0) {
            *os_error = 0;
            return INFER_ERROR_TRUNCATED;
        }
        p += got;
        offset += got;
        n -= got;
    }
    return INFER_OK;
}

static infer_status file_map(int fd, size_t n, const void **out, int *os_error)
{
#ifdef INFER_NO_MMAP
    (void)fd;
    (void)n;
    (void)out;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
#else
    HANDLE mapping = CreateFileMappingW(handle_of(fd), NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping)
        return last_error(os_error);
    *out = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, n);
    infer_status st = *out ? INFER_OK : last_error(os_error);
    (void)CloseHandle(mapping); /* the view keeps it */
    return st != INFER_OK && (*os_error == ERROR_NOT_ENOUGH_MEMORY || *os_error == ERROR_COMMITMENT_LIMIT) ? INFER_ERROR_NO_MEMORY : st;
#endif
}

static void file_unmap(const void *p, size_t n)
{
    (void)n;
#ifdef INFER_NO_MMAP
    (void)p;
#else
    (void)UnmapViewOfFile(p);
#endif
}

/* ---- writing */

static infer_status failed(int *os_error)
{
    (void)last_error(os_error);
    return *os_error == ERROR_FILE_NOT_FOUND || *os_error == ERROR_PATH_NOT_FOUND ? INFER_ERROR_NOT_FOUND : INFER_ERROR_IO;
}

static bool widen(const char *path, WCHAR wide[PATH_UNITS])
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_UNITS) != 0;
}

/* Not shared for deletion: while the writer has it open, nobody can take it away (see `reap`). */
static infer_status file_create(const char *path, int *fd, int *os_error)
{
    WCHAR wide[PATH_UNITS];
    if (!widen(path, wide))
        return last_error(os_error);
    HANDLE h = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE)
        return failed(os_error);
    *fd = _open_osfhandle((intptr_t)h, _O_RDWR | _O_BINARY | _O_NOINHERIT);
    if (*fd >= 0)
        return INFER_OK;
    *os_error = errno;
    (void)CloseHandle(h);
    return INFER_ERROR_IO;
}

static infer_status file_write(int fd, uint64_t offset, const void *src, size_t n, int *os_error)
{
    const char *p = src;
    while (n > 0) {
        OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
        DWORD chunk = n < ((size_t)1 << 30) ? (DWORD)n : (DWORD)1 << 30, put = 0;
        if (!WriteFile(handle_of(fd), p, chunk, &put, &at) || put == 0)
            return last_error(os_error);
        p += put;
        offset += put;
        n -= put;
    }
    return INFER_OK;
}

static infer_status file_sync(int fd, int *os_error)
{
    return FlushFileBuffers(handle_of(fd)) ? INFER_OK : last_error(os_error);
}

static infer_status file_rename(int fd, const char *from, const char *to, int *os_error)
{
    WCHAR wide_from[PATH_UNITS], wide_to[PATH_UNITS];
    if (fd >= 0)
        (void)_close(fd); /* an open file keeps its name here */
    if (!widen(from, wide_from) || !widen(to, wide_to))
        return last_error(os_error);
    return MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? INFER_OK : failed(os_error);
}

static infer_status file_link(const char *from, const char *to, int *os_error)
{
    WCHAR wide_from[PATH_UNITS], wide_to[PATH_UNITS];
    if (!widen(from, wide_from) || !widen(to, wide_to))
        return last_error(os_error);
    if (CreateHardLinkW(wide_to, wide_from, NULL))
        return INFER_OK;
    infer_status st = failed(os_error);
    return *os_error == ERROR_INVALID_FUNCTION || *os_error == ERROR_NOT_SUPPORTED || *os_error == ERROR_TOO_MANY_LINKS
               ? INFER_ERROR_UNSUPPORTED : st;
}

static infer_status file_sync_dir(const char *dir, int *os_error)
{
    (void)dir;
    (void)os_error;
    return INFER_OK; /* MOVEFILE_WRITE_THROUGH did it */
}

static infer_status file_unlink(const char *path, int *os_error)
{
    WCHAR wide[PATH_UNITS];
    if (!widen(path, wide))
        return last_error(os_error);
    return DeleteFileW(wide) ? INFER_OK : failed(os_error);
}

static void file_reap(const char *path)
{
    int os_error;
    (void)file_unlink(path, &os_error); /* fails while its writer has it open */
}

static infer_status file_make_dir(const char *path, int *os_error)
{
    WCHAR wide[PATH_UNITS];
    if (!widen(path, wide))
        return last_error(os_error);
    if (CreateDirectoryW(wide, NULL))
        return INFER_OK;
    infer_status st = failed(os_error);
    DWORD attributes = GetFileAttributesW(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) ? INFER_OK : st;
}

static infer_status file_list(const char *dir, bool (*fn)(void *arg, const char *name), void *arg, int *os_error)
{
    WCHAR wide[PATH_UNITS];
    char name[4 * MAX_PATH];
    WIN32_FIND_DATAW found;
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, dir, -1, wide, PATH_UNITS - 2);
    if (n == 0)
        return last_error(os_error);
    wide[n - 1] = L'\\';
    wide[n] = L'*';
    wide[n + 1] = 0;
    HANDLE h = FindFirstFileW(wide, &found);
    if (h == INVALID_HANDLE_VALUE && GetLastError() == ERROR_DIRECTORY) { /* a file */
        *os_error = ERROR_DIRECTORY;
        return INFER_ERROR_NOT_FOUND;
    }
    if (h == INVALID_HANDLE_VALUE)
        return failed(os_error);
    bool more = true;
    do
        if (WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, (int)sizeof name, NULL, NULL) && strcmp(name, ".") != 0
            && strcmp(name, "..") != 0)
            more = fn(arg, name);
    while (more && FindNextFileW(h, &found));
    infer_status st = !more || GetLastError() == ERROR_NO_MORE_FILES ? INFER_OK : failed(os_error);
    (void)FindClose(h);
    return st;
}

static infer_status file_clone(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
    (void)from;
    (void)to;
    (void)done;
    (void)size;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
}

bool os_error_exists(int os_error)
{
    return os_error == ERROR_FILE_EXISTS || os_error == ERROR_ALREADY_EXISTS;
}

bool os_error_full(int os_error)
{
    return os_error == ERROR_DISK_FULL || os_error == ERROR_HANDLE_DISK_FULL || os_error == ERROR_FILE_TOO_LARGE;
}

const char *os_error_text(int os_error)
{
    switch (os_error) {
    case ERROR_ACCESS_DENIED: return ": permission denied";
    case ERROR_SHARING_VIOLATION: return ": another program uses it";
    case ERROR_TOO_MANY_OPEN_FILES: return ": too many files are open";
    case ERROR_WRITE_PROTECT: return ": the disk is write-protected";
    default: return "";
    }
}

static infer_status file_touch(const char *path)
{
    WCHAR wide[PATH_UNITS];
    FILETIME now;
    if (!widen(path, wide))
        return INFER_ERROR_IO;
    HANDLE h = CreateFileW(wide, FILE_WRITE_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE)
        return INFER_ERROR_IO;
    GetSystemTimeAsFileTime(&now);
    bool good = SetFileTime(h, NULL, NULL, &now);
    CloseHandle(h);
    return good ? INFER_OK : INFER_ERROR_IO;
}

const struct os_io os_io_default = {
    file_open, file_dup, file_close, file_stat, file_read, file_map, file_unmap,
    file_create, file_write, file_sync, file_rename, file_link, file_sync_dir, file_unlink, file_reap, file_make_dir, file_list, file_clone,
    file_touch, NULL, NULL, NULL,
};
