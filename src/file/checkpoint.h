/* checkpoint.h - one face for model files: names to tensors, keys to values.
 *
 * A checkpoint is a folder in Hugging Face layout (config.json and one safetensors file, or shards
 * with model.safetensors.index.json) or a GGUF v3 file (any part of a split one).  Files stay
 * memory-mapped and read-only; every tensor is bounds-checked at open.  Immutable after open.
 */
#pragma once
#include "json.h"
#include "status.h"
#include "tensor.h"

struct checkpoint;

enum checkpoint_kind { CHECKPOINT_SAFETENSORS, CHECKPOINT_GGUF };

struct checkpoint_tensor {
    const char *name;
    enum dtype dtype;
    int32_t n_dims;
    int64_t dims[8];   // outermost first, as safetensors has it, whatever the file's order
    const void *data;  // in the mapping
    size_t size;       // bytes
    const char *file;  // path of the file it lies in
};

MUST_CHECK enum status checkpoint_open(struct checkpoint **out, const char *path,
                                       struct error *err);
void checkpoint_close(struct checkpoint *checkpoint);

enum checkpoint_kind checkpoint_kind(const struct checkpoint *checkpoint);
const char *checkpoint_path(const struct checkpoint *checkpoint);    // as given
const char *checkpoint_folder(const struct checkpoint *checkpoint);  // where its files lie

int32_t checkpoint_n_tensors(const struct checkpoint *checkpoint);
/* In file order. */
const struct checkpoint_tensor *checkpoint_tensor(const struct checkpoint *checkpoint, int32_t i);
/* NULL when there is none of that name. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name);
size_t checkpoint_size(const struct checkpoint *checkpoint);  // bytes of all its files
int32_t checkpoint_n_files(const struct checkpoint *checkpoint);

/* config.json of a folder; NULL for GGUF. */
const struct json *checkpoint_config(const struct checkpoint *checkpoint);

/* GGUF metadata; for a folder every key is absent. */
bool checkpoint_has(const struct checkpoint *checkpoint, const char *key);
int64_t checkpoint_int(const struct checkpoint *checkpoint, const char *key, int64_t fallback);
double checkpoint_number(const struct checkpoint *checkpoint, const char *key, double fallback);
bool checkpoint_bool(const struct checkpoint *checkpoint, const char *key, bool fallback);
/* Lent, NUL-terminated; NULL when absent or no string. */
const char *checkpoint_string(const struct checkpoint *checkpoint, const char *key);
/* Arrays: count (0 when absent), and elements. */
int64_t checkpoint_array_count(const struct checkpoint *checkpoint, const char *key);
const char *const *checkpoint_strings(const struct checkpoint *checkpoint, const char *key,
                                      const size_t **sizes);
/* Any integer or bool array, widened; NULL when absent. */
const int32_t *checkpoint_ints(const struct checkpoint *checkpoint, const char *key);
/* Any array of reals; NULL when absent. */
const double *checkpoint_numbers(const struct checkpoint *checkpoint, const char *key);

/* SHA-256 in hex over the SHA-256 of each file, in order, read once and cached in `cache_folder`
 * under (path, size, mtime, inode) when that is not NULL. */
MUST_CHECK enum status checkpoint_digest(const struct checkpoint *checkpoint,
                                         const char *cache_folder, char out[65], struct error *err);
