-- A database in memory that can be computed: filled by recursive queries, indexed, changed, joined and checked.
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -100000;
CREATE TABLE item(id INTEGER PRIMARY KEY, k INTEGER, name TEXT, body TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900000)
INSERT INTO item SELECT i, (i * 2654435761) % 4294967291, printf('item %d of %x', i, (i * 40503) % 65521),
    printf('%.*c%x %x %x %x %x %x %x', 50 + i % 200, char(97 + i % 26), i * 2654435761, i * 40503, i * i, i * i * 7919,
        i * i * i, (i + 7) * (i + 11) * 48271, i * 2654435761) FROM n;
CREATE INDEX item_k ON item(k);
CREATE UNIQUE INDEX item_name ON item(name);
SELECT count(*), sum(k), sum(length(body)), min(name), max(name) FROM item;
UPDATE item SET body = upper(body) || id, k = k + 1 WHERE k % 5 = 0;
DELETE FROM item WHERE k % 7 = 3;
CREATE TABLE pair AS SELECT a.id AS x, b.id AS y, a.name || ' with ' || b.name AS name
    FROM item a JOIN item b ON b.id = (a.k % 900000) WHERE a.id % 3 = 0;
CREATE INDEX pair_y ON pair(y, x);
SELECT count(*), sum(x * (y % 1000)), max(name) FROM pair;
SELECT k % 16, count(*), sum(id), max(body), min(body) FROM item GROUP BY 1 ORDER BY 1;
SELECT name, count(*) FROM (SELECT substr(body, 1, 3) AS name FROM item ORDER BY body DESC LIMIT 300000) GROUP BY 1 ORDER BY 1;
SELECT id, k, name FROM item ORDER BY substr(body, -6), id LIMIT 20;
BEGIN;
DELETE FROM item WHERE id % 2;
SELECT count(*) FROM item;
ROLLBACK;
SELECT count(*), sum(k) FROM item;
PRAGMA integrity_check;
SELECT count(*), sum(a.k - b.k) FROM item a JOIN item b ON b.name = printf('item %d of %x', a.id + 1, ((a.id + 1) * 40503) % 65521);
VACUUM;
SELECT page_count FROM pragma_page_count;
PRAGMA integrity_check;
