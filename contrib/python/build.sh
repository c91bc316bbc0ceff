#!/usr/bin/env bash
# Builds the wheel, and tests it in a fresh environment unless --no-test is given.
#     contrib/python/build.sh [--no-test]
# Needs a Rust toolchain, a C compiler, python3 with venv, and PyPI (or PIP_INDEX_URL).
set -euo pipefail
cd "$(dirname "$0")"
out="${CARGO_TARGET_DIR:-target}/python"
mkdir -p "$out"
out=$(realpath "$out")
python3 -m venv "$out/build"
"$out/build/bin/pip" install --quiet 'maturin>=1.9,<2'
rm -rf "$out/wheels"
"$out/build/bin/maturin" build --release --out "$out/wheels"
wheel=$(echo "$out"/wheels/*.whl)
if [ "${1:-}" != --no-test ]; then
    python3 -m venv --clear "$out/test"
    "$out/test/bin/pip" install --quiet "$wheel[test]"
    PYTHONDONTWRITEBYTECODE=1 "$out/test/bin/pytest" -q -p no:cacheprovider tests
fi
echo "$wheel"
