/* model_files_test.c - what broken and hostile model files run into: each is built here, byte by
 * byte, and must be refused with a sentence that names the file and the cause.
 */
#include "checkpoint.h"
#include "file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { U8 = 0, U32 = 4, STRING = 8, ARRAY = 9, U64 = 10, F32 = 0, Q4_0 = 2 };

/* No file here is larger than a few kilobytes: what wants more memory than this is a fault. */
static void limit_memory(void) {
    const char *sanitizer = getenv("ASAN_OPTIONS");
    struct rlimit limit = {2UL << 30, 2UL << 30};
    if (sanitizer == NULL) {  // whose shadow memory is larger than any limit
        setrlimit(RLIMIT_AS, &limit);
    }
}

static const char *test_path(const char *name) {
    static char path[128];
    struct error err = {0};
    snprintf(path, sizeof path, "/tmp/selfsame-files-%ld", (long)getpid());
    CHECK_OK(file_make_folder(path, &err), err);
    snprintf(path, sizeof path, "/tmp/selfsame-files-%ld/%s", (long)getpid(), name);
    return path;
}

static const char *write_file(const char *name, const void *bytes, size_t size) {
    struct error err = {0};
    const char *path = test_path(name);
    CHECK_OK(file_write(path, bytes, size, &err), err);
    return path;
}

/* Opens and closes; on refusal `part` must be in the sentence. */
static void check_refused(const char *path, const char *part) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    enum status status = checkpoint_open(&c, path, &err);
    ck_assert_msg(status != STATUS_OK, "opened, but should say '%s'", part);
    CHECK(c == NULL);
    CHECK_CONTAINS(err.text, part);
    CHECK_CONTAINS(err.text, "selfsame-files");
    CHECK(strchr(err.text, '\n') == NULL);
}

static void check_opens(const char *path) {
    struct checkpoint *c = NULL;
    struct error err = {0};
    CHECK_OK(checkpoint_open(&c, path, &err), err);
    checkpoint_close(c);
}

/* ---- GGUF ----------------------------------------------------------------------------------- */

static struct buffer gguf;

static void put32(uint32_t value) {
    buffer_append(&gguf, &value, 4);
}

static void put64(uint64_t value) {
    buffer_append(&gguf, &value, 8);
}

static void put_text(const char *text) {
    put64(strlen(text));
    buffer_text(&gguf, text);
}

static void begin_gguf(uint64_t n_tensors, uint64_t n_metadata) {
    buffer_free(&gguf);
    buffer_init(&gguf, 1 << 16);
    buffer_append(&gguf, "GGUF", 4);
    put32(3);
    put64(n_tensors);
    put64(n_metadata);
}

static void put_tensor(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset) {
    put_text(name);
    put32(n_dims);
    for (uint32_t i = 0; i < n_dims && i < 16; i++) {
        put64(dims[i]);
    }
    put32(type);
    put64(offset);
}

static const char *end_gguf(size_t data_size) {
    while (gguf.size % 32 != 0) {
        buffer_byte(&gguf, 0);
    }
    for (size_t i = 0; i < data_size; i++) {
        buffer_byte(&gguf, (char)i);
    }
    return write_file("case.gguf", gguf.data, gguf.size);
}

static const uint64_t two[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};

TEST(mdl_01_gguf_dimensions) {
    static const uint32_t bad[] = {0, 5, 9, 0xFFFFFFFFu};
    limit_memory();
    begin_gguf(1, 0);
    put_tensor("t", 4, two, F32, 0);
    check_opens(end_gguf(64));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin_gguf(1, 0);
        put_tensor("t", bad[i], two, F32, 0);
        check_refused(end_gguf(64), "'t'");
    }
}
END

TEST(mdl_02_gguf_sizes_that_wrap) {
    static const struct {
        uint64_t dims[3];
        uint32_t n_dims, type;
        uint64_t offset;
    } bad[] = {
        {{1ull << 31, 1ull << 31, 4}, 3, F32, 0},
        {{UINT64_MAX, 2, 0}, 2, F32, 0},
        {{33, 2, 0}, 2, Q4_0, 0},
        {{0, 2, 0}, 2, F32, 0},
        {{2, 0, 0}, 2, F32, 0},
        {{2, 2, 0}, 2, F32, UINT64_MAX - 31},
        {{2, 2, 0}, 2, F32, 64},
        {{2, 2, 0}, 2, F32, 1},
        {{17, 1, 0}, 2, F32, 0},
    };
    limit_memory();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin_gguf(1, 0);
        put_tensor("t", bad[i].n_dims, bad[i].dims, bad[i].type, bad[i].offset);
        check_refused(end_gguf(64), "'t'");
    }
}
END

TEST(mdl_03_gguf_strings_and_arrays) {
    static const struct {
        uint32_t type, of;
        uint64_t n;
    } bad[] = {{STRING, 0, 1000}, {ARRAY, U8, 1ull << 63}, {ARRAY, STRING, 1ull << 40}};
    limit_memory();
    begin_gguf(0, 1);
    put64(1ull << 63);
    check_refused(end_gguf(64), "ends inside");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin_gguf(0, 1);
        put_text("key");
        put32(bad[i].type);
        if (bad[i].type == ARRAY) {
            put32(bad[i].of);
        }
        put64(bad[i].n);
        check_refused(end_gguf(64), "key");
    }
}
END

    static const char *
    aligned_file(uint32_t type, uint64_t value) {
    begin_gguf(0, 1);
    put_text("general.alignment");
    put32(type);
    if (type == STRING) {
        put_text("32");
    } else if (type == U64) {
        put64(value);
    } else {
        put32((uint32_t)value);
    }
    return end_gguf(64);
}

TEST(mdl_04_gguf_alignment) {
    static const uint64_t bad[] = {0, 3, 1u << 30, 1u << 31, 0xFFFFFFFF};
    limit_memory();
    check_opens(aligned_file(U32, 1));
    check_opens(aligned_file(U32, 32));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(aligned_file(U32, bad[i]), "general.alignment");
    }
    check_refused(aligned_file(U64, 32), "general.alignment");
    check_refused(aligned_file(STRING, 0), "general.alignment");
}
END

TEST(mdl_05_gguf_duplicates) {
    char first[128], second[128];
    limit_memory();
    begin_gguf(2, 0);
    put_tensor("a.weight", 1, two, F32, 0);
    put_tensor("a.weight", 1, two, F32, 32);
    check_refused(end_gguf(64), "a.weight");
    begin_gguf(0, 2);
    for (int i = 0; i < 2; i++) {
        put_text("general.architecture");
        put32(STRING);
        put_text(i == 0 ? "llama" : "qwen3");
    }
    check_refused(end_gguf(64), "general.architecture");
    begin_gguf(1, 0);
    put_tensor("a.weight", 1, two, F32, 0);
    const char *path = end_gguf(64);
    snprintf(first, sizeof first, "%s", test_path("case-00001-of-00002.gguf"));
    snprintf(second, sizeof second, "%s", test_path("case-00002-of-00002.gguf"));
    check_opens(test_path("case.gguf"));
    CHECK_EQ_INT(link(test_path("case.gguf"), first), 0);
    CHECK_EQ_INT(link(test_path("case.gguf"), second), 0);
    check_refused(first, "a.weight");
    check_refused(second, "a.weight");
    (void)path;
}
END

TEST(a_split_gguf_opens_by_any_of_its_parts) {
    char parts[3][128];
    for (int i = 0; i < 3; i++) {
        char name[40], tensor[8];
        struct error err = {0};
        snprintf(name, sizeof name, "split-%05d-of-00003.gguf", i + 1);
        snprintf(tensor, sizeof tensor, "t%d", i);
        begin_gguf(1, i == 0);
        if (i == 0) {  // only the first part says what the model is
            put_text("general.architecture");
            put32(STRING);
            put_text("llama");
        }
        put_tensor(tensor, 1, two, F32, 0);
        end_gguf(32);
        snprintf(parts[i], sizeof parts[i], "%s", test_path(name));
        CHECK_OK(file_write(parts[i], gguf.data, gguf.size, &err), err);
    }
    for (int i = 0; i < 3; i++) {
        struct checkpoint *c = NULL;
        struct error err = {0};
        CHECK_OK(checkpoint_open(&c, parts[i], &err), err);
        CHECK_EQ_INT(checkpoint_n_tensors(c), 3);
        CHECK_EQ_STR(checkpoint_tensor(c, 2)->name, "t2");
        CHECK_EQ_STR(checkpoint_string(c, "general.architecture"), "llama");
        checkpoint_close(c);
    }
    unlink(parts[1]);
    check_refused(parts[2], "split-00002-of-00003");
}
END

    /* ---- safetensors ----------------------------------------------------------------------------
     */

    /* A folder with model.safetensors: a header said to be `declared` bytes, and `data_size` zeros.
     */
    static const char *
    safetensors_folder(const char *header, uint64_t declared, size_t data_size) {
    static char folder[128];
    struct buffer bytes;
    buffer_init(&bytes, 1 << 20);
    buffer_append(&bytes, &declared, 8);
    buffer_text(&bytes, header);
    for (size_t i = 0; i < data_size; i++) {
        buffer_byte(&bytes, 0);
    }
    write_file("config.json", "{}", 2);
    write_file("model.safetensors", bytes.data, bytes.size);
    buffer_free(&bytes);
    snprintf(folder, sizeof folder, "/tmp/selfsame-files-%ld", (long)getpid());
    return folder;
}

static const char *folder_of(const char *header, size_t data_size) {
    return safetensors_folder(header, strlen(header), data_size);
}

TEST(mdl_06_safetensors_header_length) {
    const char *good = "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const char *spaced = "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
    const char *late = " {\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const uint64_t bad[] = {0, 1, strlen(good) + 16, UINT64_MAX, UINT64_MAX - 4, 100000001};
    limit_memory();
    check_opens(folder_of(good, 8));
    check_opens(folder_of(spaced, 8));
    check_refused(folder_of(late, 8), "no JSON object");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(safetensors_folder(good, bad[i], 8), "model.safetensors");
    }
    const char *folder = folder_of(good, 8);
    write_file("model.safetensors", "1234567", 7);
    check_refused(folder, "no JSON object");
}
END

TEST(mdl_07_and_08_safetensors_spans) {
    limit_memory();
    check_refused(
        folder_of("{\"t\":{\"dtype\":\"F32\",\"shape\":[32,8],\"data_offsets\":[0,65536]}}", 65536),
        "'t'");
    check_refused(
        folder_of("{\"t\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4),
        "'t'");
    check_refused(
        folder_of("{\"t\":{\"dtype\":\"F32\",\"shape\":[1000000],\"data_offsets\":[0,4000000]}}",
                  4),
        "outside");
}
END

#define T(name, begin, end)                                                                        \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[" begin "," end "]}"

TEST(mdl_09_safetensors_holes_overlaps_duplicates) {
    limit_memory();
    check_opens(folder_of("{" T("b", "8", "16") "," T("a", "0", "8") "}", 16));
    check_refused(folder_of("{" T("a", "0", "8") "," T("b", "4", "12") "}", 12), "'b'");
    check_refused(folder_of("{" T("a", "0", "8") "," T("b", "16", "24") "}", 24), "'b'");
    check_refused(folder_of("{" T("a", "0", "8") "," T("a", "8", "16") "}", 16), "duplicate");
    check_refused(folder_of("{" T("a", "0", "8") "}", 9), "after the last tensor");
    check_refused(folder_of("{\"__metadata__\":{\"n\":1}," T("a", "0", "8") "}", 8),
                  "__metadata__");
}
END

    static const char *
    index_folder(const char *tensor, const char *shard) {
    const char *folder = folder_of("{" T("a", "0", "8") "}", 8);
    char index[300];
    int n = snprintf(index, sizeof index, "{\"weight_map\":{\"%s\":\"%s\"}}", tensor, shard);
    unlink(test_path("one.safetensors"));
    CHECK_EQ_INT(link(test_path("model.safetensors"), "/tmp/selfsame-files-link"), 0);
    CHECK_EQ_INT(rename("/tmp/selfsame-files-link", test_path("one.safetensors")), 0);
    unlink(test_path("model.safetensors"));
    write_file("model.safetensors.index.json", index, (size_t)n);
    return folder;
}

TEST(mdl_10_shard_names_in_the_index) {
    static const char *const bad[] = {
        "../x.safetensors",       "/etc/hostname",      "a/../../x", "C:\\\\x", "..",
        "one.safetensors\\u0000", "linked.safetensors", ""};
    limit_memory();
    check_opens(index_folder("a", "one.safetensors"));
    CHECK_EQ_INT(symlink("/etc/hostname", test_path("linked.safetensors")), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(index_folder("a", bad[i]), "index.json: tensor 'a' lies in");
    }
    check_refused(index_folder("b", "one.safetensors"), "'b' is not in one.safetensors");
    check_refused(index_folder("a", "two.safetensors"), "two.safetensors");
}
END

TEST(mdl_10_links_of_the_hub_cache_are_followed) {
    char root[100], path[160], target[160];
    struct error err = {0};
    const char *config = "{}", *index = "{\"weight_map\":{\"a\":\"one.safetensors\"}}";
    folder_of("{" T("a", "0", "8") "}", 8);
    snprintf(target, sizeof target, "%s", test_path("model.safetensors"));
    snprintf(root, sizeof root, "/tmp/selfsame-files-%ld/cache", (long)getpid());
    snprintf(path, sizeof path, "%s/blobs", root);
    CHECK_OK(file_make_folder(path, &err), err);
    snprintf(path, sizeof path, "%s/snapshots/1", root);
    CHECK_OK(file_make_folder(path, &err), err);
    snprintf(path, sizeof path, "%s/blobs/abc", root);
    CHECK_EQ_INT(rename(target, path), 0);
    snprintf(path, sizeof path, "%s/snapshots/1/one.safetensors", root);
    CHECK_EQ_INT(symlink("../../blobs/abc", path), 0);
    snprintf(path, sizeof path, "%s/snapshots/1/config.json", root);
    CHECK_OK(file_write(path, config, strlen(config), &err), err);
    snprintf(path, sizeof path, "%s/snapshots/1/model.safetensors.index.json", root);
    CHECK_OK(file_write(path, index, strlen(index), &err), err);
    snprintf(path, sizeof path, "%s/snapshots/1", root);
    check_opens(path);
}
END

SUITE(model_files, 20, mdl_01_gguf_dimensions, mdl_02_gguf_sizes_that_wrap,
      mdl_03_gguf_strings_and_arrays, mdl_04_gguf_alignment, mdl_05_gguf_duplicates,
      a_split_gguf_opens_by_any_of_its_parts, mdl_06_safetensors_header_length,
      mdl_07_and_08_safetensors_spans, mdl_09_safetensors_holes_overlaps_duplicates,
      mdl_10_shard_names_in_the_index, mdl_10_links_of_the_hub_cache_are_followed)
