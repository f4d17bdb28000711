/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a symbol of bytes says: proven of tables.c, taken for granted in streams.c. */
#ifndef ZM_TESTS_BYTE_SYMBOL_H
#define ZM_TESTS_BYTE_SYMBOL_H

#include "proof.h"

#include "../../zword/tables.h"

static bool is_symbol_of(const struct zword_byte_symbol *symbol, u32 token)
{
	bool is_literals = symbol->literals == ZWORD_LITERALS_LONG;
	bool is_length = symbol->length == ZWORD_MATCH_MIN + ZWORD_LENGTH_LONG;
	u32 length = symbol->match == ZWORD_MATCH_NONE ? 0 :
		     (u32)symbol->length - ZWORD_MATCH_MIN;

	return symbol->match <= ZWORD_MATCH_FAR &&
	       symbol->literals <= ZWORD_LITERALS_LONG &&
	       length <= ZWORD_LENGTH_LONG &&
	       (symbol->match != ZWORD_MATCH_NONE || !symbol->length) &&
	       zword_byte_token(symbol->literals, length, symbol->match) == token &&
	       symbol->is_literals == is_literals &&
	       symbol->is_long == (is_literals || is_length) &&
	       symbol->more_from == (!is_literals ? 256 : is_length ? 0 :
				     ZWORD_COUNT_MAX);
}

#endif /* ZM_TESTS_BYTE_SYMBOL_H */
