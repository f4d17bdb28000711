systemd() {
	[ -d /run/systemd/system ]
}

# Takes back what `zmeld up` did before the program that can do so is gone. Where
# pages in swap do not fit back into RAM, the package stays, and says so.
running=
if systemd; then
	for unit in zmeld-watch.service zmeld-guard.service; do
		! systemctl -q is-active $unit || running="$running $unit"
	done
	[ -z "$running" ] || systemctl stop $running
fi
if [ -e /run/zmeld/state.json ] || [ -e /run/zmeld/experiment.json ]; then
	if ! zmeld down; then
		[ -z "$running" ] || systemctl start $running || true
		echo "zmeld: not removed, since its swap is still on (the line above says why)." >&2
		echo "zmeld: end programs or add memory, or run zmeld down --force, then remove it again." >&2
		exit 1
	fi
fi
# Units of the generator, which have nothing left to do.
if systemd; then
	systemctl stop zmeld-survey.timer zmeld.service 'zmeld-tier-*.service' || true
fi
