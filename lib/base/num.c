#include "base/num.h"

#include <string.h>

/* Enough for 800 digits over 10^1126, shifted by a bit: see parse below. */
#define LIMBS 128
#define MAX_DIGITS 800

struct big {
    uint32_t n; /* limbs in use; the top one is not zero */
    uint32_t w[LIMBS];
};

static void big_set(struct big *b, uint64_t v)
{
    b->w[0] = (uint32_t)v;
    b->w[1] = (uint32_t)(v >> 32);
    b->n = v >> 32 ? 2 : v ? 1 : 0;
}

static void big_mul_add(struct big *b, uint32_t mul, uint32_t add)
{
    uint64_t carry = add;
    for (uint32_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->w[i] * mul;
        b->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < LIMBS)
        b->w[b->n++] = (uint32_t)carry;
}

static void big_mul_pow10(struct big *b, int e)
{
    for (; e >= 9; e -= 9)
        big_mul_add(b, 1000000000u, 0);
    for (; e > 0; e--)
        big_mul_add(b, 10, 0);
}

static void big_shl(struct big *b, uint32_t bits)
{
    uint32_t limbs = bits / 32, rest = bits % 32;
    if (!b->n || limbs >= LIMBS - b->n)
        return;
    memmove(b->w + limbs, b->w, b->n * sizeof *b->w);
    memset(b->w, 0, limbs * sizeof *b->w);
    b->n += limbs;
    if (rest)
        big_mul_add(b, UINT32_C(1) << rest, 0);
}

static int big_cmp(const struct big *a, const struct big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

static void big_sub(struct big *a, const struct big *b) /* a >= b */
{
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        borrow += (int64_t)a->w[i] - (i < b->n ? b->w[i] : 0);
        a->w[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    while (a->n && !a->w[a->n - 1])
        a->n--;
}

static void big_add(struct big *a, const struct big *b)
{
    uint64_t carry = 0;
    uint32_t n = a->n > b->n ? a->n : b->n;
    for (uint32_t i = 0; i < n; i++) {
        carry += (uint64_t)(i < a->n ? a->w[i] : 0) + (i < b->n ? b->w[i] : 0);
        a->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    a->n = n;
    if (carry && n < LIMBS)
        a->w[a->n++] = (uint32_t)carry;
}

static uint32_t bits_of(uint64_t v)
{
    uint32_t n = 0;
    for (; v; v >>= 1)
        n++;
    return n;
}

static uint32_t big_bits(const struct big *b)
{
    return b->n ? (b->n - 1) * 32 + bits_of(b->w[b->n - 1]) : 0;
}

/* ---- Text to number ---- */

struct decimal {
    bool negative;
    struct big digits; /* the value is digits * 10^exp */
    int64_t exp;
    uint32_t n_digits; /* significant ones kept */
};

static void add_digit(struct decimal *d, int digit, bool after_point, bool *sticky)
{
    if (d->n_digits < MAX_DIGITS) {
        if (d->n_digits || digit) {
            if (!d->digits.n)
                big_set(&d->digits, (uint64_t)digit);
            else
                big_mul_add(&d->digits, 10, (uint32_t)digit);
            d->n_digits++;
        }
        d->exp -= after_point;
    } else {
        *sticky |= digit != 0;
        d->exp += !after_point;
    }
}

static bool scan_decimal(const char *s, size_t n, struct decimal *d)
{
    size_t i = 0;
    bool any = false, point = false, sticky = false;
    d->n_digits = 0;
    d->exp = 0;
    big_set(&d->digits, 0);
    d->negative = n && s[0] == '-';
    if (n && (s[0] == '-' || s[0] == '+'))
        i++;
    for (; i < n; i++) {
        if (s[i] == '.' && !point) {
            point = true;
        } else if (s[i] >= '0' && s[i] <= '9') {
            any = true;
            add_digit(d, s[i] - '0', point, &sticky);
        } else {
            break;
        }
    }
    if (sticky) { /* a digit beyond those kept decides ties only */
        big_mul_add(&d->digits, 10, 1);
        d->exp--;
    }
    if (!any || i == n)
        return any;
    if (s[i] != 'e' && s[i] != 'E')
        return false;
    bool minus = ++i < n && s[i] == '-';
    if (i < n && (s[i] == '-' || s[i] == '+'))
        i++;
    if (i == n)
        return false;
    int64_t e = 0;
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        if (e < INT64_C(1) << 40)
            e = e * 10 + (s[i] - '0');
    }
    d->exp += minus ? -e : e;
    return true;
}

static double double_of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* q * 2^x, with `sticky` when something below q was cut off, rounded to a double; q has at least 62 bits. */
static double round_to_double(uint64_t q, int x, bool sticky)
{
    int lsb = x + (int)bits_of(q) - 53;
    if (lsb < -1074)
        lsb = -1074;
    int shift = lsb - x;
    if (shift > 64)
        return 0;
    uint64_t mant = shift == 64 ? 0 : q >> shift;
    uint64_t rest = shift == 64 ? q : q & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (sticky || (mant & 1))))
        mant++;
    uint64_t bits = ((uint64_t)(lsb + 1074) << 52) + mant;
    if (bits >= UINT64_C(0x7ff) << 52)
        bits = UINT64_C(0x7ff) << 52;
    return double_of_bits(bits);
}

/* num / den, neither zero, rounded once; both are used up. */
static double quotient(struct big *num, struct big *den)
{
    /* Scale so that the quotient lies in (1/4, 1), then take 64 bits of it. */
    int s0 = (int)big_bits(den) - 1 - (int)big_bits(num);
    if (s0 >= 0)
        big_shl(num, (uint32_t)s0);
    else
        big_shl(den, (uint32_t)-s0);
    uint64_t q = 0;
    for (int i = 0; i < 64; i++) {
        big_shl(num, 1);
        q <<= 1;
        if (big_cmp(num, den) >= 0) {
            big_sub(num, den);
            q |= 1;
        }
    }
    return round_to_double(q, -64 - s0, num->n != 0);
}

bool num_parse_double(const char *s, size_t n, double *out)
{
    struct decimal d;
    struct big den;
    double v;
    if (!scan_decimal(s, n, &d))
        return false;
    if (!d.digits.n || d.exp + d.n_digits < -330) {
        v = 0;
    } else if (d.exp + d.n_digits > 310) {
        v = double_of_bits(UINT64_C(0x7ff) << 52);
    } else {
        big_set(&den, 1);
        big_mul_pow10(d.exp >= 0 ? &d.digits : &den, (int)(d.exp >= 0 ? d.exp : -d.exp));
        v = quotient(&d.digits, &den);
    }
    *out = d.negative ? -v : v;
    return true;
}

double num_divide_i64(int64_t a, int64_t b)
{
    struct big num, den;
    if (!a)
        return b < 0 ? -0.0 : 0.0;
    big_set(&num, a < 0 ? 0 - (uint64_t)a : (uint64_t)a);
    big_set(&den, b < 0 ? 0 - (uint64_t)b : (uint64_t)b);
    double v = quotient(&num, &den);
    return (a < 0) != (b < 0) ? -v : v;
}

bool num_parse_i64(const char *s, size_t n, int64_t *out)
{
    size_t i = n && (s[0] == '-' || s[0] == '+');
    bool minus = n && s[0] == '-';
    uint64_t v = 0, limit = (uint64_t)INT64_MAX + minus;
    if (i == n)
        return false;
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (v > (limit - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* ---- Number to text ---- */

size_t num_format_i64(int64_t v, char out[NUM_REPR_MAX])
{
    char tmp[NUM_REPR_MAX];
    size_t n = 0, len = 0;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do
        tmp[n++] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        out[len++] = '-';
    while (n)
        out[len++] = tmp[--n];
    return len;
}

struct parts { /* |v| = mant * 2^exp */
    uint64_t mant;
    int exp;
    bool negative, inf, nan;
};

static struct parts parts_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    struct parts p = {bits & ((UINT64_C(1) << 52) - 1), (int)(bits >> 52 & 0x7ff), bits >> 63, false, false};
    if (p.exp == 0x7ff) {
        p.inf = !p.mant;
        p.nan = !p.inf;
    } else if (p.exp == 0) {
        p.exp = -1074;
    } else {
        p.mant |= UINT64_C(1) << 52;
        p.exp -= 1075;
    }
    return p;
}

bool num_is_finite(double x)
{
    struct parts p = parts_of(x);
    return !p.inf && !p.nan;
}

static size_t put_special(const struct parts *p, char *out)
{
    const char *s = p->nan ? "nan" : p->negative ? "-inf" : "inf";
    size_t n = strlen(s);
    memcpy(out, s, n);
    return n;
}

/* A k such that v < 10^(k+2), and k <= floor(log10(v)). */
static int log10_below(const struct parts *p)
{
    int e = p->exp + (int)bits_of(p->mant) - 1;
    int k = e * 78913; /* log10(2) * 2^18, rounded down */
    return e >= 0 ? k >> 18 : -((-k + (1 << 18) - 1) >> 18) - 1;
}

struct digits {
    size_t n;
    int point; /* the value is 0.DDDD * 10^point */
    char d[NUM_FIXED_MAX];
};

static int next_digit(struct big *r, const struct big *s)
{
    int d = 0;
    while (big_cmp(r, s) >= 0) {
        big_sub(r, s);
        d++;
    }
    return d;
}

static void scale_pow10(struct big *num, struct big *den, int k)
{
    if (k > 0)
        big_mul_pow10(den, k);
    else
        big_mul_pow10(num, -k);
}

/* Free-format printing after Steele and White, "How to print floating-point numbers accurately" (1990): r/s is the rest of
 * the value, lo/s and hi/s half the distances to the neighbouring doubles. */
static void shortest(const struct parts *p, struct digits *out)
{
    struct big r, s, lo, hi, sum;
    bool even = !(p->mant & 1), edge = p->mant == UINT64_C(1) << 52 && p->exp > -1074;
    big_set(&r, p->mant << (edge ? 2 : 1));
    big_set(&s, edge ? 4 : 2);
    big_set(&lo, 1);
    big_set(&hi, edge ? 2 : 1);
    if (p->exp >= 0) {
        big_shl(&r, (uint32_t)p->exp);
        big_shl(&lo, (uint32_t)p->exp);
        big_shl(&hi, (uint32_t)p->exp);
    } else {
        big_shl(&s, (uint32_t)-p->exp);
    }
    int k = log10_below(p);
    scale_pow10(&r, &s, k);
    if (k < 0) {
        big_mul_pow10(&lo, -k);
        big_mul_pow10(&hi, -k);
    }
    for (;; k++) {
        sum = r;
        big_add(&sum, &hi);
        if (big_cmp(&sum, &s) < (even ? 0 : 1))
            break;
        big_mul_add(&s, 10, 0);
    }
    out->n = 0;
    out->point = k;
    for (bool low = false, high = false; !low && !high;) {
        big_mul_add(&r, 10, 0);
        big_mul_add(&lo, 10, 0);
        big_mul_add(&hi, 10, 0);
        int d = next_digit(&r, &s);
        sum = r;
        big_add(&sum, &hi);
        low = big_cmp(&r, &lo) < (even ? 1 : 0);
        high = big_cmp(&sum, &s) > (even ? -1 : 0);
        if (high) {
            big_mul_add(&r, 2, 0);
            int c = big_cmp(&r, &s);
            d += !low || c > 0 || (c == 0 && (d & 1));
        }
        out->d[out->n++] = (char)('0' + d);
    }
}

/* Digits up to `places` after the point (relative: significant digits), rounded half to even. n may come out as 0. */
static void rounded(const struct parts *p, int places, bool significant, struct digits *out)
{
    struct big r, s;
    out->n = 0;
    out->point = 0;
    if (!p->mant) {
        out->n = significant ? (size_t)places : 0;
        out->point = significant ? 1 : 0;
        memset(out->d, '0', out->n);
        return;
    }
    big_set(&r, p->mant);
    big_set(&s, 1);
    big_shl(p->exp >= 0 ? &r : &s, (uint32_t)(p->exp >= 0 ? p->exp : -p->exp));
    int k = log10_below(p);
    scale_pow10(&r, &s, k);
    for (; big_cmp(&r, &s) >= 0; k++)
        big_mul_add(&s, 10, 0);
    int count = significant ? places : k + places;
    out->point = k;
    if (count < 0)
        return;
    for (int i = 0; i < count; i++) {
        big_mul_add(&r, 10, 0);
        out->d[out->n++] = (char)('0' + next_digit(&r, &s));
    }
    big_mul_add(&r, 2, 0);
    int c = big_cmp(&r, &s);
    if (c < 0 || (c == 0 && !(out->n && (out->d[out->n - 1] & 1))))
        return;
    size_t i = out->n;
    while (i && out->d[i - 1] == '9')
        out->d[--i] = '0';
    if (i) {
        out->d[i - 1]++;
        return;
    }
    memmove(out->d + 1, out->d, out->n); /* 9.99 became 10.0 */
    out->d[0] = '1';
    out->point++;
    if (!significant)
        out->n++;
}

/* Digits as ddd.ddd with exactly `places` after the point; missing digits are zeros. */
static size_t put_fixed(const struct digits *g, int places, char *out)
{
    size_t len = 0;
    if (g->point <= 0)
        out[len++] = '0';
    for (int i = 0; i < g->point; i++)
        out[len++] = (size_t)i < g->n ? g->d[i] : '0';
    if (places > 0)
        out[len++] = '.';
    for (int i = g->point; i < g->point + places; i++)
        out[len++] = i >= 0 && (size_t)i < g->n ? g->d[i] : '0';
    return len;
}

static size_t put_exp(const struct digits *g, char *out)
{
    size_t len = 0;
    out[len++] = g->d[0];
    if (g->n > 1) {
        out[len++] = '.';
        memcpy(out + len, g->d + 1, g->n - 1);
        len += g->n - 1;
    }
    int e = g->point - 1;
    out[len++] = 'e';
    out[len++] = e < 0 ? '-' : '+';
    if (e < 0)
        e = -e;
    if (e < 10)
        out[len++] = '0';
    return len + num_format_i64(e, out + len);
}

size_t num_repr(double v, char out[NUM_REPR_MAX])
{
    struct parts p = parts_of(v);
    struct digits g = {.n = 1, .point = 1, .d = "0"};
    if (p.inf || p.nan)
        return put_special(&p, out);
    if (p.mant)
        shortest(&p, &g);
    size_t len = 0;
    if (p.negative)
        out[len++] = '-';
    if (g.point <= -4 || g.point > 16)
        return len + put_exp(&g, out + len);
    int places = (int)g.n - g.point;
    return len + put_fixed(&g, places > 0 ? places : 1, out + len);
}

static int clamp_prec(int prec)
{
    return prec < 0 ? 0 : prec > NUM_PREC_MAX ? NUM_PREC_MAX : prec;
}

size_t num_fixed(double v, int prec, char *out)
{
    struct parts p = parts_of(v);
    struct digits g;
    if (p.inf || p.nan)
        return put_special(&p, out);
    prec = clamp_prec(prec);
    rounded(&p, prec, false, &g);
    size_t len = 0;
    if (p.negative)
        out[len++] = '-';
    return len + put_fixed(&g, prec, out + len);
}

size_t num_exp(double v, int prec, char *out)
{
    struct parts p = parts_of(v);
    struct digits g;
    if (p.inf || p.nan)
        return put_special(&p, out);
    rounded(&p, clamp_prec(prec) + 1, true, &g);
    size_t len = 0;
    if (p.negative)
        out[len++] = '-';
    return len + put_exp(&g, out + len);
}

size_t num_general(double v, int prec, bool alt, char *out)
{
    struct parts p = parts_of(v);
    struct digits g;
    if (p.inf || p.nan)
        return put_special(&p, out);
    prec = prec <= 0 ? 1 : clamp_prec(prec);
    rounded(&p, prec, true, &g);
    size_t len = 0;
    if (p.negative)
        out[len++] = '-';
    while (!alt && g.n > 1 && g.d[g.n - 1] == '0')
        g.n--;
    if (g.point <= -4 || g.point > prec)
        return len + put_exp(&g, out + len);
    int places = (int)g.n - g.point;
    return len + put_fixed(&g, places > 0 ? places : 0, out + len);
}

/* ---- Exact float helpers ---- */

double num_fmod(double x, double y)
{
    struct parts a = parts_of(x), b = parts_of(y);
    if (a.nan || b.nan || a.inf || (!b.inf && !b.mant))
        return double_of_bits(UINT64_C(0x7ff8) << 48);
    if (b.inf || !a.mant)
        return x;
    uint64_t m = a.mant;
    int e = a.exp;
    for (; e < b.exp && !(b.mant >> 62); b.exp--) /* bring both to the smaller exponent */
        b.mant <<= 1;
    if (e < b.exp)
        return x; /* |x| < |y| */
    m %= b.mant;
    for (; e > b.exp; e--)
        m = (m << 1) % b.mant;
    int up = (int)(53 - bits_of(m));
    if (!m)
        return a.negative ? -0.0 : 0.0;
    for (; up > 0 && e > -1074; up--, e--)
        m <<= 1;
    double r = double_of_bits(((uint64_t)(e + 1074) << 52) + m);
    return a.negative ? -r : r;
}

double num_floor(double x)
{
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0))
        return x; /* 2^52 and above: whole already */
    double t = (double)(int64_t)x;
    if (t == 0)
        return x < 0 ? -1.0 : x == 0 ? x : 0.0;
    return t > x ? t - 1 : t;
}

int num_compare_i64_double(int64_t i, double d)
{
    if (d != d)
        return 2;
    if (d >= 9223372036854775808.0)
        return -1;
    if (d < -9223372036854775808.0)
        return 1;
    int64_t t = (int64_t)d;
    if (i != t)
        return i < t ? -1 : 1;
    double rest = d - (double)t;
    return rest > 0 ? -1 : rest < 0;
}
