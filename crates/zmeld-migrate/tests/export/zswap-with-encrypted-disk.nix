# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
{ ... }:

{
  swapDevices = [
    {
      device = "/dev/mapper/zmeld-nvme";
      priority = 100;
      options = [ "x-systemd.device-timeout=30s" "x-systemd.makefs" ];
    }
  ];

  environment.etc.crypttab.text = "zmeld-nvme /dev/disk/by-uuid/7a0b1c2d-0000-4000-8000-0123456789ab /etc/zmeld/nvme\\0401.key luks,x-systemd.device-timeout=30s\n";

  boot.kernelParams = [
    "zswap.compressor=lz4"
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
      echo lz4 > compressor
      echo Y > enabled
    '';
  };

}
