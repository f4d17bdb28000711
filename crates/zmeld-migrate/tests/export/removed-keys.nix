# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  services.zram-generator.enable = true;
  services.zram-generator.settings.zram0 = {
    zram-size = "ram * 0.5";
    zram-resident-limit = "ram * 0.25";
    swap-priority = 100;
    options = "defaults";
  };

}
