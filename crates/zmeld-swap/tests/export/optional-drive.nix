# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  swapDevices = [
    {
      device = "/dev/disk/by-id/nvme-CHEAP_1-part2";
      priority = 100;
      discardPolicy = "once";
      options = [ "nofail" "x-systemd.device-timeout=5s" ];
      randomEncryption = {
        enable = true;
        cipher = "aes-xts-plain64";
        keySize = 512;
        allowDiscards = true;
      };
    }
  ];

}
