/* Walks of the rarer formats, part of mm_simd.h: grids, ternary and small floats. They only fill tiles. */

/* 2^(e - 128) for e of 0 .. 255, subnormals too: the product of two powers of two that are normal. */
INLINE vf e8m0_half(vi e)
{
    vi bias = vset32(127 - 64), e1 = vsrl(e, 1), e2 = vsub32(e, e1);
    return vmul(vasfloat(vsll(vadd32(e1, bias), 23)), vasfloat(vsll(vadd32(e2, bias), 23)));
}

INLINE void walk_mxfp4(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 17) {
        vi c[8];
        nibbles_lut(p + 1, stride, codebook_fp4, vset32(0x10101010), c, s, 0, 272);
        touch_rest(s, 4, 272);
        EMIT_MM_K32_Z16(s, b, c, ((struct scales){.d = e8m0_half(vrows1(p, stride))}));
    }
}

/* UE4M3 halved: read as a float of the same exponent bits, subnormals too, times 2^119. 0x7F is 0. */
INLINE vf ue4m3_half(vi x)
{
    vi bits = vzero_where(vsll(vand(x, vset32(0x7f)), 20), x, vset32(0x7f));
    return vmul(vasfloat(bits), vconstf(0x1p119f));
}

INLINE void walk_nvfp4(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi low4 = vset32(0x0f0f0f0f), zero = vset32(0x20202020), byte = vset32(255);
    for (uint32_t b = 0; b < n; b += 2, p += 36) {
        vi d = vrows4(p, stride);
        UNROLL(2)
        for (unsigned k = 0; k < 2; k++) {
            vi q[4], c[8];
            rows16(p + 4 + 16 * k, stride, q, s, 0, 0);
            UNROLL(8)
            for (int j = 0; j < 8; j++) { /* low nibbles of 8 bytes, then high ones, then the next 8 */
                vi x = q[2 * (j / 4) + j % 2];
                c[j] = vadd8(vlut(codebook_fp4, vand(j % 4 / 2 ? vsrl(x, 4) : x, low4)), zero);
            }
            struct scales v = {.d = ue4m3_half(vand(vsrl(d, 16 * k), byte)), .d1 = ue4m3_half(vand(vsrl(d, 16 * k + 8), byte))};
            EMIT_MM_K16_Z32(s, b + k, c, v);
        }
    }
}

INLINE void walk_q8_1(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b++, p += 36) {
        vi c[8];
        rows32(p + 4, stride, c, s, 0, 0);
        UNROLL(8)
        for (int j = 0; j < 8; j++)
            c[j] = vxor(c[j], vset32(0x80808080));
        EMIT_MM_K32_Z128(s, b, c, ((struct scales){.d = vhalf(p, stride)}));
    }
}

INLINE void walk_q8_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 292) {
        vf d = vasfloat(vrows4(p, stride));
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            vi c[8];
            rows32(p + 4 + 32 * k, stride, c, s, 0, 0);
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = vxor(c[j], vset32(0x80808080));
            EMIT_MM_K32_Z128(s, b + k, c, ((struct scales){.d = d}));
        }
    }
}

/* ---- ternary and binary ---- */

INLINE void walk_q1_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi two = vset32(0x02020202), seven = vset32(0x07070707);
    for (uint32_t b = 0; b < n; b += 4, p += 18) {
        vi q[4];
        vf d = vhalf(p, stride);
        rows16(p + 2, stride, q, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            vi c[8];
            UNROLL(8)
            for (unsigned j = 0; j < 8; j++)
                c[j] = vadd8(vand(vspread(vsrl(q[k], 4 * j)), two), seven);
            EMIT_MM_K32_Z8(s, b + k, c, ((struct scales){.d = d}));
        }
    }
}

/* Four codes of 2 bits in byte n of the lane, one to each byte. */
INLINE vi four_codes(vi a, unsigned n)
{
    vi x = vand(vsrl(a, 8 * n), vset32(255));
    x = vor(vor(x, vsll(x, 6)), vor(vsll(x, 12), vsll(x, 18)));
    return vand(x, vset32(0x03030303));
}

INLINE void walk_q2_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 2, p += 18) {
        vi q[4];
        vf d = vhalf(p, stride);
        rows16(p + 2, stride, q, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            vi c[8];
            UNROLL(8)
            for (unsigned j = 0; j < 8; j++)
                c[j] = vadd8(four_codes(q[2 * k + j / 4], j % 4), vset32(0x07070707));
            EMIT_MM_K32_Z8(s, b + k, c, ((struct scales){.d = d}));
        }
    }
}

INLINE void walk_tq2_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 66) {
        vf d = vhalf(p + 64, stride);
        NO_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            vi q[8];
            rows32(p + 32 * half, stride, q, s, 0, 0);
            UNROLL(4)
            for (unsigned k = 0; k < 4; k++) {
                vi c[8];
                UNROLL(8)
                for (int j = 0; j < 8; j++)
                    c[j] = vadd8(vand(vsrl(q[j], 2 * k), vset32(0x03030303)), vset32(0x07070707));
                EMIT_MM_K32_Z8(s, b + 4 * half + k, c, ((struct scales){.d = d}));
            }
        }
    }
}

/* The digit of each byte that a power of 3 brings to the top, plus 7. */
INLINE vi trits(vi a, uint32_t power3)
{
    const vi even = vset32(0x00ff00ff), three = vset32(0x00030003);
    vi power = vset32(power3 * 0x00010001u);
    vi lo = vmul16(vand(vmul16(vand(a, even), power), even), three);
    vi hi = vmul16(vand(vmul16(vand(vsrl(a, 8), even), power), even), three);
    lo = vand(vsrl(lo, 8), even); /* at most 2 in the upper byte of each half */
    hi = vand(hi, vset32(0xff00ff00));
    return vadd8(vor(lo, hi), vset32(0x07070707));
}

INLINE void walk_tq1_0(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 54) {
        struct scales v = {.d = vhalf(p + 52, stride)};
        vi q[8], c[8], r[4], last = vrows4(p + 48, stride);
        rows32(p, stride, q, s, 0, 0);
        rows16(p + 32, stride, r, s, 0, 0);
        uint32_t power = 1;
        NO_UNROLL
        for (unsigned k = 0; k < 5; k++, power *= 3) {
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                c[j] = trits(q[j], power);
            EMIT_MM_K32_Z8(s, b + k, c, v);
        }
        power = 1;
        NO_UNROLL
        for (unsigned k = 0; k < 3; k++, power *= 9) {
            UNROLL(4)
            for (unsigned j = 0; j < 4; j++) {
                c[j] = trits(r[j], power);
                c[j + 4] = k < 2 ? trits(r[j], 3 * power) : trits(last, j == 0 ? 1 : j == 1 ? 3 : j == 2 ? 9 : 27);
            }
            EMIT_MM_K32_Z8(s, b + 5 + k, c, v);
        }
    }
}

/* ---- grids ---- */

/* zero + value, or zero - value where the bit of `signs` is set: bits 0..3 for the 4 bytes. */
INLINE vi with_signs(vi value, vi signs, vi zero)
{
    vi mask = vspread(signs);
    return vadd8(vsub8(vxor(value, mask), mask), zero);
}

/* Four groups of 7 sign bits, one to a byte, to 8 each: the top one makes the number of ones even. */
INLINE vi even_signs(vi seven)
{
    vi x = vxor(seven, vsrl(seven, 4));
    x = vxor(x, vsrl(x, 2));
    x = vxor(x, vsrl(x, 1));
    return vor(seven, vsll(vand(x, vset32(0x01010101)), 7));
}

/* 28 bits to four groups of 7. */
INLINE vi spread_sevens(vi a)
{
    vi lo = vor(vand(a, vset32(0x7f)), vsll(vand(a, vset32(0x3f80)), 1));
    return vor(lo, vor(vsll(vand(a, vset32(0x1fc000)), 2), vsll(vand(a, vset32(0xfe00000)), 3)));
}

/* 32 values by four entries of a grid of 8 bytes; signs: a bit each. */
INLINE void grid8(const uint64_t *grid, const vi index[4], vi signs, vi zero, vi c[8])
{
    UNROLL(4)
    for (unsigned l = 0; l < 4; l++) {
        c[2 * l] = with_signs(vgather(grid, index[l], 8), vsrl(signs, 8 * l), zero);
        c[2 * l + 1] = with_signs(vgather((const uint8_t *)grid + 4, index[l], 8), vsrl(signs, 8 * l + 4), zero);
    }
}

/* d / 8 * (2 * a + 1), and the like with another d. */
INLINE vf odd_scale(vf d, vi a)
{
    return vmul(d, vcvt(vadd32(vadd32(a, a), vset32(1))));
}

INLINE void walk_iq2_xxs(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 66) {
        vf d = vmul(vhalf(p, stride), vconstf(0.125f));
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[4];
            rows16(p + 2 + 8 * k, stride, q, s, 0, 0);
            NO_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                vi c[8], index[4], aux = q[2 * i + 1];
                UNROLL(4)
                for (unsigned l = 0; l < 4; l++)
                    index[l] = vand(vsrl(q[2 * i], 8 * l), vset32(255));
                grid8(codebook_iq2xxs, index, even_signs(spread_sevens(aux)), vset32(0x80808080), c);
                EMIT_MM_K32_Z128(s, b + k + i, c, ((struct scales){.d = odd_scale(d, vsrl(aux, 28))}));
            }
        }
    }
}

/* Nibbles 2k and 2k + 1 of eight bytes a, b: scales of the halves of block k. */
INLINE struct scales two_scales(vf d, vi eight[2], uint32_t k)
{
    vi pair = vsrl(eight[k / 4], 8 * (k % 4));
    return (struct scales){.d = odd_scale(d, vand(pair, vset32(15))), .d1 = odd_scale(d, vand(vsrl(pair, 4), vset32(15)))};
}

INLINE void walk_iq2_xs(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi nine = vset32(511), word = vset32(0xffff);
    for (uint32_t b = 0; b < n; b += 8, p += 74) {
        vf d = vmul(vhalf(p, stride), vconstf(0.125f));
        vi sc[2] = {vrows4(p + 66, stride), vrows4(p + 70, stride)};
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[4];
            rows16(p + 2 + 8 * k, stride, q, s, 0, 0);
            NO_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                vi c[8], lo = q[2 * i], hi = q[2 * i + 1];
                vi index[4] = {vand(lo, nine), vand(vsrl(lo, 16), nine), vand(hi, nine), vand(vsrl(hi, 16), nine)};
                vi s01 = vor(vsrl(vand(lo, word), 9), vsll(vsrl(lo, 25), 8));
                vi s23 = vor(vsrl(vand(hi, word), 9), vsll(vsrl(hi, 25), 8));
                grid8(codebook_iq2xs, index, even_signs(vor(s01, vsll(s23, 16))), vset32(0x40404040), c);
                EMIT_MM_K16_Z64(s, b + k + i, c, two_scales(d, sc, k + i));
            }
        }
    }
}

INLINE void walk_iq2_s(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 82) {
        vf d = vmul(vhalf(p, stride), vconstf(0.125f));
        vi q[8], signs[8], hs[4];
        rows32(p + 2, stride, q, s, 0, 0);
        rows32(p + 34, stride, signs, s, 0, 0);
        rows16(p + 66, stride, hs, s, 0, 0); /* 8 bytes of index bits, 8 of scales */
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            vi c[8], index[4], high = vsrl(hs[k / 4], 8 * (k % 4));
            UNROLL(4)
            for (unsigned l = 0; l < 4; l++)
                index[l] = vand_or(vsll(vsrl(high, 2 * l), 8), vset32(0x300), vand(vsrl(q[k], 8 * l), vset32(255)));
            grid8(codebook_iq2s, index, signs[k], vset32(0x40404040), c);
            EMIT_MM_K16_Z64(s, b + k, c, two_scales(d, hs + 2, k));
        }
    }
}

/* 32 values by eight entries of a grid of 4 bytes: index j is byte j % 4 of q[j / 4], and bit j of high as its bit 8. */
INLINE void grid4(const uint32_t *grid, const vi q[2], vi high, vi signs, vi zero, vi c[8])
{
    UNROLL(8)
    for (unsigned j = 0; j < 8; j++) {
        vi index = vand_or(vsll(vsrl(high, j), 8), vset32(0x100), vand(vsrl(q[j / 4], 8 * (j % 4)), vset32(255)));
        c[j] = with_signs(vgather(grid, index, 4), vsrl(signs, 4 * j), zero);
    }
}

INLINE void walk_iq3_xxs(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 98) {
        vf d = vmul(vhalf(p, stride), vconstf(0.25f));
        vi aux[8];
        rows32(p + 66, stride, aux, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[4];
            rows16(p + 2 + 8 * k, stride, q, s, 0, 0);
            NO_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                vi c[8], a = aux[k + i];
                grid4(codebook_iq3xxs, q + 2 * i, vzero(), even_signs(spread_sevens(a)), vset32(0x80808080), c);
                EMIT_MM_K32_Z128(s, b + k + i, c, ((struct scales){.d = odd_scale(d, vsrl(a, 28))}));
            }
        }
    }
}

INLINE void walk_iq3_s(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 110) {
        vf d = vhalf(p, stride);
        vi signs[8], scale = vrows4(p + 106, stride), high[2] = {vrows4(p + 66, stride), vrows4(p + 70, stride)};
        rows32(p + 74, stride, signs, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k += 2) {
            vi q[4];
            rows16(p + 2 + 8 * k, stride, q, s, 0, 0);
            NO_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t e = k + i;
                vi c[8];
                grid4(codebook_iq3s, q + 2 * i, vsrl(high[e / 4], 8 * (e % 4)), signs[e], vset32(0x10101010), c);
                vi sc = vand(vsrl(scale, 4 * e), vset32(15));
                EMIT_MM_K32_Z16(s, b + e, c, ((struct scales){.d = odd_scale(d, sc)}));
            }
        }
    }
}

/* 8 values of -1, 0, 1 by one entry, each 8g + 1, or 8g - 1 where bit 15 of `minus` is set, plus zero (a byte). */
INLINE void iq1_eight(vi index, vi minus, uint32_t zero, vi c[2])
{
    vi sign = vand(vsra(vsll(minus, 16), 31), vset32(0x02020202)), base = vsub32(vset32((zero + 1) * 0x01010101u), sign);
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        vi g = vgather((const uint8_t *)codebook_iq1 + 4 * i, index, 8);
        c[i] = vadd8(vand(vsll(g, 3), vset32(0xf8f8f8f8)), base);
    }
}

INLINE void walk_iq1_s(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 50) {
        vf d = vmul(vhalf(p, stride), vconstf(0.125f));
        vi q[8], hs[4];
        rows32(p + 2, stride, q, s, 0, 0);
        rows16(p + 34, stride, hs, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            vi c[8], high = vsrl(hs[k / 2], 16 * (k % 2));
            UNROLL(4)
            for (unsigned l = 0; l < 4; l++)
                iq1_eight(vand_or(vsll(vsrl(high, 3 * l), 8), vset32(0x700), vand(vsrl(q[k], 8 * l), vset32(255))), high, 16, c + 2 * l);
            EMIT_MM_K32_Z16(s, b + k, c, ((struct scales){.d = odd_scale(d, vand(vsrl(high, 12), vset32(7)))}));
        }
    }
}

INLINE void walk_iq1_m(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    for (uint32_t b = 0; b < n; b += 8, p += 56) {
        vi q[8], hs[4], sc[2] = {vrows4(p + 48, stride), vrows4(p + 52, stride)};
        vi d01 = vor(vand(vsrl(sc[0], 12), vset32(0xf)), vand(vsrl(sc[0], 24), vset32(0xf0)));
        vi d23 = vor(vand(vsrl(sc[1], 4), vset32(0xf00)), vand(vsrl(sc[1], 16), vset32(0xf000)));
        vf d = vmul(vhalf_low(vor(d01, d23)), vconstf(0.125f));
        rows32(p, stride, q, s, 0, 0);
        rows16(p + 32, stride, hs, s, 0, 0);
        NO_UNROLL
        for (uint32_t k = 0; k < 8; k++) {
            vi c[8], high = vsrl(hs[k / 2], 16 * (k % 2)), scale = vsrl(sc[k / 4], 16 * (k / 2 % 2) + 6 * (k % 2));
            UNROLL(4)
            for (unsigned l = 0; l < 4; l++) { /* a nibble: 3 bits of the index, 1 of the sign */
                vi nib = vsrl(high, 4 * l);
                iq1_eight(vand_or(vsll(nib, 8), vset32(0x700), vand(vsrl(q[k], 8 * l), vset32(255))), vsll(nib, 12), 32, c + 2 * l);
            }
            struct scales v = {
                .d = odd_scale(d, vand(scale, vset32(7))),
                .d1 = odd_scale(d, vand(vsrl(scale, 3), vset32(7))),
            };
            EMIT_MM_K16_Z32(s, b + k, c, v);
        }
    }
}
