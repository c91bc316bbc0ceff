# Words counted in an associative array.
BEGIN { x = 1; for (i = 0; i < 3000000; i++) { x = (x * 69069 + 12345) % 4294967296; n["word" int(x / 4096) % 900000]++ }
        for (w in n) { if (n[w] > 3) many++; all += n[w] } print many, all }
