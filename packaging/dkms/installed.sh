# DKMS builds @MODULE@.ko for the kernels that have headers here, and signs it where it
# has a key. Nothing is loaded.
dkms add -m @MODULE@ -v @VERSION@ || :
built=yes
for headers in /lib/modules/*/build; do
	# Root runs what is root's.
	if [ ! -e "$headers/Makefile" ] ||
		[ "$(stat -L -c %u "$headers/." "$headers/Makefile" | sort -u)" != 0 ]; then
		echo "@MODULE@-dkms: $headers: no headers that are root's, left out." >&2
		continue
	fi
	kernel=${headers#/lib/modules/}
	[ -e /etc/dkms/no-autoinstall ] ||
		dkms install -m @MODULE@ -v @VERSION@ -k "${kernel%/build}" --force ||
		[ $? = 77 ] || built=
done
# The package is no worse for it, and its manager is not to stand still: the next kernel, or
# headers, may do.
if [ -z "$built" ]; then
	echo "@MODULE@-dkms: @MODULE@.ko was not built for every kernel; the reason is above and in" >&2
	echo "  /var/lib/dkms/@MODULE@/@VERSION@/build/make.log" >&2
	echo "@MODULE@-dkms: swap works without it: @WITHOUT@, and zmeld status says why." >&2
fi
if [ -e /sys/module/@MODULE@ ]; then
	echo "@MODULE@-dkms: the module that is loaded stays until the next boot."
fi
