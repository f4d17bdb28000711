# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
#
# What NixOS has no option for is done by zmeld: add its package to environment.systemPackages
{ ... }:

{
  environment.etc."zmeld.toml".text = "accept = [\"unused-rule\"]\n\n[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\ncodec = \"lz4\"\npriority = 100\n\n[tier.fast.writeback]\ndevice = \"PARTLABEL=write back\"\nencryption = \"random\"\noptional = true\ntimeout = \"10s\"\n\n[watch.writeback]\npages = \"huge_idle\"\nidle_after = \"4h\"\nevery = \"1h\"\nat_most = \"256MiB\"\n";

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

}
