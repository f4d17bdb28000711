// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A machine whose pages are larger than zword's: it refuses to be chosen, where it
 * would otherwise keep every page raw and say nothing.
 */
#include <stdio.h>

#undef ZM_PAGE_SHIFT
#define ZM_PAGE_SHIFT 17
/* Not the one that is linked. */
#define zm_codec_zword zword_of_large_pages
#include "../port/user/codec_user.h"
#include "../zword/codec.h"

int main(void)
{
	int level, err, failed = 0;

	for (level = ZWORD_LEVEL_GLANCE; level <= ZWORD_LEVEL_ALL; level++) {
		struct zm_codec_params params = { .level = level };

		err = zword_of_large_pages.params_setup(&params);
		if (!err)
			zword_of_large_pages.params_release(&params);
		printf("pages of %u bytes, level %d: %d\n", ZM_PAGE_SIZE, level,
		       err);
		failed |= err != -EINVAL || params.prepared;
	}
	return failed;
}
