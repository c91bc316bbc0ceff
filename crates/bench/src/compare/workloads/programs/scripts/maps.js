// Maps of arrays that grow, are replaced and are read again.
let seed = 1;
const next = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return (seed >>> 8) % n; };
const map = new Map();
for (let i = 0; i < 2500000; i++) {
  const key = 'key' + next(150000);
  const list = map.get(key);
  if (list === undefined || list.length > 24) map.set(key, [i, { at: i }]);
  else list.push(i, { at: i });
}
let sum = 0;
for (let round = 0; round < 6; round++)
  for (const list of map.values()) for (const x of list) sum = (sum + (x.at ?? x)) % 1000003;
console.log(map.size, sum);
