# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  swapDevices = [
    {
      device = "/var/100% swap/zmeld";
      size = 4096;
      priority = 100;
    }
  ];

}
