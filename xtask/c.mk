# SPDX-License-Identifier: GPL-2.0-or-later
#
# Makes PROGRAM of a test's source TEST and the store's SOURCES, whose objects are in OUT:
# what is older than its source, a header of STORE, or OUT/options is made anew. FLAGS are for the
# store's sources alone, LINK and LIBRARIES for the program, LIBRARIES is also what it is made of.

HEADERS := $(wildcard $(STORE)/*/*.h $(STORE)/*/*/*.h)
# A test may include those of the module itself.
HEADERS += $(wildcard $(STORE)/crypto/*.c)
OBJECTS := $(addprefix $(OUT)/,$(notdir $(SOURCES:.c=.o)))
vpath %.c $(sort $(dir $(SOURCES)))

$(PROGRAM): $(TEST) $(OBJECTS) $(LIBRARIES) $(HEADERS) $(OUT)/options
	$(CC) $(CFLAGS) $(LINK) $(TEST) $(OBJECTS) $(LIBRARIES) $(LDLIBS) -o $@

$(OUT)/%.o: %.c $(HEADERS) $(OUT)/options
	$(CC) $(CFLAGS) $(FLAGS) -c $< -o $@
