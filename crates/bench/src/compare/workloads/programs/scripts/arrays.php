<?php
// Arrays of records, sorted by one of their fields, and looked up at random.
ini_set('memory_limit', '-1');
$records = [];
$x = 12345;
for ($i = 0; $i < 250000; $i++) {
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    $records["key$i"] = ['id' => $i, 'rank' => $x % 1000003, 'name' => "name" . $x % 9973];
}
uasort($records, fn($a, $b) => $a['rank'] <=> $b['rank'] ?: $a['id'] <=> $b['id']);
$sum = 0;
for ($i = 0; $i < 500000; $i++) {
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    $record = $records["key" . $x % 250000];
    $sum = ($sum + $record['rank'] + strlen($record['name'])) % 1000003;
}
echo $sum, "\n";
