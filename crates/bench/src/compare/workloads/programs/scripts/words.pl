# Words counted by whom they follow, then sorted.
my ($x, %after) = (12345);
my $last = 'w0';
for (1 .. 1_800_000) {
    $x = ($x * 1103515245 + 12345) & 0x7fffffff;
    my $word = 'w' . ($x % 120000);
    $after{$last}{$word}++;
    $last = $word;
}
my $sum = 0;
for my $word (sort keys %after) {
    my @next = sort keys %{ $after{$word} };
    $sum = ($sum + @next * length "@next") % 1000003;
}
print "$sum\n";
