/* vec_avx2.h - sixteen lanes as two AVX2 registers: the words that the kernel templates are
 * written in, for AVX2 and for AVX-VNNI, which adds a multiply-add of integers.  `vf` holds 16
 * floats, `vi` 16 integers (or 32 of 16 bits, a pair per lane), `vm` chooses lanes.
 */
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define VEC static inline __attribute__((always_inline))

struct vf {
    __m256 a, b;
};
struct vi {
    __m256i a, b;
};
struct vm {
    __m256 a, b;
};

/* clang-format off */
#define VEC_FLOAT2(name, op) \
    VEC struct vf name(struct vf x, struct vf y) { return (struct vf){op(x.a, y.a), op(x.b, y.b)}; }
#define VEC_INT2(name, op) \
    VEC struct vi name(struct vi x, struct vi y) { return (struct vi){op(x.a, y.a), op(x.b, y.b)}; }
#define VEC_SHIFT(name, op) \
    VEC struct vi name(struct vi x, const int n) { return (struct vi){op(x.a, n), op(x.b, n)}; }

VEC_FLOAT2(v_add, _mm256_add_ps)
VEC_FLOAT2(v_sub, _mm256_sub_ps)
VEC_FLOAT2(v_mul, _mm256_mul_ps)
VEC_FLOAT2(v_div, _mm256_div_ps)
VEC_FLOAT2(v_max, _mm256_max_ps)  // x > y ? x : y
VEC_FLOAT2(v_min, _mm256_min_ps)  // x < y ? x : y
VEC_INT2(vi_add, _mm256_add_epi32)
VEC_INT2(vi_sub, _mm256_sub_epi32)
VEC_INT2(vi_mul, _mm256_mullo_epi32)
VEC_INT2(vi_add16, _mm256_add_epi16)
VEC_INT2(vi_mul16, _mm256_mullo_epi16)
VEC_INT2(vi_max, _mm256_max_epi32)
VEC_INT2(vi_min, _mm256_min_epi32)
VEC_INT2(vi_and, _mm256_and_si256)
VEC_INT2(vi_or, _mm256_or_si256)
VEC_SHIFT(vi_left, _mm256_slli_epi32)
VEC_SHIFT(vi_right, _mm256_srai_epi32)
VEC_SHIFT(vi_right_unsigned, _mm256_srli_epi32)
VEC_SHIFT(vi_left16, _mm256_slli_epi16)
VEC_SHIFT(vi_right16, _mm256_srai_epi16)
VEC_SHIFT(vi_right_unsigned16, _mm256_srli_epi16)
/* clang-format on */

VEC struct vf v_zero(void) {
    return (struct vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

VEC struct vf v_set(float x) {
    return (struct vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

VEC struct vf v_load(const float *p) {
    return (struct vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

VEC void v_store(float *p, struct vf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

VEC struct vf v_fma(struct vf x, struct vf y, struct vf z) {
    return (struct vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

VEC struct vf v_sqrt(struct vf x) {
    return (struct vf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}

VEC struct vi vi_zero(void) {
    return (struct vi){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

VEC struct vi vi_set(int32_t x) {
    return (struct vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}

VEC struct vi vi_load(const void *p) {
    return (struct vi){_mm256_loadu_si256((const __m256i *)p),
                       _mm256_loadu_si256((const __m256i *)p + 1)};
}

VEC void vi_store(void *p, struct vi x) {
    _mm256_storeu_si256((__m256i *)p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}

VEC struct vf v_bits(struct vi x) {
    return (struct vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}

VEC struct vi vi_bits(struct vf x) {
    return (struct vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}

VEC struct vf v_from_int(struct vi x) {
    return (struct vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

/* Nearest even; out of range gives INT32_MIN. */
VEC struct vi vi_from_float(struct vf x) {
    return (struct vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

VEC struct vf v_round(struct vf x) {
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    return (struct vf){_mm256_round_ps(x.a, NEAREST), _mm256_round_ps(x.b, NEAREST)};
}

VEC struct vf v_abs(struct vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

VEC struct vf v_negate(struct vf x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (struct vf){_mm256_xor_ps(sign, x.a), _mm256_xor_ps(sign, x.b)};
}

/* acc + the sum of each lane's two products of 16-bit values.  The empty asm keeps the compiler
 * from regrouping long sums, which would need more registers than there are. */
VEC struct vi vi_dot16(struct vi acc, struct vi x, struct vi y) {
#ifdef __AVXVNNI__
    return (struct vi){_mm256_dpwssd_avx_epi32(acc.a, x.a, y.a),
                       _mm256_dpwssd_avx_epi32(acc.b, x.b, y.b)};
#else
    acc.a = _mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a));
    acc.b = _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b));
    __asm__("" : "+x"(acc.a), "+x"(acc.b));
    return acc;
#endif
}

/* Per 16-bit value: the upper slice, (x + 128) >> 8. */
VEC struct vi vi_high16(struct vi x) {
    __m256i half = _mm256_set1_epi16(128);
    return (struct vi){_mm256_srai_epi16(_mm256_add_epi16(x.a, half), 8),
                       _mm256_srai_epi16(_mm256_add_epi16(x.b, half), 8)};
}

VEC struct vf v_load_f16(const uint16_t *p) {
    return (struct vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                       _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1))};
}

VEC struct vi vi_load_i8(const void *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return (struct vi){_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}

VEC struct vi vi_load_u8(const void *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return (struct vi){_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}

/* Sixteen lanes as 16-bit values; they must fit. */
VEC void vi_store16(int16_t *p, struct vi x) {
    __m256i packed = _mm256_packs_epi32(x.a, x.b);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(packed, 0xD8));
}

VEC struct vm vm_less(struct vf x, struct vf y) {
    return (struct vm){_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}

/* Lanes i with from <= base + i < to. */
VEC struct vm vm_range(int32_t base, int32_t from, int32_t to) {
    __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            j = _mm256_add_epi32(i, _mm256_set1_epi32(8));
    __m256i low = _mm256_set1_epi32(from - base - 1), high = _mm256_set1_epi32(to - base);
    __m256i a = _mm256_and_si256(_mm256_cmpgt_epi32(i, low), _mm256_cmpgt_epi32(high, i));
    __m256i b = _mm256_and_si256(_mm256_cmpgt_epi32(j, low), _mm256_cmpgt_epi32(high, j));
    return (struct vm){_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)};
}

VEC struct vf v_choose(struct vm m, struct vf yes, struct vf no) {
    return (struct vf){_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}

VEC float v_highest(struct vf x) {
    __m256 m = _mm256_max_ps(x.a, x.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

VEC int32_t vi_sum(struct vi x) {
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

VEC void vec_prefetch(const void *p) {
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}
