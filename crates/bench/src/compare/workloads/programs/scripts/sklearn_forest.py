import numpy as np
from sklearn.ensemble import RandomForestClassifier
r = np.random.default_rng(1)
x = r.random((60_000, 20))
y = (x[:, :5].sum(axis=1) + r.random(60_000) > 3).astype(int)
f = RandomForestClassifier(n_estimators=30, random_state=1, n_jobs=2).fit(x, y)
print(int(f.predict(x).sum()))
