/* Walks of Q2_K and Q3_K, part of mm_simd.h. */

/* Bytes of each row times a number of each lane, modulo 256. scale: in both halves of the lane. */
INLINE vi mul8(vi bytes, vi scale)
{
    const vi even = vset32(0x00ff00ff);
    vi lo = vand(vmul16(vand(bytes, even), scale), even), hi = vmul16(vand(vsrl(bytes, 8), even), scale);
    return vor(lo, vsll(vand(hi, even), 8));
}

/* Byte n of each lane, in both halves. */
INLINE vi byte_twice(vi a, unsigned n)
{
    vi b = vand(n ? vsrl(a, 8 * n) : a, vset32(255));
    return vor(b, vsll(b, 16));
}

INLINE void walk_q2_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi two = vset32(0x03030303), nibble = vset32(0x0f0f0f0f);
    for (uint32_t b = 0; b < n; b += 8, p += 84) {
        vi sc[4], dm = vrows4(p + 80, stride);
        vf d, m;
        vhalf_pair(dm, &d, &m);
        m = vneg(m);
        rows16(p, stride, sc, s, 0, 1344);
        NO_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            vi q[8];
            rows32(p + 16 + 32 * half, stride, q, s, 4 + 8 * half, 1344);
            UNROLL(4)
            for (unsigned k = 0; k < 4; k++) {
                vi c[8], four = k < 2 ? sc[2 * half] : sc[2 * half + 1], low = vand(four, nibble), high = vand(vsrl(four, 4), nibble);
                vi s0 = byte_twice(low, 2 * (k % 2)), s1 = byte_twice(low, 2 * (k % 2) + 1);
                UNROLL(8)
                for (int j = 0; j < 8; j++) /* at most 3 * 15: no carry between bytes */
                    c[j] = vmul16(vand(k ? vsrl(q[j], 2 * k) : q[j], two), j < 4 ? s0 : s1);
                vi n0 = vand(vsrl(high, 16 * (k % 2)), vset32(255)), n1 = vand(vsrl(high, 16 * (k % 2) + 8), vset32(255));
                EMIT_MM_K32P(s, b + 4 * half + k, c, ((struct scales){.d = d, .m = m, .n = vor(n0, vsll(n1, 16))}));
            }
        }
        touch_rest(s, 20, 1344);
    }
}

/* The 16 sub-scales, still biased by 32: byte n of sc[g] is that of 16 inputs 4g + n. */
INLINE void q3_k_scales(const uint8_t *p, uint64_t stride, vi sc[4])
{
    const vi nibble = vset32(0x0f0f0f0f), top = vset32(0x30303030);
    vi a = vrows4(p, stride), b = vrows4(p + 4, stride), high = vrows4(p + 8, stride);
    sc[0] = vand_or(vsll(high, 4), top, vand(a, nibble));
    sc[1] = vand_or(vsll(high, 2), top, vand(b, nibble));
    sc[2] = vand_or(high, top, vand(vsrl(a, 4), nibble));
    sc[3] = vand_or(vsrl(high, 2), top, vand(vsrl(b, 4), nibble));
}

/* u = q + 4 * high bit is v + 4; the code 128 - v * scale is 128 + 4 * scale - u * scale, modulo 256. */
INLINE void walk_q3_k(const uint8_t *p, uint64_t stride, uint32_t n, struct sink *s)
{
    const vi two = vset32(0x03030303), bit2 = vset32(0x04040404), bias = vset32(0x00200020);
    for (uint32_t b = 0; b < n; b += 8, p += 110) {
        vi sc[4], h[8];
        vf d = vneg(vhalf(p + 108, stride));
        q3_k_scales(p + 96, stride, sc);
        rows32(p, stride, h, s, 0, 1760);
        NO_UNROLL
        for (unsigned half = 0; half < 2; half++) {
            vi q[8];
            rows32(p + 32 + 32 * half, stride, q, s, 8 + 8 * half, 1760);
            UNROLL(4)
            for (unsigned k = 0; k < 4; k++) {
                vi c[8], four = sc[2 * half + k / 2], scale[2], base[2];
                UNROLL(2)
                for (unsigned i = 0; i < 2; i++) {
                    vi biased = byte_twice(four, 2 * (k % 2) + i), two_bytes;
                    scale[i] = vsub16(biased, bias);
                    two_bytes = vand(vadd16(vsll16(scale[i], 2), vset32(0x00800080)), vset32(0x00ff00ff));
                    base[i] = vor(two_bytes, vsll(two_bytes, 8));
                }
                UNROLL(8)
                for (int j = 0; j < 8; j++) {
                    vi u = vand_or(k <= 2 ? vsll(h[j], 2 - k) : vsrl(h[j], k - 2), bit2, vand(vsrl(q[j], 2 * k), two));
                    c[j] = vsub8(base[j / 4], mul8(u, scale[j / 4]));
                }
                EMIT_MM_K32_Z128(s, b + 4 * half + k, c, ((struct scales){.d = d}));
            }
            UNROLL(8)
            for (int j = 0; j < 8; j++)
                h[j] = vsrl(h[j], 4);
        }
        touch_rest(s, 24, 1760);
    }
}
