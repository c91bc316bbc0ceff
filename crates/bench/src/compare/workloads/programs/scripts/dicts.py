import random
r = random.Random(1)
class Node:
    def __init__(self, key, value):
        self.key, self.value, self.tags = key, value, {'a': key, 'b': str(value)}
table = {i: Node('k%d' % i, r.random()) for i in range(400000)}
total = 0
for _ in range(1000000):
    node = table[r.randrange(400000)]
    node.tags['n'] = node.tags.get('n', 0) + 1
    total += node.tags['n']
print(len(table), total, round(sum(n.value for n in table.values()), 6))
