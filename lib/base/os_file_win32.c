/* Files on Windows. A descriptor is one of the C runtime that this library was linked with; paths are UTF-8. */
#include "base/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
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

const struct os_io os_io_default = {file_open, file_dup, file_close, file_stat, file_read, file_map, file_unmap};
