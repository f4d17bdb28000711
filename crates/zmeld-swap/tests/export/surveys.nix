# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
#
# What NixOS has no option for is done by zmeld: add its package to environment.systemPackages
{ ... }:

{
  environment.etc."zmeld.toml".text = "accept = [\"unused-rule\"]\n\n[watch.survey]\nplace = \"/srv/our surveys\"\nkey = \"/etc/zmeld/fleet.key\"\nevery = \"1d\"\n";

  systemd.services.zmeld-watch = {
    description = "Recompression, writeback and melding of swapped pages, reclaim and guard";
    wantedBy = [ "multi-user.target" ];
    serviceConfig.ExecStart = "/run/current-system/sw/bin/zmeld watch";
    serviceConfig.Restart = "on-failure";
  };

}
