# 150,000 objects, of which some are looked up far more often than others (Pareto's law).
import random

random.seed(1)


class Thing:
    __slots__ = ("a", "b", "c")

    def __init__(self, i):
        self.a = i * 7.5
        self.b = str(i) * 3
        self.c = [i, i + 1]


things = {i: Thing(i) for i in range(150000)}
total = 0
for _ in range(1500000):
    thing = things[min(int(random.paretovariate(0.6) * 300), 149999)]
    total += thing.c[0]
print(total)
