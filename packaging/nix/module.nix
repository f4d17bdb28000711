# NixOS: services.zmeld.enable = true; settings are /etc/zmeld.toml.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.zmeld;
  toml = pkgs.formats.toml { };
in
{
  options.services.zmeld = {
    enable = lib.mkEnableOption "swap as zmeld sets it up";
    package = lib.mkOption {
      type = lib.types.package;
      default = pkgs.callPackage ./package.nix { };
      description = "The program.";
    };
    settings = lib.mkOption {
      type = toml.type;
      default = { };
      example = { tier.ram = { kind = "zram"; size = "50%"; }; };
      description = "What is set up: docs/keys.md.";
    };
    kernelModule = lib.mkEnableOption "zmeld.ko and zword.ko, built for the machine's kernel";
  };

  config = lib.mkIf cfg.enable {
    assertions = [{
      assertion = !config.zramSwap.enable;
      message = "services.zmeld and zramSwap would both set up swap in RAM: leave one of them";
    }];
    environment.systemPackages = [ cfg.package ];
    environment.etc."zmeld.toml".source = toml.generate "zmeld.toml" cfg.settings;
    # It makes the units of tiers, and those of `zmeld watch` and
    # `zmeld-guard` where there are rules.
    systemd.generators.zmeld-generator = "${cfg.package}/bin/zmeld";
    boot.extraModulePackages = lib.mkIf cfg.kernelModule [
      (config.boot.kernelPackages.callPackage ./kernel-module.nix { })
    ];
  };
}
