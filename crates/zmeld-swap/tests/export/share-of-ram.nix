# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  swapDevices = [
    {
      device = "/swapfile";
      # 25% of 8192 MiB of RAM
      size = 2048;
      priority = 100;
    }
  ];

}
