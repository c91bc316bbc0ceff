import numpy as np, pandas as pd
r = np.random.default_rng(1)
n = 2_500_000
left = pd.DataFrame({'k': r.integers(0, 200_000, n), 'v': r.integers(0, 1000, n)})
right = pd.DataFrame({'k': np.arange(200_000), 'name': ['n%d' % (i % 999) for i in range(200_000)]})
both = left.merge(right, on='k')
out = both.groupby('name')['v'].agg(['sum', 'count', 'max'])
print(len(both), int(out['sum'].sum()), int(out['max'].sum()))
