# DKMS builds @MODULE@.ko for the kernels that have headers here, and signs it where it
# has a key. Nothing is loaded.
if [ ! -e /etc/dkms/no-autoinstall ]; then
	# What is there may have been built from other sources, or before there was a key.
	if dkms status -m @MODULE@ -v @VERSION@ | grep -q .; then
		dkms remove -m @MODULE@ -v @VERSION@ --all || :
	fi
	failed=
	tried=
	dkms add -m @MODULE@ -v @VERSION@ || failed=" dkms add"
	for headers in /lib/modules/*/build; do
		[ -e "$headers/Makefile" ] || continue
		kernel=${headers#/lib/modules/}
		kernel=${kernel%/build}
		tried="$tried $kernel"
		# Root runs what is root's.
		if [ "$(stat -L -c %u "$headers/." "$headers/Makefile" | sort -u)" != 0 ]; then
			echo "@MODULE@-dkms: $headers is not root's: left out." >&2
			continue
		fi
		dkms install -m @MODULE@ -v @VERSION@ -k "$kernel" || [ $? = 77 ] ||
			failed="$failed $kernel"
	done
	# The package is no worse for it, and its manager is not to stand still: the next kernel,
	# or headers, may do.
	if [ -n "$failed" ]; then
		echo "@MODULE@-dkms: @MODULE@.ko was not built, for the reason above:$failed" >&2
		echo "@MODULE@-dkms: swap works without it: @WITHOUT@, and zmeld status says why." >&2
	fi
	case "$tried " in
	*" $(uname -r) "*) ;;
	*) echo "@MODULE@-dkms: kernel $(uname -r) has no headers here, and no @MODULE@.ko." >&2 ;;
	esac
fi
if [ -e /sys/module/@MODULE@ ]; then
	echo "@MODULE@-dkms: the module that is loaded stays until the next boot."
fi
