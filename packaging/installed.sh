# Who sends surveys on; where it is missing, zmeld-survey.service says so.
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers zmeld.conf || true
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# Only where it runs; swap stays on meanwhile.
	systemctl try-restart zmeld-watch.service zmeld-guard.service || true
fi
