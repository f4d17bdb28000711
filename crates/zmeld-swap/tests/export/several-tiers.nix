# Swap, written by zmeld export nixos. Import it in configuration.nix:
#   imports = [ ./swap.nix ];
#
# What NixOS has no option for is done by zmeld: import packaging/nix/module.nix, too
{ ... }:

{
  services.zram-generator.enable = true;
  services.zram-generator.settings.zram0 = {
    zram-size = "min(ram * 0.5, 4096)";
    zram-resident-limit = "ram * 0.25";
    compression-algorithm = "lz4(level=2) zstd (type=idle)";
    swap-priority = 90;
    options = "discard";
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
      priority = 0;
      options = [ "x-systemd.device-timeout=30s" ];
    }
  ];

  services.zmeld.enable = true;
  services.zmeld.settings = builtins.fromTOML "accept = [\"lru-inversion\", \"unused-rule\"]\n\n[tier.fast]\nkind = \"zmeld\"\nsize = \"50%\"\nrecompress = [\"zstd:dict=/etc/zmeld/pages.dict\"]\nmeld = \"auto\"\npriority = 100\n\n[watch.recompress]\npages = \"idle\"\nidle_after = \"1h\"\nevery = \"10min\"\nthreshold = \"0\"\n\n[watch.meld]\nevery = \"10min\"\nduplicates_min = \"5%\"\n\n[watch.guard]\nroom_below = \"15%\"\nend_below = \"10%\"\nstalled_above = \"60%\"\nend = [\"/user.slice\"]\ngrace = \"3s\"\n\n[metrics]\ntextfile = \"/var/lib/node exporter/zmeld.prom\"\n";

}
