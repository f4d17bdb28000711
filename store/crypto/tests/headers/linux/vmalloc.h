/* SPDX-License-Identifier: GPL-2.0-or-later */
void *vmalloc(size_t size);
void vfree(const void *memory);
