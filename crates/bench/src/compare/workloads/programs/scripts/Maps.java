import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** Hash maps of lists that grow, are replaced and are read again. */
public class Maps {
    public static void main(String[] args) {
        SplittableRandom random = new SplittableRandom(1);
        Map<String, ArrayList<Integer>> map = new HashMap<>();
        for (int i = 0; i < 5_000_000; i++) {
            String key = "key" + random.nextInt(200_000);
            ArrayList<Integer> list = map.computeIfAbsent(key, k -> new ArrayList<>());
            if (list.size() > 20) list = new ArrayList<>();
            list.add(i);
            map.put(key, list);
        }
        long sum = 0;
        for (int round = 0; round < 10; round++)
            for (ArrayList<Integer> list : map.values())
                for (int x : list) sum = (sum + x) % 1_000_003;
        System.out.println(map.size() + " " + sum);
    }
}
