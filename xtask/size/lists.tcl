# 60,000 lists in an array, of which 800,000 times one is taken, its neighbour's more often than a random one's.
expr {srand(1)}
for {set i 0} {$i < 60000} {incr i} { set a($i) [list $i "name$i" [expr {$i * 0.5}]] }
set at 0
set total 0
for {set i 0} {$i < 800000} {incr i} {
    set at [expr {rand() < 0.9 ? ($at + 1) % 60000 : int(rand() * 60000)}]
    incr total [lindex $a($at) 0]
}
puts $total
