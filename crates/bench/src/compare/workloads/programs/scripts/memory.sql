create table t(a integer primary key, b integer, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000)
insert into t select i, (i * 7919) % 1000003, 'row number ' || (i * 31 % 99991) || ' of a table' from n;
create index tb on t(b);
update t set c = c || b where b % 10 = 3;
select count(*), sum(b), max(length(c)) from t where b between 1000 and 900000;
select count(*), sum(x) from (select c, count(*) x from t group by c);
