-- Maps of small arrays, with garbage beside them, looked up at random.
local map, x, sum = {}, 12345, 0
for i = 1, 900000 do
  map["key" .. i] = { i, i * 3 % 1001, "v" .. i % 977 }
end
for round = 1, 3 do
  for i = 1, 900000 do
    x = (x * 1103515245 + 12345) % 2147483648
    local row = map["key" .. (x % 900000 + 1)]
    row[2] = row[2] + round
    sum = (sum + row[2] + #row[3]) % 1000003
  end
end
print(sum)
