# zmeld.ko and zword.ko for one kernel:
# boot.extraModulePackages = [ (callPackage ... { inherit kernel; }) ].
{ lib, stdenv, kernel }:

stdenv.mkDerivation {
  pname = "zmeld-kmod-${kernel.version}";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = lib.cleanSource ../../store;
  nativeBuildInputs = kernel.moduleBuildDependencies;
  hardeningDisable = [ "pic" ];
  buildPhase = ''
    for folder in kmod crypto; do
      make -C ${kernel.dev}/lib/modules/${kernel.modDirVersion}/build \
        M=$PWD/$folder CONFIG_DEBUG_INFO_BTF_MODULES= modules
    done
  '';
  installPhase = ''
    install -D -t $out/lib/modules/${kernel.modDirVersion}/updates \
      kmod/zmeld.ko crypto/zword.ko
  '';
  meta = {
    description = "Compressed block device that keeps identical pages once, and its codec for zswap";
    license = lib.licenses.gpl2Plus;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
