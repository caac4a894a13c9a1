/* cuda_acts.cu - activations in integer form, laid out as the kernels read them (cuda_forms.cuh).
 *
 * The image of up to 16 rows (cuda_skinny.cu) is one block a step: per 8 columns of the B operand
 * 1024 bytes, then scales [row][group], then sums of the groups' integers where minima need them.
 * With two slices a row is two neighbouring columns.  One row alone has 256 bytes, two columns.
 *
 * The image of more rows (cuda_tiled.cu) is one block a step and 128 rows: the high slices, 8 rows
 * after 8 rows, then the low ones, then scales [group][row] and sums.  On Hopper (cuda_wgmma.cu) a
 * row of a slice is 128 bytes, swizzled.
 */
#include "cuda_tiled.cuh"

enum { TILED_ROWS = CUDA_TILED_ROWS, WARPS = 4 };

struct image {
    unsigned char *bytes;
    int32_t rows, cols, n_steps;
    int32_t group, block_bytes, scales_at;
    int32_t padded_rows;  // of a block
    int32_t half_bytes;   // of 64 columns of k in 8 columns of B
    bool is_tiled, is_swizzled, has_low, has_sums;
    float factor;  // of the scales
    struct cuda_cut cut;
};

struct cuda_form_info cuda_form_info(enum cuda_form which) {
#define INFO(name, type)                                                                           \
    case name:                                                                                     \
        return {type::BITS,                                                                        \
                type::GROUP,                                                                       \
                type::WORDS,                                                                       \
                type::CODE_BYTES,                                                                  \
                type::SCALE_BYTES,                                                                 \
                type::HAS_MINIMUM,                                                                 \
                type::KIND == SCALE_WIDE,                                                          \
                type::KIND == SCALE_SUB || type::KIND == SCALE_SUB_MIN};
    switch (which) {
        CUDA_FOR_FORMS(INFO)
    default:
        return {};
    }
}

int32_t cuda_column_tiles(const struct cuda_acts *acts) {
    int32_t n = (acts->rows * (acts->has_low ? 2 : 1) + 7) / 8, longest = 0;
    for (int32_t s = 0; s < CUDA_SEGMENTS; s++) {
        longest = max(longest, acts->cut.at[s + 1] - acts->cut.at[s]);
    }
    if (acts->rows == 1 && longest <= CUDA_ONE_STEPS) {
        return 0;
    }
    return n <= 2 ? n : 4;
}

static struct image image_of(const struct cuda_acts *a) {
    struct cuda_form_info info = cuda_form_info(a->form);
    struct image to = {};
    int32_t slices = a->has_low ? 2 : 1;
    to.bytes = a->image;
    to.rows = a->rows;
    to.n_steps = a->cut.at[CUDA_SEGMENTS];
    to.group = info.group;
    to.is_tiled = a->rows > CUDA_SKINNY_MAX;
    to.is_swizzled = to.is_tiled && cuda_has_wgmma();
    to.has_low = a->has_low;
    to.has_sums = info.has_minimum;
    to.factor = a->form == CUDA_FORM_A2 ? 256.0f : 1.0f;
    to.cut = a->cut;
    int32_t tiles = to.is_tiled ? 0 : cuda_column_tiles(a), groups = STEP / info.group;
    bool is_one = !to.is_tiled && tiles == 0;
    to.half_bytes = is_one ? 128 : 512;
    to.padded_rows = to.is_tiled ? TILED_ROWS : is_one ? 2 / slices : tiles * 8 / slices;
    to.scales_at = to.is_tiled ? TILED_ROWS * STEP * slices : is_one ? 256 : tiles * 1024;
    int32_t used = to.scales_at + to.padded_rows * groups * 4 * (to.has_sums ? 2 : 1);
    to.block_bytes = is_one ? (used + 15) / 16 * 16 : CUDA_LINES(used);
    return to;
}

size_t cuda_acts_size(const struct cuda_acts *acts) {
    struct image image = image_of(acts);
    int32_t blocks = image.is_tiled ? (image.rows + TILED_ROWS - 1) / TILED_ROWS : 1;
    return (size_t)blocks * image.n_steps * image.block_bytes;
}

/* Where lane `lane`'s four columns of a row go, in the row's block: `slice` 0 is the high one. */
static __device__ int32_t place_of(const struct image &to, int32_t row, int32_t slice,
                                   int32_t lane) {
    int32_t quarter = lane / 8, t = lane % 4, reg = lane % 8 / 4;
    bool is_pair = !to.is_tiled && to.has_low;
    int32_t per_tile = is_pair ? 4 : 8, tile = row / per_tile;
    int32_t column = is_pair ? row % 4 * 2 + slice : row % 8;
    int32_t plane = is_pair ? 0 : slice * to.padded_rows * STEP;
    if (to.is_swizzled) {
        return plane + row * STEP + (lane / 4 ^ row % 8) * 16 + t * 4;
    }
    return plane + tile * 1024 + quarter / 2 * to.half_bytes + (column * 4 + t) * 16 +
           quarter % 2 * 8 + reg * 4;
}

/* A warp a step of a row, a lane four columns of it. */
__global__ void quantise_kernel(const float *a, int32_t stride, struct image to) {
    int32_t lane = threadIdx.x % 32, step = blockIdx.x * WARPS + threadIdx.x / 32;
    int32_t row = blockIdx.y, s = 0;
    allow_next();
    if (step >= to.n_steps) {
        return;
    }
    while (step >= to.cut.at[s + 1]) {
        s++;
    }
    int32_t k = to.cut.k[s] + (step - to.cut.at[s]) * STEP + lane * 4;
    int32_t end = min(to.cut.k[s + 1], to.cols);
    const float *x = a + (size_t)row * stride;
    float value[4], amax = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        value[i] = k + i < end ? x[k + i] : 0.0f;
        float magnitude = fabsf(value[i]);
        amax = magnitude > amax ? magnitude : amax;
    }
    int32_t lanes = to.group / 4;
    for (int32_t width = 1; width < lanes; width *= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, amax, width);
        amax = other > amax ? other : amax;
    }
    float bound = to.has_low ? CANON_Q16 : 127.0f;
    bool is_zero = !(amax > CANON_TINY);
    float inverse = is_zero ? 0.0f : bound / amax;
    int32_t sum = 0;
    uint32_t high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int32_t q = is_zero ? 0 : canon_round_clamp(value[i] * inverse, bound);
        high |= (uint32_t)((to.has_low ? canon_hi(q) : q) & 255) << (8 * i);
        low |= (uint32_t)(canon_lo(q) & 255) << (8 * i);
        sum += q;
    }
    for (int32_t width = 1; width < lanes; width *= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, width);
    }
    int32_t block = to.is_tiled ? row / TILED_ROWS : 0, r = row - block * TILED_ROWS;
    unsigned char *at = to.bytes + ((size_t)block * to.n_steps + step) * to.block_bytes;
    *reinterpret_cast<uint32_t *>(at + place_of(to, r, 0, lane)) = high;
    if (to.has_low) {
        *reinterpret_cast<uint32_t *>(at + place_of(to, r, 1, lane)) = low;
    }
    if (lane % lanes == 0) {
        int32_t groups = STEP / to.group, g = lane / lanes;
        int32_t i = to.is_tiled ? g * TILED_ROWS + r : r * groups + g;
        float *scales = reinterpret_cast<float *>(at + to.scales_at);
        scales[i] = is_zero ? 0.0f : (amax / bound) * to.factor;
        if (to.has_sums) {
            reinterpret_cast<int32_t *>(scales)[to.padded_rows * groups + i] = sum;
        }
    }
}

void cuda_quantise(void *stream, const float *a, int32_t stride, int32_t cols,
                   const struct cuda_acts *out) {
    struct image to = image_of(out);
    to.cols = cols;
    dim3 grid((to.n_steps + WARPS - 1) / WARPS, to.rows);
    quantise_kernel<<<grid, WARPS * 32, 0, as_stream(stream)>>>(a, stride, to);
}
