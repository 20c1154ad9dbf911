#include "text/strftime.h"

#include <string.h>

#include "base/num.h"

struct date {
    int64_t year;
    int mon, day;           /* 1-12, 1-31 */
    int hour, min, sec;
    int yday, wday;         /* 0-365; 0: Sunday */
    int64_t seconds;
};

static bool is_leap(int64_t y)
{
    return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

/* Days to civil date after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms" (the arithmetic is public knowledge):
 * eras of 400 years that begin on 1 March. */
static struct date date_of(int64_t t)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const int64_t limit = INT64_C(1) << 52; /* 140 million years are enough */
    struct date d = {.seconds = t};
    t = t > limit ? limit : t < -limit ? -limit : t;
    int64_t days = t / 86400, rest = t % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    d.hour = (int)(rest / 3600);
    d.min = (int)(rest / 60 % 60);
    d.sec = (int)(rest % 60);
    d.wday = (int)(((days + 4) % 7 + 7) % 7);
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    d.day = (int)(doy - (153 * mp + 2) / 5) + 1;
    d.mon = (int)(mp < 10 ? mp + 3 : mp - 9);
    d.year = yoe + era * 400 + (d.mon <= 2);
    d.yday = before[d.mon - 1] + d.day - 1 + (d.mon > 2 && is_leap(d.year));
    return d;
}

static int weeks_in(int64_t y) /* ISO 8601 */
{
    int64_t a = (y + y / 4 - y / 100 + y / 400) % 7, p = y - 1, b = (p + p / 4 - p / 100 + p / 400) % 7;
    return a == 4 || b == 3 ? 53 : 52;
}

static int iso_week(const struct date *d, int64_t *year)
{
    int wd = d->wday ? d->wday : 7, w = (d->yday + 1 - wd + 10) / 7;
    *year = d->year;
    if (w < 1) {
        --*year;
        return weeks_in(*year);
    }
    if (w > weeks_in(d->year)) {
        ++*year;
        return 1;
    }
    return w;
}

static void put_number(struct buf *b, int64_t v, size_t width, char pad, char flag)
{
    char text[NUM_REPR_MAX];
    size_t n = num_format_i64(v, text);
    if (flag == '-')
        width = 0;
    else if (flag == '_')
        pad = ' ';
    else if (flag == '0')
        pad = '0';
    for (; width > n; width--)
        buf_putc(b, pad);
    buf_put(b, text, n);
}

static void put_text(struct buf *b, const char *s, size_t n, char flag)
{
    for (size_t i = 0; i < n; i++)
        buf_putc(b, flag == '^' && s[i] >= 'a' && s[i] <= 'z' ? (char)(s[i] - 32) : s[i]);
}

static void put_name(struct buf *b, const char *const *names, int i, bool is_short, char flag)
{
    size_t n = is_short ? 3 : strlen(names[i]);
    put_text(b, names[i], n, flag == '#' ? '^' : flag);
}

static bool put_names(struct buf *b, const struct date *d, char conv, char flag)
{
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    switch (conv) {
    case 'a':
    case 'A':
        put_name(b, days, d->wday, conv == 'a', flag);
        return true;
    case 'b':
    case 'h':
    case 'B':
        put_name(b, months, d->mon - 1, conv != 'B', flag);
        return true;
    case 'p':
        put_text(b, flag == '#' ? (d->hour < 12 ? "am" : "pm") : d->hour < 12 ? "AM" : "PM", 2, flag);
        return true;
    case 'P':
        put_text(b, d->hour < 12 ? "am" : "pm", 2, flag);
        return true;
    case 'n':
        buf_putc(b, '\n');
        return true;
    case 't':
        buf_putc(b, '\t');
        return true;
    case '%':
        buf_putc(b, '%');
        return true;
    case 'z':
    case 'Z':
        return true; /* no zone: empty, as for a naive datetime */
    default:
        return false;
    }
}

static bool put_numbers(struct buf *b, const struct date *d, char conv, char flag)
{
    int64_t iso_year;
    int week = iso_week(d, &iso_year), hour12 = d->hour % 12 ? d->hour % 12 : 12;
    const struct {
        char conv;
        int64_t value;
        size_t width;
        char pad;
    } fields[] = {
        {'d', d->day, 2, '0'}, {'e', d->day, 2, ' '}, {'m', d->mon, 2, '0'}, {'Y', d->year, 1, '0'},
        {'y', (d->year % 100 + 100) % 100, 2, '0'}, {'C', d->year / 100, 2, '0'}, {'H', d->hour, 2, '0'},
        {'k', d->hour, 2, ' '}, {'I', hour12, 2, '0'}, {'l', hour12, 2, ' '}, {'M', d->min, 2, '0'}, {'S', d->sec, 2, '0'},
        {'f', 0, 6, '0'}, {'j', d->yday + 1, 3, '0'}, {'w', d->wday, 1, '0'}, {'u', d->wday ? d->wday : 7, 1, '0'},
        {'U', (d->yday + 7 - d->wday) / 7, 2, '0'}, {'W', (d->yday + 7 - (d->wday + 6) % 7) / 7, 2, '0'},
        {'V', week, 2, '0'}, {'G', iso_year, 1, '0'}, {'g', (iso_year % 100 + 100) % 100, 2, '0'}, {'s', d->seconds, 1, '0'},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].conv == conv) {
            put_number(b, fields[i].value, fields[i].width, fields[i].pad, flag);
            return true;
        }
    return false;
}

static const char *composite(char conv)
{
    switch (conv) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

static void format(struct buf *b, const char *fmt, size_t len, const struct date *d)
{
    for (size_t i = 0; i < len; i++) {
        size_t start = i;
        char flag = 0;
        if (fmt[i] != '%' || i + 1 >= len) {
            buf_putc(b, fmt[i]);
            continue;
        }
        i++;
        if (i + 1 < len && strchr("-_0^#", fmt[i]) && fmt[i])
            flag = fmt[i++];
        const char *whole = composite(fmt[i]);
        if (whole)
            format(b, whole, strlen(whole), d); /* one level: composites hold simple conversions only */
        else if (!put_names(b, d, fmt[i], flag) && !put_numbers(b, d, fmt[i], flag))
            buf_put(b, fmt + start, i + 1 - start);
    }
}

void text_strftime(struct buf *b, const char *fmt, size_t len, int64_t t)
{
    struct date d = date_of(t);
    format(b, fmt, len, &d);
}
