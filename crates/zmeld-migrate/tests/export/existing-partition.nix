# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  swapDevices = [
    {
      device = "/dev/sda2";
      priority = 5;
      options = [ "x-systemd.device-timeout=30s" ];
    }
  ];

}
