# 250,000 words in a table, of which the first ones are looked up more often.
BEGIN {
    srand(1)
    for (i = 0; i < 250000; i++) seen["word" i] = i " times"
    for (i = 0; i < 1500000; i++) { u = rand(); total += length(seen["word" int(u * u * u * 250000)]) }
    print total
}
