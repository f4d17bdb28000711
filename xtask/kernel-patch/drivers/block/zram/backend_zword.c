// SPDX-License-Identifier: GPL-2.0-or-later

#include <linux/kernel.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/zword.h>

#include "backend_zword.h"

static void zword_release_params(struct zcomp_params *params)
{
}

static int zword_setup_params(struct zcomp_params *params)
{
	if (params->level == ZCOMP_PARAM_NOT_SET)
		params->level = ZWORD_QUICK;
	if (params->level != ZWORD_QUICK && params->level != ZWORD_DENSE)
		return -EINVAL;
	/* It would hold a CPU too long. */
	if (params->level == ZWORD_DENSE && PAGE_SIZE > SZ_16K)
		return -EINVAL;
	return 0;
}

static void zword_destroy(struct zcomp_ctx *ctx)
{
	zword_context_free(ctx->context);
	ctx->context = NULL;
}

static int zword_create(struct zcomp_params *params, struct zcomp_ctx *ctx)
{
	ctx->context = zword_context_new();
	return ctx->context ? 0 : -ENOMEM;
}

static int zword_compress(struct zcomp_params *params, struct zcomp_ctx *ctx,
			  struct zcomp_req *req)
{
	unsigned int size = req->dst_len;
	int ret;

	ret = zword_page_encode(params->level, ctx->context, req->src,
				req->src_len, req->dst, &size);
	if (!ret)
		req->dst_len = size;
	return ret;
}

static int zword_decompress(struct zcomp_params *params, struct zcomp_ctx *ctx,
			    struct zcomp_req *req)
{
	return zword_page_decode(ctx->context, req->src, req->src_len,
				 req->dst, req->dst_len);
}

const struct zcomp_ops backend_zword = {
	.compress	= zword_compress,
	.decompress	= zword_decompress,
	.create_ctx	= zword_create,
	.destroy_ctx	= zword_destroy,
	.setup_params	= zword_setup_params,
	.release_params	= zword_release_params,
	.name		= "zword",
};
