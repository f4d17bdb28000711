#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A page of the web as it is, made of what every Debian machine has: much text,
# a deep tree, style, pictures, and a script that keeps objects.
set -e
cat <<'END'
<!doctype html><meta charset=utf-8><title>pages</title>
<style>body{font:14px serif} .a .b{color:#345} div:nth-child(3n){background:#eef}</style>
<script>
const keep = [];
function grow() {
  for (let i = 0; i < 4000; i++)
    keep.push({id: i, name: 'item ' + i, at: new Date(i * 1e6), list: [i, i / 3, '' + i]});
  const table = document.createElement('table');
  for (let i = 0; i < 300; i++) {
    const r = table.insertRow();
    for (let j = 0; j < 6; j++) r.insertCell().textContent = 'cell ' + i * j;
  }
  document.body.append(table);
  const c = document.createElement('canvas'); c.width = c.height = 300; document.body.append(c);
  const g = c.getContext('2d');
  for (let i = 0; i < 200; i++) {
    g.fillStyle = `hsl(${i * 7},60%,50%)`; g.fillRect(i, i * 3 % 280, 40, 20);
  }
  if (keep.length < 400000) setTimeout(grow, 50);
}
addEventListener('load', grow);
</script>
END
find /usr/share/doc /usr/share/perl -type f \
  \( -name '*.html' -o -name copyright -o -name '*.pod' -o -name '*.txt' \) -size -100k |
  LC_ALL=C sort | head -400 |
while read -r file; do
	echo "<div class=a><h2>$file</h2><details open><div class=b><p>"
	sed 's/&/\&amp;/g; s/</\&lt;/g; s/^$/<p>/' "$file" | head -300
	echo "</div></details></div>"
done
find /usr/share/icons /usr/share/pixmaps -name '*.png' -o -name '*.svg' 2>/dev/null |
  LC_ALL=C sort | head -200 | sed 's|.*|<img src="file://&">|'
