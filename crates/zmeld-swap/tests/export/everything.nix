# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
#
# swappiness = "auto" is measured by zmeld up; write the number that it finds
#
# To hibernate into the volume of tier nvme, boot.initrd.luks.devices.zmeld-nvme and boot.resumeDevice have to be written by hand
#
# What NixOS has no option for is done by zmeld: import packaging/nix/module.nix, too
{ ... }:

{
  swapDevices = [
    {
      device = "/var/swap/zmeld 1";
      size = 4096;
      priority = 100;
    }
  ];

  boot.kernelParams = [
    "zswap.compressor=zstd"
    "zswap.zpool=z3fold"
    "zswap.max_pool_percent=30"
    "zswap.accept_threshold_percent=80"
    "zswap.shrinker_enabled=Y"
    "zswap.same_filled_pages_enabled=N"
    "zswap.enabled=1"
  ];
  # A codec that is a module cannot be had as early as the parameters are read.
  systemd.services.zmeld-zswap = {
    description = "zswap's parameters";
    wantedBy = [ "multi-user.target" ];
    unitConfig.ConditionPathExists = "/sys/module/zswap/parameters";
    serviceConfig.Type = "oneshot";
    serviceConfig.RemainAfterExit = true;
    script = ''
      cd /sys/module/zswap/parameters
      echo zstd > compressor
      [ ! -e zpool ] || echo z3fold > zpool
      echo 30 > max_pool_percent
      [ ! -e accept_threshold_percent ] || echo 80 > accept_threshold_percent
      [ ! -e shrinker_enabled ] || echo Y > shrinker_enabled
      [ ! -e same_filled_pages_enabled ] || echo N > same_filled_pages_enabled
      echo Y > enabled
    '';
  };

  boot.kernel.sysctl = {
    "vm.page-cluster" = 1;
    "vm.watermark_scale_factor" = 125;
    "vm.watermark_boost_factor" = 0;
    "vm.compaction_proactiveness" = 30;
    "vm.vfs_cache_pressure" = 50;
    "vm.min_free_kbytes" = 65536;
  };

  services.zmeld.enable = true;
  services.zmeld.settings = builtins.fromTOML "accept = [\"lru-inversion\", \"zram-with-zswap\", \"readable-copy\", \"hibernation\", \"unused-rule\"]\n\n[tier.fast]\nkind = \"zmeld\"\nsize = \"min(75%, 8GiB)\"\nmemory_limit = \"25%\"\ncodec = \"lz4:2,dict=/etc/zmeld/pages.dict\"\nrecompress = [\"zstd:3\", \"deflate:9\"]\nmeld = \"inline\"\ncheck_writes = \"on\"\noptional = true\npriority = 32767\ndiscard = \"both\"\n\n[tier.fast.writeback]\ndevice = \"PARTUUID=0e0-01\"\nencryption = \"random\"\ncipher = \"aes-cbc-essiv:sha256\"\nkey_size = 256\ndaily_limit = \"2GiB\"\ncompressed = true\noptional = true\ntimeout = \"5s\"\n\n[tier.nvme]\nkind = \"disk\"\ndevice = \"LABEL=my swap\"\nformat = true\nencryption = \"luks\"\nkey_file = \"/etc/zmeld/nvme.key\"\ncipher = \"serpent-xts-plain64\"\nkey_size = 256\nhibernation = true\npriority = 90\n\n[tunables]\nswappiness = \"auto\"\n\n[watch]\ninterval = \"30s\"\ncpu_pressure_max = \"12.5%\"\ndry_run = true\n\n[watch.recompress]\npages = \"huge\"\nidle_after = \"2h\"\nevery = \"90s\"\nthreshold = \"3KiB\"\nmax_pages = 10000\n\n[watch.writeback]\npages = \"idle\"\nidle_after = \"1d\"\nevery = \"30min\"\nabove = \"80%\"\nat_most = \"64MiB\"\n\n[watch.meld]\nevery = \"1h\"\nduplicates_min = \"2.5%\"\n\n[watch.reclaim]\ngroups = [\"/system.slice\", \"user@*.service\"]\nprotect = [\"ssh.service\"]\nprotect_real_time = false\nmechanism = \"lru_gen\"\nidle_after = \"2min\"\nevery = \"10s\"\nstep = \"0.5%\"\npressure_max = \"0.2%\"\nrefault_max = \"0.5%\"\n\n[watch.guard]\nroom_below = \"12.5%\"\nend_below = \"4%\"\nstalled_above = \"70%\"\nend = [\"/user.slice\", \"batch-*.service\"]\nprotect = [\"gnome-shell*\"]\ngrace = \"5s\"\non_end = [\"/usr/bin/logger\", \"memory\"]\n\n[metrics]\ntextfile = \"/var/lib/node_exporter/zmeld.prom\"\nmelding = true\n";

}
