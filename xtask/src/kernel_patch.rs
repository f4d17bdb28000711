//! `cargo xtask kernel-patch`: series of patches for a plain kernel, as its lists take them.
//!
//! The codec is the files of `store/zword`; files that only a kernel's tree has are in
//! `xtask/kernel-patch`; files of the tree are edited at lines that they must have.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{bail, ensure, Context, Result};
use zmeld_report::text;

use crate::pages;
use crate::process::{self, output_of, unavailable, Log};
use crate::recipes::Kernel;
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "kernel-patch";

/// Write a series of patches for a plain kernel to target/kernel-patch/KERNEL/SERIES: zstd that
/// keeps its contexts; zword as a library with a backend of zram; zword as a compressor of the
/// crypto API for zswap. Submitter and maintainer are placeholders
#[derive(clap::Args)]
pub struct Options {
    #[arg(value_parser = SERIES.map(|series| series.name))]
    series: String,
    /// Folder of that kernel's plain sources: 6.12, 7.2 or 7.3
    #[arg(long)]
    tree: PathBuf,
}

const KERNELS: [&str; 3] = ["6.12", "7.2", "7.3"];

const SUBMITTER: &str = "PLACEHOLDER SUBMITTER";
const SUBMITTER_ADDRESS: &str = "submitter@placeholder.invalid";

/// The most lines of a patch, but of one with tables.
const LINES_MAX: usize = 1200;

struct Series {
    name: &'static str,
    /// Those that it stands on.
    behind: &'static [Series],
    cover: &'static str,
    parts: &'static [Part],
    kernels: &'static [&'static str],
}

const SERIES: [Series; 3] = [ZSTD, ZWORD, CRYPTO];

const ZSTD: Series = Series {
    name: "zstd",
    behind: &[],
    cover: ZSTD_COVER,
    parts: ZSTD_PARTS,
    // Before, contexts were kept.
    kernels: &["7.2", "7.3"],
};

const ZWORD: Series = Series {
    name: "zword",
    behind: &[],
    cover: ZWORD_COVER,
    parts: ZWORD_PARTS,
    kernels: &KERNELS,
};

const CRYPTO: Series = Series {
    name: "zword-crypto",
    behind: &[ZWORD],
    cover: CRYPTO_COVER,
    parts: CRYPTO_PARTS,
    kernels: &KERNELS,
};

const ZSTD_COVER: &str = "crypto: zstd: keep contexts

The submitter's name and address are placeholders.

zswap compresses and decompresses a page through the crypto API, whose
zstd initialises contexts for each request, for a window of 256 KiB, and
twice where a request has one piece each way, as zswap's writes and most of
its reads have. zram's backend initialises its contexts once.

Patch 1 is a fix: a compressed stream may lose its end, in silence, where
the destination is nearly full. Patch 2 keeps the contexts, in the same
memory. Patch 3 adds KUnit tests. Those that look at ends of streams fail
without patch 1; all pass without patch 2, too: the output of a request of
one piece stays that of a new context, byte by byte.";

// The first table is of `cargo xtask bench codec --rounds 25 --pages 128`; docs/figures.md says how
// programs were measured one by one.
const ZWORD_COVER: &str = "zword: a compressor for pages of memory

All names and addresses in this series are placeholders: those of the
submitter, of the holder of the copyright, and the maintainer in
MAINTAINERS. Whoever sends it fills them in, and says who will use it.

zword compresses single pages of memory. It predicts words from words some
strides back, and codes what differs by static, trained codes. It
allocates nothing for a page, loads no dictionary and uses no SIMD. This
series has its format, a library with KUnit tests, and a backend of zram. A
second series has a compressor of the crypto API, for zswap.

Why another one. zram has fast compressors (lz4, lzo-rle) and dense ones
(zstd, deflate). All were made for files of any length and learn each page
anew: zstd makes codes for it and stores them with it. zword is made for
one page, and its codes are there when it begins. Its place is zstd's:
level 1 for whoever takes zstd today, level 2 for recompression. lz4 stays
faster.

2,048 pages that 16 programs had in swap, none of which the codes were
trained on, means, in user space on an AMD EPYC busy with other work
(zstd's contexts are kept; PLACEHOLDER URL has the program: cargo xtask
bench codec --rounds 25 --pages 128):

                     bytes   compress, us   decompress, us
  lz4                1,612       3.88            0.98
  zstd -3            1,097      11.2             3.68
  zword, level 1       979       7.34            2.40

The same pages, of what zstd -3 takes; cold is after 2 MiB of other data
were read:

                            level 1   level 2
  bytes in zsmalloc           0.89      0.85
  compress, mean              0.66      3.79
  compress, 99th percentile   0.76      4.4
  decompress, mean, cold      0.77      0.68
  decompress, 99th            1.04      0.85

It depends on the program. Of 39 programs' resident pages, level 1 takes
0.88 of the bytes of zstd -3 in zsmalloc and 0.60 of its time to compress,
as a mean; the best is an XML tree in Python (0.73, 0.44), the worst git
when it packs (1.005, 0.67). The tables were trained on other runs of nine
of the 39: chromium, cc1plus, go, Python's syntax trees, perl, emacs, gawk,
redis and sort.

Memory: the tables take 339 KiB once, made from 31 KiB of lengths when the
first context is; a context takes 16 KiB for each CPU. In zram on x86-64,
zstd takes 182 KiB for each CPU, and lz4 takes 16 KiB.

Level 2 is for recompression, and is refused where pages have 64 KiB: it
would hold a CPU too long.

Big-endian machines gain least: words are read in little endian
everywhere, so that the codes do not fit. On 16,500 pages of eleven
programs of Debian for s390x, run by qemu-user, with zsmalloc's size
classes computed and not measured, level 1 takes 1.03 of the bytes of
zstd -3 in zsmalloc and level 2 0.94, where the same programs on x86-64
have 0.87 and 0.83. Pages of phones have not been measured.

Dictionaries (dict= of zram) are zstd's way to know a page beforehand. One
of 16, 64 or 112 KiB, trained on 8,192 pages of eight programs, makes
zstd -3 take 1.07 of the bytes that it takes without on 8,192 pages of
eight others (zstd --train -B4096 --maxdict=16KB, zstd -b3 -B4096 -D).

Testing. The decoder is bounded by the sizes of both buffers and
trusts nothing it reads. CBMC has 38 proofs, of blocks of 16 to 80 bytes in
place of 4096: each pass of the decoder keeps to its buffers, so does the
encoder while its source changes at each read, and most steps give back
what went in. A second decoder, written from the format alone, reads
each object of the training. KUnit has on each level 400 pages in every
mode, the capacities of 60 and 11,520 damaged objects, and 2,000 objects
of noise. CONFIG_ZWORD_CHECK decodes and compares each page; it is off by
default. The proofs are not in this series: PLACEHOLDER URL keeps them.

Where the lengths of codes come from. lib/zword/lengths.c was made from
pages that programs of Debian had in swap, three of four pages of each;
patch 2 names them. Any lengths that zword_tables_build() takes are right,
and cost bytes alone. Patches 8 to 10 are the trainer, in Rust, with its own
decoder; nothing is built with it. They show where the lengths come from,
and may be left out: PLACEHOLDER URL has them, too.

Open point. A page of 4 KiB that takes more than 3,624 bytes is not
compressed, since zsmalloc gives it a whole page, with chains of 8 pages
(the default of CONFIG_ZSMALLOC_CHAIN_SIZE). So a figure of zsmalloc's is
in lib/. Where a cgroup has no writeback, zswap refuses such a page, which
stays in memory; with zstd, one of up to 4,095 bytes is stored.

Figures on hardware are yet to be made. On x86 and arm64 boards, with
swap on zram0 and a program that needs more memory than there is:

  for c in lzo-rle lz4 zstd zword; do
    swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset
    echo $c > /sys/block/zram0/comp_algorithm
    echo 4G > /sys/block/zram0/disksize
    mkswap /dev/zram0; swapon /dev/zram0
    /usr/bin/time -f \"$c %e s\" PROGRAM
    cat /sys/block/zram0/mm_stat
  done";

// Figures: `cargo xtask bench zswap --only time --rounds 3`.
const CRYPTO_COVER: &str = "crypto: zword for zswap

All names and addresses in this series are placeholders. It stands on
the series that adds lib/zword.

zswap takes its compressors from the crypto API. Patch 1 lets testmgr have
vectors of a page, since zword takes nothing else. Patch 2 adds zword with
such vectors. zswap takes it by its name.

On pages of 16 programs that its tables never saw, in user-mode Linux 7.2
in a virtual machine on an Intel Xeon (medians of three rounds; no
hardware, so compare ratios; a program that needs 300 MiB of 256), zword
takes of

                                  pool bytes   mean fault   fill
  zstd                               0.90         0.60      0.74
  zstd with contexts that are kept   0.91         0.93      0.99
  lz4                                0.62         1.06      1.07

80 % of what a mean fault gains on zstd is that zstd initialises its
contexts for each page, with CPUID instructions, which trap in a virtual
machine and take 9 us there: a series of its own keeps the contexts.
Outside of a virtual machine this share is smaller, and not measured.

By itself in user space, of what zstd -3 takes with its contexts kept:

                            zword
  compress, mean              0.66
  compress, 99th percentile   0.76
  decompress, mean, cold      0.77
  decompress, 99th            1.04

Cold is after 2 MiB of other data were read. Some programs' pages are as
small with zstd.

Only level 1 is here. zswap holds a mutex, but the crypto API turns bottom
halves off while it compresses (crypto_acomp_lock_stream_bh()), and level 2
would take too long for its slowest pages.";

// Figures: `cargo xtask bench zswap --only time --rounds 3`.
#[rustfmt::skip]
const ZSTD_PARTS: &[Part] = &[
    Part {
        message: "crypto: zstd - write the end of a stream in full

zstd_end_stream() returns how many bytes did not fit the destination, and
is to be called until it returns 0. zstd_compress() takes what is positive
for success: where a piece of the destination is nearly full, the frame is
cut off and the request succeeds.

Call it within the walk, for as many pieces as it takes, and return -ENOSPC
where there are no more. This also ends a stream before its destination is
unmapped.

Only requests of several pieces are streams. zswap compresses in one.

Fixes: f5ad93ffb541 (\"crypto: zstd - convert to acomp\")",
        copies: &[("xtask/kernel-patch/crypto/zstd_end.patch", "crypto/zstd.c")],
        edits: &[],
    },
    Part {
        message: "crypto: zstd - keep contexts from one request to the next

zstd initialises its contexts for each request. Where a request has one
piece each way, it does so twice: for a stream, and then in the same memory
for a single call. On x86, each time asks the processor for its features
with three CPUID instructions, which trap in a virtual machine.

Initialise a stream only where a request has more pieces, and keep the
contexts of single calls. The decompression context gets a place beside the
compression context. A stream takes all memory, and the next single calls
initialise their contexts again.

zs_obj_read_sg_begin() gives an object that spans pages in two pieces:
with zsmalloc's size classes for pages of 4 KiB, that is about a fifth of
the objects of 900 to 1300 bytes, and more of larger ones. So that these
reads are no streams, copy a source of at most a page that has several
pieces, and decompress it in a single call.

No more memory is needed. On x86-64 a compression stream takes 1530 KiB,
the compression context of single calls 1017 KiB, the decompression context
94 KiB, and the copy 4 KiB. The output stays the same.

A program that needs 300 MiB of 256, with zswap, in user-mode Linux 7.2 on
one processor, in a virtual machine on an Intel Xeon (medians of three
rounds). Here CPUID takes 9 us, and initialising the contexts takes 47 us
to compress and 17 us to decompress. So the gain is that of such a machine;
without a hypervisor it is smaller, and not measured:

            fill, s   mean fault, us   its 99.9th percentile, ms
  before      8.70        157                10.5
  after       6.59        107                 5.05",
        copies: &[("xtask/kernel-patch/crypto/zstd.patch", "crypto/zstd.c")],
        edits: &[],
    },
    Part {
        message: "crypto: zstd - add KUnit tests

Requests with sources and destinations of one piece and of many come back,
of sizes up to more than the window, one after the other and by several
users at once, also after one that failed. A stream fits its own size and
no smaller one. The output of a request of one piece is that of a new
context of the library.",
        copies: &[("xtask/kernel-patch/crypto/zstd_kunit.c", "crypto/zstd_kunit.c")],
        edits: &[
            ("crypto/Kconfig", "\t  See https://github.com/facebook/zstd for further information.",
                "%\n\nconfig CRYPTO_ZSTD_KUNIT_TEST\n\ttristate \"KUnit tests of zstd\" if !KUNIT_ALL_TESTS\n\
                 \tdepends on KUNIT && CRYPTO_ZSTD\n\tdefault KUNIT_ALL_TESTS\n\thelp\n\
                 \t  Requests in one piece and in many come back, of any size and by\n\
                 \t  several users at once, also after requests that fail."),
            ("crypto/Makefile", "obj-$(CONFIG_CRYPTO_ZSTD) += zstd.o", "%\nobj-$(CONFIG_CRYPTO_ZSTD_KUNIT_TEST) += zstd_kunit.o"),
        ],
    },
];

struct Part {
    message: &'static str,
    /// From where in the workspace to where in the tree; a folder's sources, or a file, or a
    /// patch of that file.
    copies: &'static [(&'static str, &'static str)],
    /// A file of the tree, a line that it has, and what stands there then: % is that line. An
    /// empty line stands for the end of the file.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

#[rustfmt::skip]
const ZWORD_PARTS: &[Part] = &[
    Part {
        message: "Documentation: describe zword's format

zword is a compressor for pages of memory. Its format is complete here:
a decoder can be written from it.",
        copies: &[("docs/zword.md", "Documentation/staging/zword.rst")],
        edits: &[
            ("Documentation/staging/index.rst", "   xz", "%\n   zword"),
            ("MAINTAINERS", "F:\ttools/testing/selftests/cgroup/test_zswap.c",
                "%\n\nZWORD COMPRESSOR\nM:\tPLACEHOLDER MAINTAINER <maintainer@placeholder.invalid>\n\
                 L:\tlinux-mm@kvack.org\nS:\tMaintained\nF:\tDocumentation/staging/zword.rst"),
        ],
    },
    Part {
        message: "lib: zword: add the tables of its codes

All codes of zword are static. Their lengths, 31 KiB, are constants, from
which the tables of both directions are made, 339 KiB.

The lengths are trained in rounds: pages are encoded, symbols are counted,
lengths are made of the counts. The pages are those that these programs of
Debian had in swap, one at a time in a memory control group that was too
small for them, three of four pages of each:

  TRAINED

Lengths of codes hold nothing of a page's contents; they are
GPL-2.0-or-later, as the program that made them.",
        copies: &[
            ("store/zword/bits.h", "lib/zword/bits.h"),
            ("store/zword/lengths.c", "lib/zword/lengths.c"),
            ("store/zword/tables.c", "lib/zword/tables.c"),
            ("store/zword/tables.h", "lib/zword/tables.h"),
            ("store/zword/zword.h", "lib/zword/zword.h"),
            ("store/zword/zword_limits.h", "lib/zword/zword_limits.h"),
            ("xtask/kernel-patch/lib/zword/Kconfig", "lib/zword/Kconfig"),
            ("xtask/kernel-patch/lib/zword/Makefile", "lib/zword/Makefile"),
        ],
        edits: &[
            ("lib/Kconfig", "source \"lib/xz/Kconfig\"", "%\n\nsource \"lib/zword/Kconfig\""),
            ("lib/Makefile", "obj-$(CONFIG_XZ_DEC) += xz/", "%\nobj-$(CONFIG_ZWORD) += zword/"),
            ("MAINTAINERS", "F:\tDocumentation/staging/zword.rst", "%\nF:\tlib/zword/"),
        ],
    },
    Part {
        message: "lib: zword: add the decoder

Blocks of words are decoded in three passes, those of bytes in three
others. None trusts what it reads: each is bounded by the sizes of the
object and of the page.",
        copies: &[
            ("store/zword/block.h", "lib/zword/block.h"),
            ("store/zword/decode.c", "lib/zword/decode.c"),
            ("store/zword/decode_bytes.c", "lib/zword/decode_bytes.c"),
        ],
        edits: &[("lib/zword/Makefile", "libzword-y := lengths.o tables.o",
            "libzword-y := decode.o decode_bytes.o lengths.o tables.o")],
    },
    Part {
        message: "lib: zword: parse blocks

Parsing finds a reference for each word and the run behind it, or literals
and matches: quickly for level 1, thoroughly for level 2.",
        copies: &[
            ("store/zword/parse_bytes.c", "lib/zword/parse_bytes.c"),
            ("store/zword/parse_words.c", "lib/zword/parse_words.c"),
        ],
        edits: &[("lib/zword/Makefile", "libzword-y := decode.o decode_bytes.o lengths.o tables.o",
            "libzword-y := decode.o decode_bytes.o lengths.o parse_bytes.o \\\n\t      parse_words.o tables.o")],
    },
    Part {
        message: "lib: zword: add the encoder

Level 1 chooses a block's mode by a sample of its words, level 2 tries all.
The page may change meanwhile, as swap's pages may: then another page
comes back, and nothing else happens.",
        copies: &[
            ("store/zword/encode.c", "lib/zword/encode.c"),
            ("store/zword/encode_bytes.c", "lib/zword/encode_bytes.c"),
            ("store/zword/encode_words.c", "lib/zword/encode_words.c"),
        ],
        edits: &[("lib/zword/Makefile", "libzword-y := decode.o decode_bytes.o lengths.o parse_bytes.o \\",
            "libzword-y := decode.o decode_bytes.o encode.o encode_bytes.o \\\n\t      encode_words.o lengths.o parse_bytes.o \\")],
    },
    Part {
        message: "lib: zword: offer it to other parts of the kernel

A context is the memory that one caller at a time works in. The first one
makes the tables. So a kernel in which nobody uses zword has none of them,
and where there is no memory for them only the user of zword fails.",
        copies: &[
            ("xtask/kernel-patch/lib/zword/library.c", "lib/zword/library.c"),
            ("xtask/kernel-patch/include/linux/zword.h", "include/linux/zword.h"),
        ],
        edits: &[
            ("lib/zword/Makefile", "\t      encode_words.o lengths.o parse_bytes.o \\",
                "\t      encode_words.o lengths.o library.o parse_bytes.o \\"),
            ("lib/zword/Kconfig", "\t  See Documentation/staging/zword.rst for its format.",
                "%\n\nconfig ZWORD_CHECK\n\tbool \"Decode and compare each page that zword encoded\"\n\
                 \tdepends on ZWORD && DEBUG_KERNEL\n\thelp\n\
                 \t  A page that its object does not give back is refused with a\n\
                 \t  warning. It costs the time of a read for each write. If unsure,\n\
                 \t  say N."),
            ("Documentation/staging/zword.rst", "", "\nInterface\n---------\n\n\
                .. kernel-doc:: include/linux/zword.h\n\n.. kernel-doc:: lib/zword/library.c\n   :export:\n"),
            ("MAINTAINERS", "F:\tlib/zword/", "F:\tinclude/linux/zword.h\n%"),
        ],
    },
    Part {
        message: "lib: zword: add KUnit tests

They are of round trips on both levels and in every mode, of capacities,
of damaged objects and of noise:

  ./tools/testing/kunit/kunit.py run --kunitconfig lib/zword",
        copies: &[
            ("store/zword/grammar.h", "lib/zword/grammar.h"),
            ("xtask/kernel-patch/lib/zword/zword_kunit.c", "lib/zword/zword_kunit.c"),
            ("xtask/kernel-patch/lib/zword/.kunitconfig", "lib/zword/.kunitconfig"),
        ],
        edits: &[
            ("lib/zword/Makefile", "obj-$(CONFIG_ZWORD) += libzword.o",
                "%\nobj-$(CONFIG_ZWORD_KUNIT_TEST) += zword_kunit.o"),
            ("lib/zword/Kconfig", "\t  say N.",
                "%\n\nconfig ZWORD_KUNIT_TEST\n\ttristate \"KUnit tests of zword\" if !KUNIT_ALL_TESTS\n\
                 \tdepends on KUNIT && ZWORD\n\tdefault KUNIT_ALL_TESTS\n\thelp\n\
                 \t  Pages come back on both levels and in every mode, no capacity is\n\
                 \t  passed, and hostile objects do no harm. They take seconds."),
        ],
    },
    Part {
        message: "tools: zword: decode by the format alone

This second decoder was written from Documentation/staging/zword.rst and
shares no code with the first. It decodes bit by bit, and reports each
symbol to the training, which counts them.",
        copies: &[("crates/zmeld-store/tests/support/zword", "tools/zword/zword")],
        edits: &[("MAINTAINERS", "F:\tlib/zword/", "%\nF:\ttools/zword/")],
    },
    Part {
        message: "tools: zword: train the lengths of its codes

The program makes lib/zword/lengths.c from pages. No build of a kernel
needs it.",
        copies: &[
            ("crates/zmeld-store/examples/train_zword.rs", "tools/zword/main.rs"),
            ("crates/zmeld-store/tests/support/train.rs", "tools/zword/train.rs"),
            ("crates/zmeld-store/src/zword.rs", "tools/zword/encoder.rs"),
            ("xtask/kernel-patch/tools/zword", "tools/zword"),
        ],
        edits: &[],
    },
    Part {
        message: "tools: zword: name the programs whose pages it learnt from

The list has how each program is run, and hashes of the pages that were
kept of it.",
        copies: &[("xtask/pages", "tools/zword")],
        edits: &[],
    },
    Part {
        message: "zram: add a zword backend

comp_algorithm takes zword. algorithm_params takes level=1, the default,
and level=2, which is denser and slower and meant for recompression. Pages
of 64 KiB have level 1 only.",
        copies: &[("xtask/kernel-patch/drivers/block/zram", "drivers/block/zram")],
        edits: &[
            ("drivers/block/zram/Kconfig",
                "config ZRAM_BACKEND_FORCE_LZO",
                "config ZRAM_BACKEND_ZWORD\n\tbool \"zword compression support\"\n\
                 \tdepends on ZRAM && PAGE_SIZE_LESS_THAN_256KB\n\tselect ZWORD\n\thelp\n\
                 \t  zword, a compressor for pages of memory. On little-endian machines,\n\
                 \t  pages of most programs take less memory and time than with zstd;\n\
                 \t  on big-endian ones they take about as much memory. Level 1 is the\n\
                 \t  default, level 2 is for recompression.\n\n\
                 \t  See Documentation/staging/zword.rst for its format.\n\n%"),
            ("drivers/block/zram/Kconfig", "\t\t!ZRAM_BACKEND_842", "% && !ZRAM_BACKEND_ZWORD"),
            ("drivers/block/zram/Kconfig", "endchoice",
                "config ZRAM_DEF_COMP_ZWORD\n\tbool \"zword\"\n\tdepends on ZRAM_BACKEND_ZWORD\n\n%"),
            ("drivers/block/zram/Kconfig", "\tdefault \"842\" if ZRAM_DEF_COMP_842", "%\n\tdefault \"zword\" if ZRAM_DEF_COMP_ZWORD"),
            ("drivers/block/zram/Makefile", "zram-$(CONFIG_ZRAM_BACKEND_842)\t\t+= backend_842.o", "%\nzram-$(CONFIG_ZRAM_BACKEND_ZWORD)\t+= backend_zword.o"),
            ("drivers/block/zram/zcomp.c", "#include \"backend_842.h\"", "%\n#include \"backend_zword.h\""),
            ("drivers/block/zram/zcomp.c", "\tNULL", "#if IS_ENABLED(CONFIG_ZRAM_BACKEND_ZWORD)\n\t&backend_zword,\n#endif\n%"),
            ("Documentation/admin-guide/blockdev/zram.rst", "Parameters are algorithm specific: not all algorithms support pre-trained",
                "\t#zword recompresses with level 2; level 1 is its default\n\
                 \techo \"algo=zword priority=1\" > /sys/block/zram0/recomp_algorithm\n\
                 \techo \"priority=1 level=2\" > /sys/block/zram0/algorithm_params\n\n%"),
            ("MAINTAINERS", "F:\tinclude/linux/zword.h", "F:\tdrivers/block/zram/backend_zword.*\n%"),
        ],
    },
];

#[rustfmt::skip]
const CRYPTO_PARTS: &[Part] = &[
    Part {
        message: "crypto: testmgr - take compression vectors of a page

A vector of compression holds at most 512 bytes, within itself, and what
is decompressed has 512 bytes of room. Let it point to its bytes, as other
kinds of vectors do, and make the buffers 4 KiB, so that a compressor that
takes only pages can be tested. The table of vectors becomes smaller.",
        copies: &[],
        edits: &[
            ("crypto/testmgr.h", "#define COMP_BUF_SIZE           512", "#define COMP_BUF_SIZE           4096"),
            ("crypto/testmgr.h", "\tchar input[COMP_BUF_SIZE];", "\tconst char *input;"),
            ("crypto/testmgr.h", "\tchar output[COMP_BUF_SIZE];", "\tconst char *output;"),
        ],
    },
    Part {
        message: "crypto: zword - add zword

Add level 1 of zword as a synchronous compressor, for zswap. It has two
vectors each way: a page of text and one of words.

The room for a page must have the page's size, as zswap's has: an object
does not say of how many blocks it is.",
        copies: &[("xtask/kernel-patch/crypto/zword.c", "crypto/zword.c")],
        edits: &[
            ("crypto/Kconfig", "config CRYPTO_ZSTD",
                "config CRYPTO_ZWORD\n\ttristate \"zword\"\n\tdepends on PAGE_SIZE_LESS_THAN_256KB\n\tselect CRYPTO_ALGAPI\n\
                 \tselect CRYPTO_ACOMP2\n\tselect ZWORD\n\thelp\n\
                 \t  zword, a compressor for pages of memory. It takes nothing but\n\
                 \t  multiples of 4 KiB, as zswap has them.\n\n\
                 \t  See Documentation/staging/zword.rst for its format.\n\n%"),
            ("crypto/Makefile", "obj-$(CONFIG_CRYPTO_842) += 842.o", "%\nobj-$(CONFIG_CRYPTO_ZWORD) += zword.o"),
            ("crypto/testmgr.c", "\t\t\t\t.decomp = __VECS(zstd_decomp_tv_template)",
                "%\n\t\t\t}\n\t\t}\n\t}, {\n\t\t.alg = \"zword\",\n\t\t.test = alg_test_comp,\n\t\t.fips_allowed = 1,\n\t\t.suite = {\n\t\t\t.comp = {\n\
                 \t\t\t\t.comp = __VECS(zword_comp_tv_template),\n\t\t\t\t.decomp = __VECS(zword_decomp_tv_template)"),
            ("crypto/testmgr.h", "/* based on aes_cbc_tv_template */", "VECTORS%"),
            ("MAINTAINERS", "F:\tdrivers/block/zram/backend_zword.*", "F:\tcrypto/zword.c\n%"),
        ],
    },
];

/// Texts that differ in a kernel's tree.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("Made by `cargo xtask train zword`; docs/zword.md says", "Made by tools/zword; Documentation/staging/zword.rst says"),
    (": `cargo xtask train zword` runs this with the pages to learn from.", ", see README."),
    (" (the example `train_zword` of zmeld-store)", ""),
    ("use zmeld_store::zword::{Level, Zword};", "use encoder::{Level, Zword};"),
    ("#[path = \"../tests/support/train.rs\"]\n", "mod encoder;\n"),
    ("#[path = \"../tests/support/zword/mod.rs\"]\n", ""),
    ("`cargo xtask pages`", "see README"),
    (AT_LOAD, ""),
    ("zword_at_load\n", ""),
    (" zword_data_at_load", ""),
    ("With smaller ones, as tests have them, every page meets every\n * limit, and what is written is another format.", "Others make another format."),
    ("docs/zword.md", "Documentation/staging/zword.rst"),
    ("store/zword/", "lib/zword/"),
];

/// What `store/zword` takes of its port, by header of a kernel.
const PORT: &str = "#include <zm_platform.h>\n";
const PORT_OF: &[(&str, &str)] = &[
    ("bits.h", "bitops minmax types unaligned"),
    ("zword.h", "bits build_bug errno string types"),
];

/// In `store/zword/zword.h`; here tables are made when they are first used.
const AT_LOAD: &str = "/*
 * What makes tables. Where they are made only at load (ZWORD_AT_LOAD), this memory
 * is given back then.
 */
#ifdef ZWORD_AT_LOAD
#include <linux/init.h>
#define zword_at_load\t\t__init
#define zword_data_at_load\t__section(\".init.rodata\")
#else
#define zword_at_load
#define zword_data_at_load
#endif

";

pub fn run(options: &Options) -> Result<ExitCode> {
    let named = |series: &&Series| series.name == options.series;
    let series = SERIES.iter().find(named).context("no such series")?;
    let folder = workspace::target().join("kernel-patch");
    for patch in write(series, &options.tree, &folder)? {
        println!("{}", workspace::shown(&patch));
    }
    Ok(ExitCode::SUCCESS)
}

/// Source files of all series.
pub fn files() -> Result<Vec<PathBuf>> {
    let root = workspace::root();
    let mut files = vec![root.join("xtask/src/kernel_patch.rs")];
    for folder in ["store/zword", "xtask/kernel-patch"] {
        files.extend(workspace::all_files(&root.join(folder))?);
    }
    files.sort();
    Ok(files)
}

/// Puts all series into the sources in that folder; after each patch `look` is called. At last
/// what makes the lengths there is built.
pub fn put_in(log: &Log, tree: &Path, look: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    for patch in &all_of(tree, &tree.with_extension("patches"))? {
        patched(tree, patch)?;
        look(patch).with_context(|| workspace::shown(patch))?;
    }
    let mut make = Command::new("make");
    log.must(make.arg("-C").arg(tree.join("tools/zword")))?;
    Ok(())
}

/// The patches of all series for that tree, in their order, without covers.
fn all_of(tree: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let kernel = kernel_of(tree)?;
    if !KERNELS.contains(&&*kernel.series) {
        unavailable!("the patches are not made for Linux {}", kernel.series);
    }
    let mut patches = Vec::new();
    for series in &SERIES {
        if series.kernels.contains(&&*kernel.series) {
            patches.extend(write(series, tree, folder)?.split_off(1));
        }
    }
    Ok(patches)
}

/// zstd with contexts that are kept, as a module beside the kernel's own: `zstd-kept`. None: its
/// sources are not here, or have contexts kept.
pub fn kept_zstd(log: &Log, kernel: &Kernel) -> Result<Option<PathBuf>> {
    let Some(tree) = kernel.source.as_deref() else {
        return Ok(None);
    };
    if !ZSTD.kernels.contains(&&*kernel_of(tree)?.series) {
        return Ok(None);
    }
    let folder = workspace::work_folder("zstd-kept")?.canonicalize()?;
    workspace::empty_folder(&folder)?;
    let plain = workspace::read(&tree.join("crypto/zstd.c"))?;
    workspace::put(&folder.join("crypto/zstd.c"), plain)?;
    // All but the tests.
    for part in &ZSTD_PARTS[..2] {
        apply(part, "", &folder)?;
    }
    let text = workspace::read(&folder.join("crypto/zstd.c"))?;
    let text = text
        .replace("\"zstd\"", "\"zstd-kept\"")
        .replace("\"zstd-generic\"", "\"zstd-kept-generic\"");
    workspace::put(&folder.join("zstd-kept.c"), text)?;
    workspace::put(&folder.join("Kbuild"), "obj-m := zstd-kept.o\n")?;
    let place = format!("M={}", folder.display());
    log.must(kernel.make().args([&place, "modules"]))?;
    Ok(Some(folder.join("zstd-kept.ko")))
}

/// Each patch has the kernel's style, and a size that can be read. Kernels that are built with
/// them, patch by patch, show the rest.
pub fn test(log: &Log, kernel: &Kernel) -> Result<Tally> {
    tools::need(&["perl"])?;
    let tree = kernel.source.as_deref();
    let tree = tree.context("user-mode Linux without its sources")?;
    let patches = all_of(tree, &workspace::work_folder(STEP)?)?;
    let mut tally = Tally::default();
    for patch in &patches {
        let text = workspace::read(patch)?;
        let lines = text.lines().filter(|line| line.starts_with('+')).count();
        let is_fine = lines <= LINES_MAX || text.contains("\n+const u8 zword_lengths[] = {\n");
        let why = format!("{} adds {lines} lines", workspace::shown(patch));
        tally.add(Tally::of(STEP, is_fine, why));
    }
    // Whether MAINTAINERS needs a line: its folder has one. Neighbours in the menus of zram's
    // codecs and zswap's have no help, or one line. zstd's own names are as they are. The sources
    // have no history in which a commit could be looked up.
    let ignored = "FILE_PATH_CHANGES,CONFIG_DESCRIPTION,CAMELCASE,UNKNOWN_COMMIT_ID";
    let mut style = style_of(tree, ignored);
    tally.add(Tally::of_run(
        log,
        STEP,
        style.args(&patches),
        "checkpatch has a point, see above",
    )?);
    Ok(tally)
}

/// The style of the kernel in that folder, without those points.
pub fn style_of(source: &Path, ignored: &str) -> Command {
    let mut command = Command::new(source.join("scripts/checkpatch.pl"));
    command.current_dir(source);
    command.args("--no-tree --strict --terse --show-types --no-summary".split(' '));
    command.args(["--max-line-length=100", "--ignore", ignored]);
    command
}

/// The patches, by number: a repository of the files in question, which git formats.
fn write(series: &Series, tree: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    tools::need(&["git"])?;
    let kernel = kernel_of(tree)?;
    if !series.kernels.contains(&&*kernel.series) {
        let known = series.kernels.join(", ");
        bail!(
            "{} is Linux {}, not one of {known}",
            tree.display(),
            kernel.series
        );
    }
    let folder = folder.join(&kernel.series).join(series.name);
    workspace::empty_folder(&folder)?;
    let work = folder.join("work");
    let before = series.behind.iter().flat_map(|other| other.parts);
    let parts: Vec<&Part> = before.chain(series.parts).collect();
    let edited = parts.iter().flat_map(|part| part.edits);
    let patched = parts.iter().flat_map(|part| part.copies);
    let patched = patched.filter(|(from, _)| from.ends_with(".patch"));
    let files = edited.map(|(file, ..)| file);
    for file in files.chain(patched.map(|(_, file)| file)) {
        if tree.join(file).exists() {
            workspace::put(&work.join(file), workspace::read(&tree.join(file))?)?;
        }
    }
    let git = |arguments: &[&str]| {
        let mut git = process::git();
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), SUBMITTER);
            git.env(format!("GIT_{role}_EMAIL"), SUBMITTER_ADDRESS);
        }
        // Whoever runs this may have hooks, signatures and formats of his own.
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        output_of(git.arg("-C").arg(&work).args(arguments))
    };
    let commit = |message: &str| {
        git(&["add", "-A"])?;
        git(&["commit", "-qm", message])
    };
    git(&["init", "-q", "-b", "series"])?;
    commit("plain")?;
    let mut below = format!("base-commit: {}\n", kernel.commit);
    for (number, part) in parts.iter().enumerate() {
        apply(part, &kernel.series, &work)?;
        let message = part.message.replace("TRAINED", &trained()?);
        commit(&format!(
            "{message}\n\nSigned-off-by: {SUBMITTER} <{SUBMITTER_ADDRESS}>"
        ))?;
        if number + series.parts.len() < parts.len() {
            below += &format!("prerequisite-patch-id: {}\n", patch_id(&git(&["show"])?)?);
        }
    }
    git(&["config", "branch.series.description", series.cover])?;
    let base = format!("HEAD~{}", series.parts.len());
    let format = "format-patch -q --cover-letter --cover-from-description=subject -o ..";
    git(&format.split(' ').chain([&*base]).collect::<Vec<_>>())?;
    workspace::remove(&work)?;
    let patches = workspace::files(&folder, "patch")?;
    let cover = workspace::read(&patches[0])?;
    let (text, version) = cover.rsplit_once("-- \n").context("a cover has an end")?;
    workspace::put(&patches[0], format!("{text}{below}-- \n{version}"))?;
    Ok(patches)
}

fn patch_id(patch: &str) -> Result<String> {
    let said = through(
        process::git().args(["patch-id", "--stable"]),
        patch.as_bytes(),
    )?;
    let said = String::from_utf8(said)?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

/// What a program makes of its input.
fn through(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(input)?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{}",
        process::command_line(command)
    );
    Ok(output.stdout)
}

/// The programs whose pages the lengths are of, in lines of a message.
fn trained() -> Result<String> {
    let programs = pages::programs()?;
    let names = programs.iter().filter(|program| program.trains);
    let mut lines = vec![String::new()];
    for name in names.map(|program| &*program.name) {
        let line = lines.len() - 1;
        if lines[line].len() + name.len() > 64 {
            lines.push(String::new());
        }
        let line = lines.len() - 1;
        lines[line] += &format!("{name}, ");
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    Ok(lines.join("\n  ").trim_end_matches(',').to_owned())
}

/// Pages as test vectors, and what zword makes of them.
fn vectors() -> Result<String> {
    let lines = (0..64).map(|k| {
        format!(
            "{:>63}\n",
            format!("Line {k} of a page of text, of {}", k * k)
        )
    });
    let lines: Vec<String> = lines.collect();
    let words: Vec<u8> = (0..24u64)
        .flat_map(|k| [0x7f12_3456_0000 + 96 * k, 3 * k, 0])
        .flat_map(u64::to_le_bytes)
        .collect();
    let mut padded = words.clone();
    padded.resize(pages::PAGE, 0);
    let quoted = lines
        .iter()
        .map(|line| format!("\"{}\\n\"", line.trim_end_matches('\n')));
    let pages = [
        (
            "text",
            quoted.collect::<Vec<_>>().join("\n\t"),
            lines.concat().into_bytes(),
        ),
        ("word", literal(&words, "\n\t"), padded),
    ];
    let mut text = String::from("/* Of pages: one of text, and one of words and zeros. */\n");
    let (mut comp, mut decomp) = (String::new(), String::new());
    for (name, page, bytes) in pages {
        ensure!(bytes.len() == pages::PAGE, "the {name} page is no page");
        let mut encode = cargo(&["run", "--quiet", "--package", "zmeld-store"]);
        let object = through(encode.args(["--example", "zword_object"]), &bytes)?;
        let room = if name == "text" { " + 1" } else { "" };
        let name = format!("zword_{name}_page");
        let object_name = name.replace("page", "object");
        text += &format!("static const char {name}[COMP_BUF_SIZE{room}] =\n\t{page};\n\n");
        let bytes_of_object = literal(&object, "\n\t");
        text += &format!("static const char {object_name}[] =\n\t{bytes_of_object};\n\n");
        let sizes = (bytes.len(), object.len());
        comp += &vector((&name, &object_name), sizes);
        decomp += &vector((&object_name, &name), (sizes.1, sizes.0));
    }
    for (direction, vectors) in [("comp", comp), ("decomp", decomp)] {
        text += &format!(
            "static const struct comp_testvec zword_{direction}_tv_template[] = {{\n{vectors}}};\n\n"
        );
    }
    Ok(text)
}

fn vector((input, output): (&str, &str), (inlen, outlen): (usize, usize)) -> String {
    format!(
        "\t{{\n\t\t.inlen\t= {inlen},\n\t\t.outlen\t= {outlen},\n\
         \t\t.input\t= {input},\n\t\t.output\t= {output},\n\t}},\n"
    )
}

/// Bytes as a string of C.
fn literal(bytes: &[u8], between: &str) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let bytes: String = line.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"")
    });
    lines.collect::<Vec<_>>().join(between)
}

fn apply(part: &Part, kernel: &str, work: &Path) -> Result<()> {
    for (from, to) in part.copies {
        let source = workspace::root().join(from);
        if from.ends_with(".patch") {
            patched(work, &source)?;
            continue;
        }
        let files = match source.is_file() {
            true => vec![source.clone()],
            false => workspace::all_files(&source)?,
        };
        for file in files {
            let to = Path::new(to).join(file.strip_prefix(&source)?);
            // Of a file itself nothing is left, and its place has no end.
            let to = to.to_string_lossy().trim_end_matches('/').to_owned();
            let text = in_tree(&workspace::read(&file)?, &to, kernel);
            workspace::put(&work.join(&to), text)?;
        }
    }
    for (file, line, new) in part.edits {
        let path = work.join(file);
        let new = match new.strip_prefix("VECTORS") {
            Some(rest) => vectors()? + rest,
            None => (*new).to_owned(),
        };
        workspace::put(
            &path,
            edited(&workspace::read(&path)?, line, &new)
                .with_context(|| format!("{file} of this tree"))?,
        )?;
    }
    Ok(())
}

fn patched(tree: &Path, patch: &Path) -> Result<String> {
    let mut apply = process::git();
    // Not a part of a repository that the sources may be in.
    apply.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    output_of(apply.current_dir(tree).arg("apply").arg(patch))
}

fn edited(text: &str, line: &str, new: &str) -> Result<String> {
    if line.is_empty() {
        return Ok(format!("{text}{new}"));
    }
    let (old, new) = (
        format!("\n{line}\n"),
        format!("\n{}\n", new.replace('%', line)),
    );
    if !text.contains(&old) {
        bail!("has no line '{}', where zword's would go", line.trim());
    }
    Ok(text.replacen(&old, &new, 1))
}

/// A source as the kernel's tree has it, at that place.
fn in_tree(text: &str, place: &str, kernel: &str) -> String {
    if place.ends_with(".rst") {
        return restructured(text);
    }
    let mut text = renamed(text);
    for (file, headers) in PORT_OF {
        if place == format!("lib/zword/{file}") {
            let headers = headers.split(' ');
            let headers: String = headers
                .map(|name| format!("#include <linux/{name}.h>\n"))
                .collect();
            text = text.replace(PORT, &headers);
        }
    }
    match place {
        "lib/zword/tables.c" => {
            text = text.replacen(
                "#include \"bits.h\"",
                "#include <linux/module.h>\n\n#include \"bits.h\"",
                1,
            );
            text += "\nMODULE_LICENSE(\"GPL\");\n\
                     MODULE_DESCRIPTION(\"zword: a compressor for pages of memory\");\n";
        }
        "drivers/block/zram/backend_zword.c" if kernel == "6.12" => {
            text = text.replace("ZCOMP_PARAM_NOT_SET", "ZCOMP_PARAM_NO_LEVEL");
        }
        "crypto/zword.c" if kernel == "6.12" => {
            text = text
                .replace("alloc_ctx(void)", "alloc_ctx(struct crypto_scomp *tfm)")
                .replace(
                    "free_ctx(void *",
                    "free_ctx(struct crypto_scomp *tfm, void *",
                )
                .replace("\t.streams = {\n\t\t.alloc", "\t.alloc")
                .replace(
                    ",\n\t\t.free_ctx = zword_free_ctx,\n\t},",
                    ",\n\t.free_ctx = zword_free_ctx,",
                );
        }
        _ => {}
    }
    with_holder(&text, place)
}

/// Whose it is, behind the line that says the licence.
fn with_holder(text: &str, place: &str) -> String {
    let holder = "Copyright (C) 2026 PLACEHOLDER HOLDER";
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("// SPDX") => {
            format!("{first}\n// {holder}\n{rest}")
        }
        _ if place.ends_with(".rs") => {
            format!("// SPDX-License-Identifier: GPL-2.0-or-later\n// {holder}\n\n{text}")
        }
        Some((first, rest)) if first.starts_with("/* SPDX") => {
            format!("{first}\n/* {holder} */\n{rest}")
        }
        _ => text.to_owned(),
    }
}

fn renamed(text: &str) -> String {
    let rename = |text: String, (old, new): &(&str, &str)| text.replace(old, new);
    NAMES.iter().fold(text.to_owned(), rename)
}

/// The format of docs/zword.md, as the kernel's documentation is written.
fn restructured(page: &str) -> String {
    let begin = page.find("All numbers are little endian.").unwrap_or(0);
    let end = page.find("## How it is encoded").unwrap_or(page.len());
    let mut text = ".. SPDX-License-Identifier: GPL-2.0-or-later\n\n\
        zword: a compressor for pages of memory\n=======================================\n\n\
        This is the format, complete enough to write a decoder from. It does not change: the\n\
        crypto API tests it against fixed vectors.\n\n"
        .to_owned();
    let mut is_table = false;
    for line in page[begin..end].lines() {
        let line = renamed(&line.replace('`', "``"));
        if let Some(title) = line.strip_prefix("## ") {
            text += &format!("{title}\n{}\n", "-".repeat(title.len()));
        } else if let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if !is_table {
                text += ".. list-table::\n\n";
            }
            is_table = true;
            if !cells.iter().all(|cell| cell.trim_matches('-').is_empty()) {
                text += &format!("   * - {}\n", cells.join("\n     - "));
            }
        } else {
            is_table = false;
            text += &format!("{line}\n");
        }
    }
    let blocks: Vec<String> = text.trim_end().split("\n\n").map(wrapped).collect();
    blocks.join("\n\n") + "\n"
}

/// A paragraph, or the items of a list, in lines as the kernel's documentation has them.
fn wrapped(block: &str) -> String {
    let is_text = !block.contains("\n---") && !block.contains("\n===");
    if !is_text || block.starts_with("..") || block.starts_with(' ') {
        return block.to_owned();
    }
    let begins = |line: &str| {
        let number = line
            .split_once(". ")
            .map(|(number, _)| number.parse::<u8>());
        number.is_some_and(|it| it.is_ok())
    };
    let mut items: Vec<String> = Vec::new();
    for line in block.lines() {
        match items.last_mut() {
            Some(item) if !begins(line) => *item += &format!(" {}", line.trim()),
            _ => items.push(line.to_owned()),
        }
    }
    let items = items.iter().map(|item| match begins(item) {
        true => text::wrap(item, 75).join("\n   "),
        false => text::wrap(item, 78).join("\n"),
    });
    items.collect::<Vec<_>>().join("\n")
}

struct PlainKernel {
    series: String,
    /// Where it is a repository; else the tag that it is of.
    commit: String,
}

fn kernel_of(tree: &Path) -> Result<PlainKernel> {
    let makefile = workspace::read(&tree.join("Makefile"))?;
    let value = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name));
        line.with_context(|| format!("{} is no kernel's", tree.display()))
    };
    let series = format!("{}.{}", value("VERSION = ")?, value("PATCHLEVEL = ")?);
    let commit = match tree.join(".git").exists() {
        true => output_of(
            process::git()
                .arg("-C")
                .arg(tree)
                .args(["rev-parse", "HEAD"]),
        )?
        .trim()
        .to_owned(),
        false => match value("SUBLEVEL = ")? {
            "0" => format!("v{series}"),
            sublevel => format!("v{series}.{sublevel}"),
        },
    };
    Ok(PlainKernel { series, commit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_store_is_left_in_a_kernel() {
        let work = workspace::work_folder("unit/kernel-patch").unwrap();
        let parts = SERIES.iter().flat_map(|series| series.parts);
        for (part, kernel) in parts.flat_map(|part| KERNELS.map(|kernel| (part, kernel))) {
            workspace::empty_folder(&work).unwrap();
            if part.copies.iter().any(|(from, _)| from.ends_with(".patch")) {
                continue;
            }
            let part = Part {
                edits: &[],
                ..*part
            };
            apply(&part, kernel, &work).unwrap();
            for file in workspace::all_files(&work).unwrap() {
                let text = workspace::read(&file).unwrap();
                let left = "zm_ ZM_ zmeld \"../ AT_LOAD at_load cargo xtask";
                for word in left.split(' ') {
                    assert!(!text.contains(word), "{word} in {}", file.display());
                }
                let is_tool = file.starts_with(work.join("tools"));
                for word in ["__builtin", "_Static"] {
                    let is_left = !is_tool && text.contains(word);
                    assert!(!is_left, "{word} in {}", file.display());
                }
                let mut knobs = text.lines().filter(|line| line.starts_with("#ifndef"));
                assert!(knobs.all(|it| it.ends_with("_H") || it.ends_with("_H__")));
            }
        }
    }
}
