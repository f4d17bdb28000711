{
  description = "zmeld makes the memory of a Linux machine go further";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      each = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ];
    in
    {
      packages = each (system: rec {
        zmeld = nixpkgs.legacyPackages.${system}.callPackage ./packaging/nix/package.nix { };
        default = zmeld;
      });
      nixosModules.default = ./packaging/nix/module.nix;
    };
}
