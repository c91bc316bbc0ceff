import numpy as np
r = np.random.default_rng(1)
a = r.integers(0, 1 << 40, 12_000_000)
order = np.argsort(a, kind='stable')
b = a[order]
m = r.integers(0, 9, (1500, 1500)).astype(float)
print(int(b[::1000].sum()), int((m @ m).sum()), int(np.unique(b >> 20).size))
