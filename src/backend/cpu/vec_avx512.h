/* vec_avx512.h - sixteen lanes as one AVX-512 register: the words that the kernel templates are
 * written in (vec_avx2.h says what they are).
 */
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define VEC static inline __attribute__((always_inline))

struct vf {
    __m512 a;
};
struct vi {
    __m512i a;
};
struct vm {
    __mmask16 a;
};

/* clang-format off */
#define VEC_FLOAT2(name, op) \
    VEC struct vf name(struct vf x, struct vf y) { return (struct vf){op(x.a, y.a)}; }
#define VEC_INT2(name, op) \
    VEC struct vi name(struct vi x, struct vi y) { return (struct vi){op(x.a, y.a)}; }
#define VEC_SHIFT(name, op) \
    VEC struct vi name(struct vi x, const int n) { return (struct vi){op(x.a, n)}; }

VEC_FLOAT2(v_add, _mm512_add_ps)
VEC_FLOAT2(v_sub, _mm512_sub_ps)
VEC_FLOAT2(v_mul, _mm512_mul_ps)
VEC_FLOAT2(v_div, _mm512_div_ps)
VEC_FLOAT2(v_max, _mm512_max_ps)  // x > y ? x : y
VEC_FLOAT2(v_min, _mm512_min_ps)  // x < y ? x : y
VEC_INT2(vi_add, _mm512_add_epi32)
VEC_INT2(vi_sub, _mm512_sub_epi32)
VEC_INT2(vi_mul, _mm512_mullo_epi32)
VEC_INT2(vi_add16, _mm512_add_epi16)
VEC_INT2(vi_mul16, _mm512_mullo_epi16)
VEC_INT2(vi_max, _mm512_max_epi32)
VEC_INT2(vi_min, _mm512_min_epi32)
VEC_INT2(vi_and, _mm512_and_si512)
VEC_INT2(vi_or, _mm512_or_si512)
VEC_SHIFT(vi_left, _mm512_slli_epi32)
VEC_SHIFT(vi_right, _mm512_srai_epi32)
VEC_SHIFT(vi_right_unsigned, _mm512_srli_epi32)
VEC_SHIFT(vi_left16, _mm512_slli_epi16)
VEC_SHIFT(vi_right16, _mm512_srai_epi16)
VEC_SHIFT(vi_right_unsigned16, _mm512_srli_epi16)
/* clang-format on */

VEC struct vf v_zero(void) {
    return (struct vf){_mm512_setzero_ps()};
}

VEC struct vf v_set(float x) {
    return (struct vf){_mm512_set1_ps(x)};
}

VEC struct vf v_load(const float *p) {
    return (struct vf){_mm512_loadu_ps(p)};
}

VEC void v_store(float *p, struct vf x) {
    _mm512_storeu_ps(p, x.a);
}

VEC struct vf v_fma(struct vf x, struct vf y, struct vf z) {
    return (struct vf){_mm512_fmadd_ps(x.a, y.a, z.a)};
}

VEC struct vf v_sqrt(struct vf x) {
    return (struct vf){_mm512_sqrt_ps(x.a)};
}

VEC struct vi vi_zero(void) {
    return (struct vi){_mm512_setzero_si512()};
}

VEC struct vi vi_set(int32_t x) {
    return (struct vi){_mm512_set1_epi32(x)};
}

VEC struct vi vi_load(const void *p) {
    return (struct vi){_mm512_loadu_si512(p)};
}

VEC void vi_store(void *p, struct vi x) {
    _mm512_storeu_si512(p, x.a);
}

VEC struct vf v_bits(struct vi x) {
    return (struct vf){_mm512_castsi512_ps(x.a)};
}

VEC struct vi vi_bits(struct vf x) {
    return (struct vi){_mm512_castps_si512(x.a)};
}

VEC struct vf v_from_int(struct vi x) {
    return (struct vf){_mm512_cvtepi32_ps(x.a)};
}

/* Nearest even; out of range gives INT32_MIN. */
VEC struct vi vi_from_float(struct vf x) {
    return (struct vi){_mm512_cvtps_epi32(x.a)};
}

VEC struct vf v_round(struct vf x) {
    return (struct vf){_mm512_roundscale_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

VEC struct vf v_abs(struct vf x) {
    return (struct vf){_mm512_andnot_ps(_mm512_set1_ps(-0.0f), x.a)};
}

VEC struct vf v_negate(struct vf x) {
    return (struct vf){_mm512_xor_ps(_mm512_set1_ps(-0.0f), x.a)};
}

/* acc + the sum of each lane's two products of 16-bit values. */
VEC struct vi vi_dot16(struct vi acc, struct vi x, struct vi y) {
    return (struct vi){_mm512_dpwssd_epi32(acc.a, x.a, y.a)};
}

/* Per 16-bit value: the upper slice, (x + 128) >> 8. */
VEC struct vi vi_high16(struct vi x) {
    return (struct vi){_mm512_srai_epi16(_mm512_add_epi16(x.a, _mm512_set1_epi16(128)), 8)};
}

VEC struct vf v_load_f16(const uint16_t *p) {
    return (struct vf){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p))};
}

VEC struct vi vi_load_i8(const void *p) {
    return (struct vi){_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p))};
}

VEC struct vi vi_load_u8(const void *p) {
    return (struct vi){_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p))};
}

/* Sixteen lanes as 16-bit values; they must fit. */
VEC void vi_store16(int16_t *p, struct vi x) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(x.a));
}

VEC struct vm vm_less(struct vf x, struct vf y) {
    return (struct vm){_mm512_cmp_ps_mask(x.a, y.a, _CMP_LT_OQ)};
}

/* Lanes i with from <= base + i < to. */
VEC struct vm vm_range(int32_t base, int32_t from, int32_t to) {
    __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (struct vm){(__mmask16)(_mm512_cmpge_epi32_mask(i, _mm512_set1_epi32(from - base)) &
                                   _mm512_cmplt_epi32_mask(i, _mm512_set1_epi32(to - base)))};
}

VEC struct vf v_choose(struct vm m, struct vf yes, struct vf no) {
    return (struct vf){_mm512_mask_blend_ps(m.a, no.a, yes.a)};
}

VEC float v_highest(struct vf x) {
    return _mm512_reduce_max_ps(x.a);
}

VEC int32_t vi_sum(struct vi x) {
    return _mm512_reduce_add_epi32(x.a);
}

VEC void vec_prefetch(const void *p) {
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}
