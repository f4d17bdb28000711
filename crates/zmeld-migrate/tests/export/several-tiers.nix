# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
#
# What NixOS has no option for is done by zmeld: add its package to environment.systemPackages
{ ... }:

{
  services.zram-generator.enable = true;
  services.zram-generator.settings.zram0 = {
    zram-size = "ram * 0.5";
    zram-resident-limit = "ram * 0.25";
    compression-algorithm = "lz4(level=2) zstd (type=idle)";
    swap-priority = 90;
    options = "defaults";
  };

  swapDevices = [
    {
      device = "/dev/disk/by-partuuid/0e0-01";
      priority = 80;
      options = [ "nofail" "x-systemd.device-timeout=30s" ];
      randomEncryption = {
        enable = true;
        cipher = "aes-xts-plain64";
        keySize = 512;
      };
    }
    {
      device = "/dev/disk/by-label/swap";
      priority = 70;
      options = [ "x-systemd.device-timeout=30s" ];
    }
  ];

  environment.etc."zmeld.toml".text = "accept = [\"lru-inversion\", \"unused-rule\"]\n\n[tier.fast]\nkind = \"zmeld\"\nsize = \"50%\"\nrecompress = [\"zstd:dict=/etc/zmeld/pages.dict\"]\nmeld = \"auto\"\npriority = 100\n\n[watch.recompress]\npages = \"idle\"\nidle_after = \"1h\"\nevery = \"10min\"\n\n[watch.meld]\nevery = \"10min\"\nduplicates_min = \"5%\"\n\n[watch.guard]\nroom_below = \"10%\"\nend_below = \"5%\"\nstalled_max = \"60%\"\nend = [\"/user.slice\"]\ngrace = \"3s\"\n\n[metrics]\ntextfile = \"/var/lib/node exporter/zmeld.prom\"\n";

  systemd.services.zmeld = {
    description = "Swap of zmeld";
    wantedBy = [ "swap.target" ];
    serviceConfig.Type = "oneshot";
    serviceConfig.RemainAfterExit = true;
    serviceConfig.ExecStart = "/run/current-system/sw/bin/zmeld up --boot --only fast";
    serviceConfig.ExecStop = "/run/current-system/sw/bin/zmeld down --boot --only fast";
    serviceConfig.TimeoutStopSec = "180";
    serviceConfig.NotifyAccess = "exec";
    serviceConfig.KillMode = "process";
  };

  systemd.services.zmeld-watch = {
    description = "Recompression, writeback and melding of swapped pages, and reclaim";
    wantedBy = [ "multi-user.target" ];
    serviceConfig.ExecStart = "/run/current-system/sw/bin/zmeld watch";
    serviceConfig.Restart = "on-failure";
  };

  systemd.services.zmeld-guard = {
    description = "Ends a program before memory is gone";
    wantedBy = [ "multi-user.target" ];
    serviceConfig.ExecStart = "/run/current-system/sw/bin/zmeld-guard";
    serviceConfig.Restart = "on-failure";
    serviceConfig.OOMScoreAdjust = -1000;
  };

}
