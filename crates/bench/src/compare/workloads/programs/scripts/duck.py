import duckdb
c = duckdb.connect()
c.execute("set threads=2"); c.execute("set memory_limit='8GB'")
c.execute("create table t as select (hash(i) % 300000)::int k, (hash(i*7) % 1000)::int v, md5((i%1000)::varchar) s from range(6000000) r(i)")
print(c.execute("select sum(n), sum(v)::bigint from (select k, count(*) n, sum(v) v from t group by k)").fetchall())
print(c.execute("select count(*) from t a join (select k, max(v) m from t group by k) b on a.k = b.k and a.v = b.m").fetchall())
