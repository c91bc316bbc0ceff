// Fills maps with data that can be recomputed, changes them from several threads while the collector moves them, checks
// every value and prints sums that depend on nothing but the arguments.
// usage: java HeapCheck.java MEBIBYTES ROUNDS
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class HeapCheck {
    static final int SHARDS = 4;

    static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    static final class Record {
        final long key;
        int generation;
        String text;
        byte[] payload;

        Record(long key, int generation) {
            this.key = key;
            change(generation);
        }

        void change(int to) {
            generation = to;
            long seed = mix(key * 31 + to);
            text = "record " + key + " generation " + to + " " + Long.toHexString(seed);
            payload = new byte[(int) (200 + Long.remainderUnsigned(seed, 600))];
            for (int i = 0; i < payload.length; i++) {
                // Half of it repeats, so that it compresses about as well as a heap does.
                payload[i] = (byte) (i % 64 < 32 ? i : seed >>> (i % 57));
            }
        }

        long check() {
            Record expected = new Record(key, generation);
            if (!expected.text.equals(text) || !java.util.Arrays.equals(expected.payload, payload)) {
                throw new IllegalStateException("record " + key + " generation " + generation + " is damaged");
            }
            long sum = mix(key) + generation;
            for (byte b : payload) {
                sum = sum * 31 + b;
            }
            return sum;
        }
    }

    final Map<Long, Record> hash = new HashMap<>();
    final TreeMap<String, Record> tree = new TreeMap<>();
    final int shard;

    HeapCheck(int shard) {
        this.shard = shard;
    }

    void put(long key, int generation) {
        Record record = new Record(key, generation);
        hash.put(key, record);
        tree.put(Long.toHexString(mix(key)), record);
    }

    long round(int round, int records) {
        for (int i = 0; i < records; i++) {
            long key = (long) shard * records + i;
            if (round == 0) {
                put(key, 0);
            } else if (mix(key + round * 7919L) % 8 == 0) {
                hash.get(key).change(round);
            } else if (mix(key + round * 104729L) % 16 == 1) {
                hash.remove(key);
                tree.remove(Long.toHexString(mix(key)));
                put(key, round);
            }
        }
        long sum = 0;
        for (Record record : hash.values()) {
            sum += record.check();
        }
        long sorted = 0;
        for (Map.Entry<String, Record> entry : tree.entrySet()) {
            sorted = sorted * 31 + entry.getValue().key + entry.getKey().hashCode();
        }
        return sum ^ sorted;
    }

    public static void main(String[] args) throws Exception {
        int records = (int) (Long.parseLong(args[0]) * 1024 * 1024 / 900 / SHARDS);
        int rounds = Integer.parseInt(args[1]);
        List<HeapCheck> shards = new ArrayList<>();
        for (int i = 0; i < SHARDS; i++) {
            shards.add(new HeapCheck(i));
        }
        ExecutorService pool = Executors.newFixedThreadPool(2);
        for (int round = 0; round < rounds; round++) {
            List<Callable<Long>> tasks = new ArrayList<>();
            for (HeapCheck shard : shards) {
                int number = round;
                tasks.add(() -> shard.round(number, records));
            }
            StringBuilder line = new StringBuilder("round " + round);
            for (Future<Long> sum : pool.invokeAll(tasks)) {
                line.append(' ').append(Long.toHexString(sum.get()));
            }
            System.out.println(line);
        }
        pool.shutdown();
    }
}
