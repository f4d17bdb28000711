# A compressor that the kernel's command line names is asked for before there is a disk.
if [ @MODULE@ != zword ]; then
	:
elif command -v update-initramfs >/dev/null; then
	update-initramfs -u -k all
elif command -v dracut >/dev/null; then
	dracut --regenerate-all --force
fi || echo "@MODULE@-dkms: the initramfs was not made anew; the reason is above." >&2
