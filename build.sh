#!/usr/bin/env bash
# Builds dist/rivulet, one executable with everything inside, and the link dist/segtool.
#   ./build.sh          install, compile, check types, bundle; seconds when nothing has changed
#   ./build.sh run      the same, then start a broker on ./rivulet-data (further arguments go to rivulet serve)
#   ./build.sh clean    remove what was built
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '%s\n' "$*" >&2; }
die() { say "build: $1"; say "  $2"; exit 1; }

[ "${1:-}" = clean ] && { rm -rf dist native/build; exit 0; }

command -v node >/dev/null || die 'Node.js is missing' 'Install Node.js 20 or later; it is needed to build, not to run.'
[ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20')" = true ] || die "Node.js $(node -v) is too old" 'Install Node.js 20 or later.'
for tool in npm make g++; do command -v "$tool" >/dev/null || die "$tool is missing" "Install $tool."; done

arch=$(node -p process.arch)
node_bin="$PWD/node_modules/node-linux-$arch/bin"
lock=$(sha256sum package-lock.json | cut -d' ' -f1)
if [ "$(cat node_modules/.rivulet-lock 2>/dev/null || true)" != "$lock" ]; then
  say 'installing packages'
  npm ci --no-audit --no-fund >&2
  printf %s "$lock" > node_modules/.rivulet-lock
fi
[ -x "$node_bin/node" ] || die "no Node 24 package for linux-$arch" 'Supported: x64 and arm64 on Linux with glibc.'
export PATH="$node_bin:$PWD/node_modules/.bin:$PATH"
make -s -C native

# What the executable is made of; when it is the same as last time, so is the executable.
inputs=$(find src native/build/rivulet.node .build package.json package-lock.json tsconfig.json -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
mkdir -p dist
if [ ! -x dist/rivulet ] || [ "$(cat dist/.inputs 2>/dev/null || true)" != "$inputs" ]; then
  say 'checking types'
  tsc -p tsconfig.json
  tsc -p src/tsconfig.pure.json
  say 'bundling'
  rm -rf dist/lib
  tsc -p .build/tsconfig.lib.json
  node .build/bundle.mjs "$arch" "$PWD/dist/rivulet"
  ln -sf rivulet dist/segtool
  printf %s "$inputs" > dist/.inputs
  say "built dist/rivulet ($(du -m dist/rivulet | cut -f1) MB)"
fi

if [ "${1:-}" = run ]; then
  shift
  cat >&2 <<'NEXT'

Starting a broker; its data goes to ./rivulet-data. In another terminal:

  dist/rivulet topic create hello
  echo 'my first record' | dist/rivulet produce hello
  dist/rivulet consume hello --from earliest

Stop it with Ctrl-C; start it again and the records are still there.

NEXT
  exec dist/rivulet serve "$@"
fi
