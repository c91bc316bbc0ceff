#!/usr/bin/env bash
# Makes the documentation site of the files that are read in the repository, as docs/SUMMARY.md orders them.
# Usage: contrib/site/build.sh [OUT]
# OUT is a directory that is replaced, by default target/site. Needs mdbook (cargo install mdbook --locked).
set -euo pipefail
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sources=$(cd "$here/../.." && pwd)
out=$(realpath -m -- "${1:-$sources/target/site}")
if ! command -v mdbook >/dev/null; then
    echo "build.sh: mdbook is not there: cargo install mdbook --locked" >&2
    exit 1
fi
if [[ -e $out && ! -e $out/toc.html && -n $(ls -A -- "$out") ]]; then
    echo "build.sh: $out: it is not empty, and no site that could be replaced" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cp "$here/book.toml" "$here/wide.css" "$work"

# The same paths as in the repository, so that links lead where they led; what documents link to beside each other, too.
cd "$sources"
find ./*.md docs accept/README.md bench/README.md contrib/python/README.md contrib/deb/examples -type f \
    -exec install -D -m 644 -- {} "$work/src/{}" \;
# mdbook wants its table of contents on top.
sed -e 's#](\.\./#](ROOT/#; s#](\([^R]\)#](docs/\1#; s#](ROOT/#](#' "$work/src/docs/SUMMARY.md" >"$work/src/SUMMARY.md"
rm "$work/src/docs/SUMMARY.md"

mdbook build --dest-dir "$work/site" "$work"

# Whether each link of each page leads to a file.
dead=0
while IFS=: read -r page link; do
    target=$(dirname -- "$page")/${link%%#*}
    if [[ $link != \#* && ! -e $target ]]; then
        echo "build.sh: ${page#"$work/site/"}: the link $link leads nowhere" >&2
        dead=1
    fi
done < <(cd "$work/site" && grep -rHoP --include='*.html' '<a [^>]*href="\K(?!\w+:)[^"]+' "$work/site" | sort -u)
((dead == 0))

rm -rf -- "$out"
mkdir -p -- "$(dirname -- "$out")"
cp -r -- "$work/site" "$out"
echo "$out/index.html"
