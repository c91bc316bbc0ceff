// Objects parsed from JSON, sorted by name.
const rows = [];
for (let i = 0; i < 400000; i++) rows.push(JSON.stringify({ id: i, name: 'n' + (i * 7919 % 1000003), tags: [i % 7, i % 11] }));
const parsed = rows.map((row) => JSON.parse(row));
parsed.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
let sum = 0;
parsed.forEach((row, at) => { sum = (sum + row.id * (at % 13) + row.tags[0]) % 1000003; });
console.log(parsed.length, sum);
