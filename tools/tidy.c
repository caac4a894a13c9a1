/* tidy.c - the style and layer checker: `run-tidy FOLDER` prints file:line: sentence for every
 * breach and fails if there was one.
 *
 * It relies on clang-format's shape: a function's body ends at a brace in column 0.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COLUMNS_MAX = 100,
    FUNCTION_LINES_MAX = 70,
    KERNEL_LINES_MAX = 120,  // in src/backend, with a comment "tidy: long, because ..."
    FILE_LINES_MAX = 1000,
    LINE_SIZE = 4096,
    FILES_MAX = 4096,
};

/* Folders of src/ in layer order: one may include only from itself and smaller levels. */
static const struct layer {
    const char *folder;
    int level;
} layers[] = {
    {"src/base/", 0},   {"src/tensor/", 1},  {"src/file/", 2},   {"src/text/", 2},
    {"src/op/", 2},     {"src/backend/", 3}, {"src/family/", 3}, {"src/engine/", 4},
    {"src/server/", 5}, {"src/certify/", 5}, {"src/", 6},
};

/* What a layer may use beside its own folder and lower levels. */
static const char *const exceptions[][2] = {
    {"src/text/tokenizer.c", "checkpoint.h"},
};

/* The only file that may include a third party's header. */
static const char *const homes[][2] = {
    {"jansson.h", "src/base/json.c"},      {"openssl/", "src/base/digest.c"},
    {"pcre2.h", "src/text/split.c"},       {"utf8proc.h", "src/text/normalize.c"},
    {"microhttpd.h", "src/server/http.c"}, {"curl/", "src/file/hub.c"},
    {"sqlite3.h", "src/base/database.c"},
};

static const char *const banned_calls[] = {"strcpy", "sprintf", "strcat", "atoi",
                                           "strtok", "gets",    "alloca", "system"};

struct source {
    char path[512];
    const char *name;  // after the last slash
};

struct tree {
    struct source *files;
    size_t n_files;
    size_t n_breaches;
};

static void breach(struct tree *tree, const char *path, int line, const char *sentence,
                   const char *detail) {
    printf("%s:%d: %s%s\n", path, line, sentence, detail);
    tree->n_breaches++;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static const struct layer *layer_of(const char *path) {
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (starts_with(path, layers[i].folder)) {
            return &layers[i];
        }
    }
    return NULL;
}

static void collect(struct tree *tree, const char *folder) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[512];
        struct stat info;
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path ||
            stat(path, &info) != 0) {
            continue;
        }
        if (S_ISDIR(info.st_mode)) {
            collect(tree, path);
        } else if (ends_with(path, ".c") || ends_with(path, ".h") || ends_with(path, ".cu") ||
                   ends_with(path, ".cuh")) {
            if (tree->n_files < FILES_MAX) {
                struct source *source = &tree->files[tree->n_files++];
                snprintf(source->path, sizeof source->path, "%s", path);
                source->name = strrchr(source->path, '/') + 1;
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static const struct source *find_header(const struct tree *tree, const char *name) {
    for (size_t i = 0; i < tree->n_files; i++) {
        if (strcmp(tree->files[i].name, name) == 0) {
            return &tree->files[i];
        }
    }
    return NULL;
}

static bool is_exception(const char *path, const char *header) {
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        if (strcmp(exceptions[i][0], path) == 0 && strcmp(exceptions[i][1], header) == 0) {
            return true;
        }
    }
    return false;
}

static void check_own_include(struct tree *tree, const char *path, int line, const char *header) {
    const struct source *target = find_header(tree, header);
    const struct layer *mine = layer_of(path);
    const struct layer *theirs = target != NULL ? layer_of(target->path) : NULL;
    if (mine == NULL || theirs == NULL || is_exception(path, header)) {
        return;  // tests, tools and benches may include anything
    }
    bool is_same = strcmp(mine->folder, theirs->folder) == 0;
    if (!is_same && theirs->level >= mine->level) {
        breach(tree, path, line, "includes against the layer order: ", header);
    }
}

static void check_include(struct tree *tree, const char *path, int line, const char *text) {
    char header[256];
    if (sscanf(text, "#include \"%255[^\"]\"", header) == 1) {
        check_own_include(tree, path, line, header);
        return;
    }
    if (sscanf(text, "#include <%255[^>]>", header) != 1 || !starts_with(path, "src/")) {
        return;
    }
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        if (strstr(header, homes[i][0]) != NULL && strcmp(path, homes[i][1]) != 0) {
            breach(tree, path, line, "only one file may include this: ", homes[i][0]);
        }
    }
}

static void check_calls(struct tree *tree, const char *path, int line, const char *text) {
    for (size_t i = 0; i < sizeof banned_calls / sizeof banned_calls[0]; i++) {
        const char *name = banned_calls[i];
        for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
            char before = at > text ? at[-1] : ' ';
            bool is_word = before == ' ' || before == '(' || before == '\t' || before == '!';
            if (is_word && at[strlen(name)] == '(') {
                breach(tree, path, line, "calls a function that is banned here: ", name);
            }
        }
    }
}

/* A variable at file scope that may change: `static` in column 0, no parenthesis, no const. */
static bool is_mutable_global(const char *text) {
    return starts_with(text, "static ") && strchr(text, '(') == NULL &&
           strstr(text, "const") == NULL &&
           (strchr(text, ';') != NULL || strchr(text, '=') != NULL);
}

static void check_line(struct tree *tree, const char *path, int line, const char *text) {
    size_t length = strlen(text), columns = 0;
    for (size_t i = 0; i < length; i++) {
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;  // count characters, not UTF-8 bytes
    }
    if (columns > COLUMNS_MAX) {
        breach(tree, path, line, "longer than 100 columns", "");
    }
    if (strchr(text, '\t') != NULL) {
        breach(tree, path, line, "a tab", "");
    }
    if (length > 0 && text[length - 1] == ' ') {
        breach(tree, path, line, "trailing blanks", "");
    }
    if (strstr(text, "TO"
                     "DO") != NULL ||
        strstr(text, "FIX"
                     "ME") != NULL) {
        breach(tree, path, line, "unfinished business", "");
    }
    if (starts_with(text, "#if 0")) {
        breach(tree, path, line, "dead code", "");
    }
    if (starts_with(text, "#include")) {
        check_include(tree, path, line, text);
    }
    if (starts_with(path, "src/")) {
        check_calls(tree, path, line, text);
        if (is_mutable_global(text)) {
            breach(tree, path, line, "mutable state at file scope", "");
        }
    }
}

struct function {
    int first_line;  // of the body; 0: outside
    bool is_excused;
};

/* Follow function bodies by braces in column 0. */
static void check_function(struct tree *tree, const char *path, int line, const char *text,
                           struct function *function) {
    size_t length = strlen(text);
    if (function->first_line == 0) {
        bool opens = length > 0 && text[length - 1] == '{' && strchr(text, ')') != NULL &&
                     strchr(text, '=') == NULL;
        if (opens && (text[0] != ' ' || ends_with(text, ") {"))) {
            *function = (struct function){.first_line = line};
        }
        return;
    }
    function->is_excused |= strstr(text, "tidy: long, because") != NULL;
    if (text[0] != '}') {
        return;
    }
    int n_lines = line - function->first_line + 1;
    bool is_kernel = starts_with(path, "src/backend/") && function->is_excused;
    if (n_lines > (is_kernel ? KERNEL_LINES_MAX : FUNCTION_LINES_MAX)) {
        breach(tree, path, function->first_line, "a function longer than one screen", "");
    }
    function->first_line = 0;
}

static void check_file(struct tree *tree, const struct source *source) {
    FILE *in = fopen(source->path, "r");
    char text[LINE_SIZE];
    int line = 0;
    struct function function = {0};
    if (in == NULL) {
        breach(tree, source->path, 0, "cannot be read", "");
        return;
    }
    while (fgets(text, sizeof text, in) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        line++;
        if (line == 1 && !starts_with(text, "/*") && starts_with(source->path, "src/")) {
            breach(tree, source->path, line, "does not open with a comment saying what it is", "");
        }
        check_line(tree, source->path, line, text);
        check_function(tree, source->path, line, text, &function);
    }
    fclose(in);
    if (line > FILE_LINES_MAX) {
        breach(tree, source->path, line, "more than 1000 lines", "");
    }
}

static void check_names(struct tree *tree) {
    for (size_t i = 0; i < tree->n_files; i++) {
        for (size_t j = i + 1; j < tree->n_files; j++) {
            if (starts_with(tree->files[i].path, "src/") &&
                starts_with(tree->files[j].path, "src/") &&
                strcmp(tree->files[i].name, tree->files[j].name) == 0) {
                breach(tree, tree->files[i].path, 1, "shares its name with ", tree->files[j].path);
            }
        }
    }
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"src", "tests", "fuzz", "bench", "tools"};
    struct tree tree = {.files = calloc(FILES_MAX, sizeof *tree.files)};
    if (tree.files == NULL || (argc > 1 && chdir(argv[1]) != 0)) {
        fprintf(stderr, "tidy: cannot enter %s\n", argc > 1 ? argv[1] : ".");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        collect(&tree, folders[i]);
    }
    for (size_t i = 0; i < tree.n_files; i++) {
        check_file(&tree, &tree.files[i]);
    }
    check_names(&tree);
    printf("tidy: %zu files, %zu breaches\n", tree.n_files, tree.n_breaches);
    free(tree.files);
    return tree.n_breaches == 0 && tree.n_files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
