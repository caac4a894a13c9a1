# make            build build/release/selfsame
# make test       install what is missing, build, check style, run every test
# make demo       install, build, fetch the default model, ask it drafted and undrafted
# make help       the other targets, one line each
comma  := ,
CC     ?= cc
CONFIG := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
BUILD  := build/$(CONFIG)
WERROR ?= $(if $(SAN),,-Werror)  # sanitizers make gcc see null where there is none

# -ffp-contract=off: a fused multiply-add is written fmaf() or it does not happen; the bits that
# every backend must agree on depend on it.  -fno-math-errno changes no bit.
CFLAGS += -std=c11 -D_GNU_SOURCE -O2 -g -ffp-contract=off -fno-math-errno -MMD -MP \
          -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla $(WERROR) -fvisibility=hidden \
          $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
FOLDERS := $(shell find src -type d)
CPPFLAGS += $(FOLDERS:%=-I%)
PACKAGES := jansson libcrypto libpcre2-8 libutf8proc libmicrohttpd libcurl sqlite3
LDLIBS += $(foreach p,$(PACKAGES),$(shell pkg-config --libs $(p))) -lm -lpthread
CPPFLAGS += $(foreach p,$(PACKAGES),$(shell pkg-config --cflags $(p)))

SOURCES := $(shell find src -mindepth 2 -name '*.c' -not -path 'src/backend/cuda/*')
VERBS   := $(wildcard src/*.c)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
TESTS   := $(shell find tests -name '*.c')

all: $(BUILD)/selfsame

# CUDA=1 adds the CUDA backend.  CUDA_HOME holds bin/nvcc, include/ and lib/ (or lib64/).
# --fmad=false for the reason of -ffp-contract=off.
ifdef CUDA
CUDA_HOME    ?= /usr/local/cuda
CUDA_ARCH    ?= -gencode=arch=compute_90a,code=sm_90a
NVCCFLAGS    := -O2 -std=c++17 --fmad=false $(CUDA_ARCH) $(FOLDERS:%=-I%) -I$(CUDA_HOME)/include
CUDA_OBJECTS := $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard src/backend/cuda/*.c src/backend/cuda/*.cu)))
LDLIBS       += -L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib -lcudart_static -lstdc++ -ldl -lrt
$(BUILD)/src/backend/cuda/%.o: CPPFLAGS += -isystem $(CUDA_HOME)/include
$(BUILD)/bench/cuda/%.o: CPPFLAGS += -isystem $(CUDA_HOME)/include
$(BUILD)/%.o: %.cu Makefile
	@mkdir -p $(@D)
	$(CUDA_HOME)/bin/nvcc $(NVCCFLAGS) -c $< -o $@
endif

# The end of a file's name says which instructions it may use.
%_avx2.o:   CFLAGS += -O3 -mavx2 -mfma -mf16c
%_avxvnni.o: CFLAGS += -O3 -mavx2 -mfma -mf16c -mavxvnni
%_avx512.o %_amx.o: CFLAGS += -O3 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c

# The state of the sources is written down only when it is another: build.o follows it.
BUILD_ID := $(shell git describe --always --dirty 2>/dev/null)
$(shell mkdir -p $(BUILD) && echo '$(BUILD_ID)' | cmp -s - $(BUILD)/id || echo '$(BUILD_ID)' >$(BUILD)/id)
$(BUILD)/src/base/build.o: $(BUILD)/id
$(BUILD)/src/base/build.o: CPPFLAGS += -DBUILD_ID='"$(BUILD_ID)"'

# Everything below the command line, once, for the program, the tests and the benches.
LIBRARY := $(BUILD)/libselfsame.a
$(LIBRARY): $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/selfsame: $(VERBS:%.c=$(BUILD)/%.o) $(CUDA_OBJECTS) $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/run-tests: $(TESTS:%.c=$(BUILD)/%.o) $(CUDA_OBJECTS) $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) $(shell pkg-config --libs check) -o $@

$(BUILD)/bench-cuda: $(BUILD)/bench/cuda/bench_cuda.o $(CUDA_OBJECTS) $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/bench-%: $(BUILD)/bench/bench_%.o $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

# replay-NAME runs fuzz/fuzz_NAME.c over files; fuzz-NAME is the same under libFuzzer (CC=clang
# SAN=fuzzer,address,undefined).
$(BUILD)/replay-%: $(BUILD)/fuzz/fuzz_%.o $(BUILD)/fuzz/replay.o $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/fuzz-%: $(BUILD)/fuzz/fuzz_%.o $(LIBRARY)
	$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/run-tidy: $(BUILD)/tools/tidy.o
	$(CC) $(CFLAGS) $^ -o $@

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

packages:  ## install the Debian packages the build needs (as root)
	tools/packages.sh

tests: $(BUILD)/run-tests  ## build and run the unit and conformance tests: T=pattern runs a part
	$(BUILD)/run-tests $(T)

tidy: $(BUILD)/run-tidy  ## check style and layers
	$(BUILD)/run-tidy .

test: packages  ## everything CI runs
	tools/test.sh

test-clients: all  ## agents and SDKs as published, fetched and run (needs npm, 1 GB)
	tests/agents/agents.sh

demo: packages  ## the main job, end to end
	tools/demo.sh

bench: $(BUILD)/bench-kernels  ## kernels as fractions of the machine's ceilings
	$(BUILD)/bench-kernels

# Architectures whose kernels are compiled, without being run: Ada, Hopper, Blackwell.
CUDA_ARCHS := 89 90a 100 120
archs:  ## compile the CUDA kernels for every architecture: CUDA_HOME=/path/to/toolkit
	@if ! test -x "$(or $(CUDA_HOME),/usr/local/cuda)/bin/nvcc"; then echo "archs: skipped: no nvcc"; \
	else set -e; for arch in $(CUDA_ARCHS); do \
	    $(MAKE) CUDA=1 BUILD=build/sm_$$arch cubins \
	        CUDA_ARCH="-gencode=arch=compute_$$arch,code=sm_$$arch"; done; fi

cubins: $(filter-out $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/backend/cuda/*.c)),$(CUDA_OBJECTS))

format:  ## format every source with clang-format 14
	clang-format -i $(shell find src tests fuzz bench tools -name '*.[ch]')

clean:  ## remove build/
	rm -rf build

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

.PHONY: all packages tests tidy test test-clients demo bench archs cubins format clean help
