#!/bin/sh
# The commit of this tree, with -dirty where a file was changed that is neither a record nor filled from one.
cd "$(dirname "$0")/.." || exit 1
commit=$(git describe --always --exclude='*' --abbrev=8) || exit 1
git diff --quiet HEAD -- . ':!runs' ':!docs' ':!README.md' || commit=$commit-dirty
echo "$commit"
