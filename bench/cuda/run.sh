#!/bin/sh
# Build with CUDA, compare every op with the scalar backend, time the kernels: on a machine with an
# NVIDIA GPU and a CUDA 13 toolkit (CUDA_HOME, else /usr/local/cuda).  Wants the development packages
# that `make packages` installs.
#
#   bench/cuda/run.sh [PART...]     parts of bench-cuda: skinny tiled attend
set -eu
cd "$(dirname "$0")/../.."
make -j"$(nproc)" CUDA=1 BUILD=build/cuda build/cuda/run-tests build/cuda/bench-cuda
build/cuda/run-tests conformance
if command -v compute-sanitizer > /dev/null; then
    CK_FORK=no compute-sanitizer --tool memcheck --error-exitcode 9 \
        build/cuda/run-tests conformance
else
    echo "memcheck: skipped: no compute-sanitizer"
fi
build/cuda/bench-cuda "$@"
