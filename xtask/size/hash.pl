# A hash of 250,000 keys, of which the first ones are looked up more often, and its keys sorted.
my $state = 1;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; $state / 2147483648 }
my %h;
$h{"key$_"} = "value$_" x 4 for 1 .. 250000;
my $total = 0;
for (1 .. 1200000) { $total += length $h{"key" . int((draw() ** 4) * 250000 + 1)}; }
my @keys = sort keys %h;
print scalar(@keys), $total, "\n";
